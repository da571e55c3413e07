"""Where the rows of a log lie on the screen, wrapped or not."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence

from rich.cells import cell_len, chop_cells

from remote.run.state.types import LogLine


class RowLayout:
    """The places of rows, which take one screen line each or, wrapped, as many as they need."""

    def __init__(self, get_text: Callable[[LogLine], str], width: int = 0) -> None:
        """Lay out rows with these texts. They are wrapped to a width, if it is not 0."""
        self._get_text = get_text
        # A wide character takes two cells, so that a narrower line could hold none.
        self.width = max(2, width)
        self.is_wrapped = width > 0
        self._ends: list[int] = []
        """For each row, the screen line after its last one."""

    @property
    def height(self) -> int:
        """The screen lines that all rows take."""
        return self._ends[-1] if self._ends else 0

    def add(self, rows: Sequence[LogLine]) -> None:
        """Add rows at the bottom."""
        end = self.height
        if not self.is_wrapped:
            self._ends += range(end + 1, end + len(rows) + 1)
            return
        for row in rows:
            end += len(self._piece_starts(self._get_text(row)))
            self._ends.append(end)

    def lay_out_from(self, first: int, rows: Sequence[LogLine]) -> None:
        """Lay out anew the rows from `first` on, of all these rows."""
        laid_out = len(self._ends)
        del self._ends[first:]
        self.add(rows[first:laid_out])

    def trim(self, rows: int) -> int:
        """Drop this many rows at the top and return the screen lines that they took."""
        dropped = self.top(rows)
        self._ends = [end - dropped for end in self._ends[rows:]]
        return dropped

    def top(self, row: int) -> int:
        """Return the first screen line of a row."""
        return self._ends[row - 1] if row else 0

    def locate(self, y: int) -> tuple[int, int]:
        """Return the row on screen line `y`, and which of its pieces lies there."""
        row = bisect_right(self._ends, y)
        return row, y - self.top(row)

    def span(self, text: str, piece: int) -> tuple[int, int]:
        """Return the first cell of a piece of a text, and the cell after its last one."""
        limits = [*self._piece_starts(text), cell_len(text)]
        return limits[piece], limits[piece + 1]

    def _piece_starts(self, text: str) -> list[int]:
        """Return the first cell of each piece; a piece ends between words if that fills half of
        its line."""
        # Each character takes one cell then, and nothing has to be measured.
        is_ascii = text.isascii()
        starts = [0]
        begin = 0
        while True:
            if is_ascii:
                piece = text[begin : begin + self.width]
            else:
                piece = next(iter(chop_cells(text[begin : begin + 2 * self.width], self.width)), "")
            if begin + len(piece) >= len(text):
                return starts
            word_start = piece.rfind(" ") + 1
            if word_start > len(piece) // 2:
                piece = piece[:word_start]
            begin += len(piece)
            starts.append(starts[-1] + (len(piece) if is_ascii else cell_len(piece)))
