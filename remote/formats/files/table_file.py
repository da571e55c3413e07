"""Tables whose first line names the columns: Lightning's metrics.csv, Ultralytics' results.csv and
their like."""

from __future__ import annotations

import csv
from collections.abc import Sequence

from remote.formats.files.entries import EntryFile
from remote.formats.names import PLACES, canonical, is_outcome
from remote.formats.reading import Reading

_SEPARATORS = (",", "\t", ";")
_LIGHTNING = "metrics.csv"


class TableFile(EntryFile):
    """Reads one table. Empty cells and words report nothing. A later line of names names the
    columns anew."""

    def __init__(self, file_name: str) -> None:
        super().__init__("table")
        self._file_name = file_name
        self._columns: list[str] = []
        self._separator = ","

    def _read_line(self, line: str) -> list[Reading]:
        if not self._columns:
            self._separator = max(_SEPARATORS, key=line.count)
        cells = self._cells(line)
        if self._is_header(cells):
            self._begin_columns(cells)
            return []
        entry: list[tuple[str, float]] = []
        for name, cell in zip(self._columns, cells, strict=False):
            value = _parse_cell(cell)
            if name and value is not None:
                entry.append((name, value))
        return self._reading(entry)

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
        # Later on, a row of words may be data. It is a header only with a name that is known.
        return not self._columns or any(map(_is_known_name, words))

    def _begin_columns(self, columns: list[str]) -> None:
        if not self._columns:
            is_lightning = self._file_name == _LIGHTNING and {"epoch", "step"} <= set(columns)
            # Lightning writes every 50th step: the first one is 49, and still counts from 0.
            self._begin(from_0=is_lightning)
        self._columns = columns


def _is_known_name(printed: str) -> bool:
    name, _ = canonical(printed)
    return name in PLACES or is_outcome(name)


def _parse_cell(cell: str) -> float | None:
    try:
        return float(cell)
    except ValueError:
        return None
