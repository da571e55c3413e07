"""Writes a folder with one CSV file per table, and `run.json` with settings and summary."""

from __future__ import annotations

import csv
import io
import re
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from remote.metrics.run import RunFigures
from tui.export.folder import write_folder
from tui.export.number_text import format_columns
from tui.export.tables import Column, ExportTable

_PLAIN_NAME = re.compile(r"[\w.-]+", re.ASCII)
"""A text that needs no quotes."""


class CsvRows(NamedTuple):
    """Rows of a table as they stand in a file."""

    names: tuple[str, ...]
    pieces: list[bytes]


class CsvFiles:
    """CSV files that are being written."""

    is_shared = True

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @staticmethod
    def convert(table: ExportTable) -> CsvRows:
        """Return the rows of a table. Floats are read back as they are: those of steps, which
        agents send as such of 32 bits, as floats of 32 bits. A whole number has no decimals."""
        columns = [*table.values()]
        are_plain = all(map(_is_plain, columns))
        pieces = [*format_columns(columns)] if are_plain else [_format_each(columns)]
        return CsvRows(tuple(table), pieces)

    def append(self, name: str, rows: CsvRows) -> None:
        """Write further rows, after the names of the columns. Raises: OSError."""
        with (self._folder / f"{name}.csv").open("ab") as file:
            if not file.tell():
                file.write(",".join(rows.names).encode() + b"\n")
            file.writelines(rows.pieces)

    def close(self) -> None:
        """Leave the files as they are, as none is open."""


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


def write(run: RunFigures, target: Path) -> None:
    """Write the folder. Raises: OSError; RunFolderError."""
    write_folder(run, target, CsvFiles(target))
