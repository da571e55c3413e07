"""A table of a run as columns of numpy."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib import format as npy_format
from numpy.typing import NDArray

READ_ROWS = 1 << 16
"""Rows of a file that are read at once."""

STEP_COLUMNS = (
    "rank",
    "step",
    "epoch",
    "time",
    "loss",
    "seconds",
    "data",
    "compute",
    "sync",
    "ready",
    "samples",
    "correct",
    "bytes_sent",
    "cpu_seconds",
)
"""Columns of a table of steps that has no rows yet."""


class Columns(Mapping[str, NDArray[Any]]):
    """A table: a column of numpy for each name, all of one length. NaN is what is not known."""

    def __init__(self, columns: Mapping[str, NDArray[Any]]) -> None:
        self._columns = dict(columns)

    @property
    def num_rows(self) -> int:
        """Return the number of rows."""
        return len(next(iter(self._columns.values()), ()))

    def of_rank(self, rank: int) -> Columns:
        """Return the rows of one rank."""
        is_of_rank = self["rank"] == rank
        return Columns({name: column[is_of_rank] for name, column in self.items()})

    def to_pandas(self) -> Any:
        """Return a DataFrame of pandas, which has to be installed."""
        return import_module("pandas").DataFrame(self._columns)

    def __getitem__(self, name: str) -> NDArray[Any]:
        return self._columns[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def __len__(self) -> int:
        return len(self._columns)

    def __repr__(self) -> str:
        return f"Columns of {self.num_rows} rows: {', '.join(self)}"


def make_empty_steps() -> Columns:
    """Return a table of steps that has no rows yet."""
    return Columns({name: np.empty(0) for name in STEP_COLUMNS})


def read_table(path: Path) -> Columns:
    """Read a table that `rankboard export --to numpy` wrote. Steps are in order of rank.

    It takes the memory of the columns and little more. Raises: OSError.
    """
    columns = _read_fields(path)
    if path.stem == "steps":
        _sort_by_rank(columns)
    return Columns(columns)


def _sort_by_rank(columns: dict[str, NDArray[Any]]) -> None:
    """Sort rows by rank. Those of a long run are in parts, in each of which are all ranks."""
    if (np.diff(columns["rank"]) < 0).any():
        order = np.argsort(columns["rank"], kind="stable")
        for name in columns:  # one after the other, for the sake of memory
            columns[name] = columns[name][order]


def _read_fields(path: Path) -> dict[str, NDArray[Any]]:
    """Read the fields of an array of records."""
    with path.open("rb") as file:
        npy_format.read_magic(file)
        (num_rows,), _, kind = npy_format.read_array_header_1_0(file)
        columns = {name: np.empty(num_rows, kind[name]) for name in kind.names or ()}
        for begin in range(0, num_rows, READ_ROWS):
            records = np.fromfile(file, kind, READ_ROWS)
            for name, column in columns.items():
                column[begin : begin + len(records)] = records[name]
    # Texts of numpy have one width, and are no objects of Python.
    return {
        name: column.astype(object) if column.dtype.kind == "U" else column
        for name, column in columns.items()
    }
