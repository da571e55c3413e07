"""Where the rows of a log lie on the screen when long ones are wrapped."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable

from rich.cells import cell_len, chop_cells


class WrappedRows:
    """The places of rows that each take as many screen lines as their text needs."""

    def __init__(self, width: int) -> None:
        self.width = max(2, width)
        self._ends: list[int] = []
        """For each row, the screen line after its last one."""

    @property
    def rows(self) -> int:
        """The number of rows."""
        return len(self._ends)

    @property
    def height(self) -> int:
        """The screen lines that all rows take."""
        return self._ends[-1] if self._ends else 0

    def add(self, texts: Iterable[str]) -> None:
        """Add rows with these texts at the bottom."""
        end = self.height
        for text in texts:
            end += len(self._piece_starts(text))
            self._ends.append(end)

    def truncate(self, rows: int) -> None:
        """Drop all rows but the first `rows`."""
        del self._ends[rows:]

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
        starts = self._piece_starts(text)
        is_last = piece + 1 == len(starts)
        return starts[piece], cell_len(text) if is_last else starts[piece + 1]

    def _piece_starts(self, text: str) -> list[int]:
        if text.isascii():
            return list(range(0, max(1, len(text)), self.width))
        starts = [0]
        for piece in chop_cells(text, self.width)[:-1]:
            starts.append(starts[-1] + cell_len(piece))
        return starts
