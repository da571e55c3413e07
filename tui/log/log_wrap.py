"""Where the rows of a log lie when long ones are wrapped."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable

from rich.cells import cell_len, chop_cells


class WrappedRows:
    """Where the rows lie when each takes as many lines of the screen as its text needs."""

    def __init__(self, width: int) -> None:
        self.width = max(2, width)
        self._ends: list[int] = []

    @property
    def rows(self) -> int:
        """How many rows there are."""
        return len(self._ends)

    @property
    def height(self) -> int:
        """Lines of the screen that all rows take."""
        return self._ends[-1] if self._ends else 0

    def add(self, texts: Iterable[str]) -> None:
        """More rows."""
        end = self.height
        for text in texts:
            end += len(self.pieces(text))
            self._ends.append(end)

    def keep(self, rows: int) -> None:
        """Keep only so many rows: the others are to be added again."""
        del self._ends[rows:]

    def trim(self, rows: int) -> int:
        """Let go of so many rows at the top; returns the lines of the screen that they took."""
        gone = self.top(rows)
        self._ends = [end - gone for end in self._ends[rows:]]
        return gone

    def top(self, row: int) -> int:
        """The first line of a row."""
        return self._ends[row - 1] if row else 0

    def at(self, y: int) -> tuple[int, int]:
        """The row on line `y` of all, and which piece of it."""
        row = bisect_right(self._ends, y)
        return row, y - self.top(row)

    def span(self, text: str, piece: int) -> tuple[int, int]:
        """The cells of a text between which a piece of its row lies."""
        starts = self.pieces(text)
        return starts[piece], starts[piece + 1] if piece + 1 < len(starts) else cell_len(text)

    def pieces(self, text: str) -> list[int]:
        """The cell at which each piece of a row begins."""
        if text.isascii():
            return list(range(0, max(1, len(text)), self.width))
        starts = [0]
        for piece in chop_cells(text, self.width)[:-1]:
            starts.append(starts[-1] + cell_len(piece))
        return starts
