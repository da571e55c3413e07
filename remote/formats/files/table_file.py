"""Tables whose first line names the columns: Lightning's metrics.csv, Ultralytics' results.csv and
their like."""

from __future__ import annotations

import csv
from collections.abc import Sequence

from remote.formats.files.entries import FileEntries, LineJoiner
from remote.formats.names import PLACES, canonical, is_outcome
from remote.formats.reading import Reading

_SEPARATORS = (",", "\t", ";")
_LIGHTNING = "metrics.csv"


class TableFile:
    """Reads one table. Empty cells and words report nothing. A later line of names names the
    columns anew."""

    unread = 0

    def __init__(self, file_name: str) -> None:
        self.format = ""
        self._file_name = file_name
        self._lines = LineJoiner()
        self._columns: list[str] = []
        self._separator = ","
        self._entries = FileEntries()

    def read(self, text: str) -> list[Reading]:
        """Return what the rows report."""
        readings = map(self._read_row, self._lines.feed(text))
        return [reading for reading in readings if reading is not None]

    def _read_row(self, line: str) -> Reading | None:
        if not self._columns:
            self._separator = max(_SEPARATORS, key=line.count)
        cells = self._cells(line)
        if self._is_header(cells):
            self._begin(cells)
            return None
        pairs: list[tuple[str, float]] = []
        for name, cell in zip(self._columns, cells, strict=False):
            value = _parse_cell(cell)
            if name and value is not None:
                pairs.append((name, value))
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
        words = [cell for cell in cells if cell]
        if not words or any(_parse_cell(cell) is not None for cell in words):
            return False
        return not self._columns or any(map(_is_known_name, words))

    def _begin(self, columns: list[str]) -> None:
        if not self._columns:
            is_lightning = self._file_name == _LIGHTNING and {"epoch", "step"} <= set(columns)
            # Lightning writes every 50th step: the first one is 49, and still counts from 0.
            self._entries = FileEntries(from_0=is_lightning)
        self._columns = columns


def _is_known_name(printed: str) -> bool:
    name, _ = canonical(printed)
    return name in PLACES or is_outcome(name)


def _parse_cell(cell: str) -> float | None:
    try:
        return float(cell)
    except ValueError:
        return None
