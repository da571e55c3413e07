"""Tables whose first line names the columns: Lightning's metrics.csv, Ultralytics' results.csv and
their like."""

from __future__ import annotations

import csv
from collections.abc import Sequence

from remote.formats.files.entries import Entries, Lines
from remote.formats.names import PLACES, canonical, is_outcome
from remote.formats.reading import Reading

_SEPARATORS = (",", "\t", ";")
_LIGHTNING = "metrics.csv"


class Table:
    """Reads one table. Empty cells and words tell nothing. A later line of names names the columns
    anew."""

    unread = 0

    def __init__(self, name: str) -> None:
        """`name`: that of the file."""
        self._name = name
        self._lines = Lines()
        self._columns: list[str] = []
        self._separator = ","
        self._entries = Entries()
        self.format = ""

    def read(self, text: str) -> list[Reading]:
        """What the rows tell."""
        found = map(self._row, self._lines.of(text))
        return [reading for reading in found if reading is not None]

    def _row(self, line: str) -> Reading | None:
        if not self._columns:
            self._separator = max(_SEPARATORS, key=line.count)
        cells = self._cells(line)
        if self._is_header(cells):
            self._begin(cells)
            return None
        pairs = [
            (name, value)
            for name, cell in zip(self._columns, cells, strict=False)
            if name and (value := _number(cell)) is not None
        ]
        reading = self._entries.reading(pairs)
        if reading is not None:
            self.format = self.format or "table"
        return reading

    def _cells(self, line: str) -> list[str]:
        try:
            row = next(csv.reader([line], delimiter=self._separator), [])
        except csv.Error:  # a cell that is too long
            return []
        return [cell.strip() for cell in row]

    def _is_header(self, cells: Sequence[str]) -> bool:
        named = [cell for cell in cells if cell]
        if not named or any(_number(cell) is not None for cell in named):
            return False
        return not self._columns or any(map(_is_known, named))

    def _begin(self, columns: list[str]) -> None:
        if not self._columns:
            is_lightning = self._name == _LIGHTNING and {"epoch", "step"} <= set(columns)
            self._entries = Entries(from_0=is_lightning)
        self._columns = columns


def _is_known(name: str) -> bool:
    known, _ = canonical(name)
    return known in PLACES or is_outcome(known)


def _number(cell: str) -> float | None:
    try:
        return float(cell)
    except ValueError:
        return None
