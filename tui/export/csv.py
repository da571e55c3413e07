"""Writes a folder with one CSV file per table, and `run.json` with settings and summary."""

from __future__ import annotations

import csv
import gc
import io
import math
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np

from tui.export.folder import FolderWriter
from tui.export.tables import Column, ExportTable

DIGITS = 9
"""As many digits tell any two floats of 32 bits apart."""
PART = 4096
"""Rows that are formatted together: what they are made of stays in the caches of a core."""
_PLAIN_NAME = re.compile(r"[\w.-]*", re.ASCII)
"""A text that is the same in JSON, but for the quotes, and in CSV."""


class CsvRows(NamedTuple):
    """Rows of a table as they stand in a file."""

    names: tuple[str, ...]
    text: bytes


class CsvFile:
    """A CSV file that is being written."""

    def __init__(self, path: Path) -> None:
        """Raises: OSError."""
        self._file = path.open("xb")

    def write(self, rows: CsvRows) -> None:
        """Write further rows, after the names of the columns. Raises: OSError."""
        if not self._file.tell():
            self._file.write(",".join(rows.names).encode() + b"\n")
        self._file.write(rows.text)

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def format_rows(table: ExportTable) -> CsvRows:
    """Return the rows of a table. Floats are read back as they are: those of steps, which agents
    send as such of 32 bits, as floats of 32 bits. A whole number has no decimals."""
    columns = [_shorten(column) for column in table.values()]
    text = _format_as_json(columns) if all(map(_is_plain, columns)) else _format_each(columns)
    return CsvRows(tuple(table), text)


def _shorten(column: Column) -> Column:
    """Return a column with whole numbers as such, and with the digits of floats of 32 bits if it
    has only such."""
    if not isinstance(column, np.ndarray) or column.dtype != np.float64:
        return column
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        if (np.rint(column) == column).all() and (np.abs(column) < 2.0**53).all():
            return column.astype(np.int64)
        narrow_column = column.astype(np.float32)
        if not ((narrow_column == column) | np.isnan(column)).all():
            return column
        # Digits enough for the largest; a number that is much smaller keeps all of its own.
        largest = np.abs(column[np.isfinite(column)]).max(initial=0.0)
        decimals = DIGITS - math.floor(math.log10(largest)) if largest > 0 else 0
        shortened = np.round(column, decimals)
        return np.where(shortened.astype(np.float32) == narrow_column, shortened, column)


def _is_plain(column: Column) -> bool:
    """Return True if a column looks the same in JSON, but for NaN, which is null there."""
    if isinstance(column, np.ndarray):
        return not np.isinf(column).any()
    return all(isinstance(value, str) and _PLAIN_NAME.fullmatch(value) for value in {*column})


def _format_as_json(columns: list[Column]) -> bytes:
    """Return rows of CSV, formatted as JSON, which is ten times as fast."""
    with _without_garbage_collection():
        parts = [
            _format_part([column[start : start + PART] for column in columns])
            for start in range(0, len(columns[0]), PART)
        ]
    text = b"".join(parts)
    if any(isinstance(column, list) for column in columns):
        text = text.replace(b'"', b"")
    if any(map(_has_nan, columns)):
        text = text.replace(b"null", b"nan")
    return text


def _format_part(columns: list[Column]) -> bytes:
    text = msgspec.json.encode([*zip(*map(_as_list, columns), strict=True)])
    return text.removeprefix(b"[[").removesuffix(b"]]").replace(b"],[", b"\n") + b"\n"


def _as_list(column: Column) -> list[Any]:
    return column.tolist() if isinstance(column, np.ndarray) else column


def _has_nan(column: Column) -> bool:
    return isinstance(column, np.ndarray) and bool(np.isnan(column).any())


@contextmanager
def _without_garbage_collection() -> Iterator[None]:
    """Make many objects without a search for cycles among them, which takes as long again."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _format_each(columns: list[Column]) -> bytes:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    for row in zip(*map(_as_list, columns), strict=True):
        writer.writerow(map(_format_cell, row))
    return text.getvalue().encode()


def _format_cell(value: Any) -> Any:
    return repr(value).removesuffix(".0") if isinstance(value, float) else value


write = FolderWriter(".csv", format_rows, CsvFile).write
