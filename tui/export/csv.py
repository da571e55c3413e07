"""Writes a folder with one CSV file per table, and `run.json` with settings and summary."""

from __future__ import annotations

import csv
import io
import re
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tui.export.folder import FolderWriter
from tui.export.number_text import format_columns
from tui.export.tables import Column, ExportTable

_PLAIN_NAME = re.compile(r"[\w.-]+", re.ASCII)
"""A text that needs no quotes."""


class CsvRows(NamedTuple):
    """Rows of a table as they stand in a file."""

    names: tuple[str, ...]
    pieces: list[bytes]


class CsvFile:
    """A CSV file that is being written."""

    def __init__(self, path: Path) -> None:
        """Raises: OSError."""
        self._file = path.open("xb")

    def write(self, rows: CsvRows) -> None:
        """Write further rows, after the names of the columns. Raises: OSError."""
        if not self._file.tell():
            self._file.write(",".join(rows.names).encode() + b"\n")
        self._file.writelines(rows.pieces)

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def format_rows(table: ExportTable) -> CsvRows:
    """Return the rows of a table. Floats are read back as they are: those of steps, which agents
    send as such of 32 bits, as floats of 32 bits. A whole number has no decimals."""
    columns = [*table.values()]
    are_plain = all(map(_is_plain, columns))
    pieces = [*format_columns(columns)] if are_plain else [_format_each(columns)]
    return CsvRows(tuple(table), pieces)


def _is_plain(column: Column) -> bool:
    """Return True if a column has only numbers, or texts that need no quotes."""
    if isinstance(column, np.ndarray):
        return True
    return all(isinstance(value, str) and _PLAIN_NAME.fullmatch(value) for value in {*column})


def _format_each(columns: list[Column]) -> bytes:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    lists = [column.tolist() if isinstance(column, np.ndarray) else column for column in columns]
    for row in zip(*lists, strict=True):
        writer.writerow(map(_format_cell, row))
    return text.getvalue().encode()


def _format_cell(value: Any) -> Any:
    return repr(value).removesuffix(".0") if isinstance(value, float) else value


write = FolderWriter(".csv", format_rows, CsvFile).write
