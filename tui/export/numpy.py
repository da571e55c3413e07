"""Writes a folder with one file of numpy per table, and `run.json` with settings and summary.

A file is an array of records, a field for each column: `numpy.load("steps.npy")["loss"]`.
"""

from __future__ import annotations

from os import SEEK_END
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.lib import format as npy_format
from numpy.typing import NDArray

from remote.metrics.run import RunFigures
from tui.export.folder import write_folder
from tui.export.tables import Column, ExportTable, count_rows


class NumpyFiles:
    """Files of numpy that are being written."""

    is_shared = True

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @staticmethod
    def convert(table: ExportTable) -> NDArray[Any]:
        """Return the rows of a table."""
        columns = {name: _make_array(column) for name, column in table.items()}
        kinds = [(name, column.dtype) for name, column in columns.items()]
        records = np.empty(count_rows(table), kinds)
        for name, column in columns.items():
            records[name] = column
        return records

    def append(self, name: str, rows: NDArray[Any]) -> None:
        """Write further rows. Raises: OSError."""
        path = self._folder / f"{name}.npy"
        with path.open("r+b" if path.exists() else "xb") as file:
            has_rows = file.seek(0, SEEK_END) > 0
            num_rows = len(rows) + (_count_records(file) if has_rows else 0)
            _write_header(file, rows.dtype, num_rows)
            file.seek(0, SEEK_END)
            file.write(rows.data)

    def close(self) -> None:
        """Leave the files as they are, as none is open."""


def write(run: RunFigures, target: Path) -> None:
    """Write the folder. Raises: OSError; RunFolderError."""
    write_folder(run, target, NumpyFiles(target))


def _make_array(column: Column) -> NDArray[Any]:
    """Return a column as an array of numbers or texts. What is not known is NaN."""
    array = np.asarray(column)
    return array.astype(np.float64) if array.dtype == object else array


def _count_records(file: BinaryIO) -> int:
    file.seek(0)
    npy_format.read_magic(file)
    (num_records,), _, _ = npy_format.read_array_header_1_0(file)
    return int(num_records)


def _write_header(file: BinaryIO, kind: np.dtype[Any], num_records: int) -> None:
    """Write the header of a file, which is as long for any number of records."""
    header = {
        "descr": npy_format.dtype_to_descr(kind),
        "fortran_order": False,
        "shape": (num_records,),
    }
    file.seek(0)
    npy_format.write_array_header_1_0(file, header)
