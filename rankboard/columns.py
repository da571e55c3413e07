"""A table of a run as columns of numpy."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

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

    def __init__(self, columns: Mapping[str, Sequence[Any] | NDArray[Any]]) -> None:
        self._columns = {name: _make_array(values) for name, values in columns.items()}

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


def _make_array(values: Sequence[Any] | NDArray[Any]) -> NDArray[Any]:
    if isinstance(values, np.ndarray):
        return values
    array = np.array(values)
    if array.dtype.kind == "U":
        return array.astype(object)
    has_text = array.dtype == object and any(isinstance(value, str) for value in values)
    if array.dtype != object or has_text:
        return array
    return array.astype(np.float64)  # in JSON, null is a number that is not known
