"""Keeps numbers that never end in bounded memory. Needs numpy, so it is imported late."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
Columns = dict[str, NDArray[Any]]

FARTHEST = 2.0**62
"""Places further along x than this count as this one: the numbers of buckets are of 64 bits."""
JOINS = {
    "x": np.add,
    "other": np.add,
    "points": np.add,
    "total": np.add,
    "known": np.add,
    "low": np.minimum,
    "high": np.maximum,
}
"""The columns of buckets, and how the values of two buckets become one."""


@dataclass(frozen=True, eq=False)
class Points:
    """A curve: columns of one length, in order. Values are NaN if none was a number."""

    step: Floats
    """The mean step of the values that a point stands for."""
    time: Floats
    """Their mean time, in seconds since the run began."""
    low: Floats
    """The least of them."""
    high: Floats
    """The greatest of them."""
    mean: Floats
    lowest: Ints
    """The row, such as a rank, that had `low`."""
    highest: Ints
    """The row that had `high`."""

    def __len__(self) -> int:
        return len(self.step)

    def lasting(self) -> Points:
        """Return the points that count: a run that was restarted makes some steps anew."""
        least_later_step = np.minimum.accumulate(self.step[::-1])[::-1]
        is_lasting = self.step <= least_later_step
        return Points(*(column[is_lasting] for column in vars(self).values()))


_NO_VALUES = np.empty(0)
_NO_ROWS = np.empty(0, np.int64)
NO_POINTS = Points(_NO_VALUES, _NO_VALUES, _NO_VALUES, _NO_VALUES, _NO_VALUES, _NO_ROWS, _NO_ROWS)


@dataclass(frozen=True, eq=False)
class Buckets:
    """What was measured at places along x: one line for each row and place, in order of both.

    `x` and `other` are sums of step and time, or of time and step, over so many `points`. The rest
    has a column for each figure: the `total` of the values that are numbers, how many are `known`,
    and the ends of their range.
    """

    row: Ints
    place: Ints
    """The number of the bucket; at first, the whole part of x."""
    columns: Columns
    """By the names in `JOINS`."""

    @classmethod
    def gather(
        cls, row: Ints, owners: Ints | None, x: Floats, other: Floats, values: Floats
    ) -> Buckets:
        """Gather points. `owners` are the ranks or cores that they are of, None if nobody asks.

        `x` is their step or their time, `other` the other one of these; `values` has a column for
        each figure.
        """
        is_known = ~np.isnan(values)
        low: NDArray[Any] = np.where(is_known, values, np.inf)
        high: NDArray[Any] = np.where(is_known, values, -np.inf)
        if owners is not None:
            # Complex numbers are in order of their real parts, then of their imaginary ones: the
            # owner of the least value goes with it, of equal ones the first.
            low = low + 1j * owners[:, None]
            high = high - 1j * owners[:, None]
        columns = {
            "x": x,
            "other": other,
            "points": np.ones(len(row), np.int64),
            "total": np.where(is_known, values, 0.0),
            "known": is_known.astype(np.int64),
            "low": low,
            "high": high,
        }
        # A script may print any number as its step.
        place = np.floor(np.clip(x, -FARTHEST, FARTHEST)).astype(np.int64)
        return cls(row, place, columns).merged()

    def where(self, lines: Bools | Ints) -> Buckets:
        """Return these lines."""
        columns = {name: column[lines] for name, column in self.columns.items()}
        return Buckets(self.row[lines], self.place[lines], columns)

    def join(self, other: Buckets) -> Buckets:
        """Return the lines of both, those of each bucket as one."""
        columns = {
            name: np.concatenate([column, other.columns[name]])
            for name, column in self.columns.items()
        }
        joined_rows = np.concatenate([self.row, other.row])
        joined_places = np.concatenate([self.place, other.place])
        return Buckets(joined_rows, joined_places, columns).merged()

    def widened(self, doublings: int) -> Buckets:
        """Return them in buckets that are so many times twice as wide."""
        if not doublings:
            return self
        # The shift rounds down for negative places, too: no bucket lies on both sides of 0.
        return Buckets(self.row, self.place >> doublings, self.columns).merged()

    def merged(self) -> Buckets:
        """Return all lines of the same row and place as one."""
        # The sort is stable: of one bucket, what was there before stays first.
        ordered_buckets = self.where(np.lexsort((self.place, self.row)))
        is_other_row = np.diff(ordered_buckets.row) != 0
        is_other_place = np.diff(ordered_buckets.place) != 0
        begins_bucket = is_other_row | is_other_place
        starts = np.flatnonzero(np.r_[True, begins_bucket])
        with np.errstate(invalid="ignore", over="ignore"):
            columns = {
                name: JOINS[name].reduceat(column, starts)
                for name, column in ordered_buckets.columns.items()
            }
        return Buckets(ordered_buckets.row[starts], ordered_buckets.place[starts], columns)

    def mean(self, figure: int) -> Floats:
        """Return the mean of a figure in each bucket."""
        return _divide(self.columns["total"][:, figure], self.columns["known"][:, figure])

    def ratio(self, figure: int, over: int) -> Floats:
        """Return the sum of a figure in each bucket, divided by that of another."""
        # The ratio of the sums: a mean of ratios would count short steps as much as long ones.
        return _divide(self.columns["total"][:, figure], self.columns["total"][:, over])

    def ends(self, figure: int) -> tuple[Floats, Floats, Ints, Ints]:
        """Return the least and the greatest value of each bucket, and who had them."""
        is_known = self.columns["known"][:, figure] > 0
        low = self.columns["low"][:, figure]
        high = self.columns["high"][:, figure]
        return (
            np.where(is_known, low.real, np.nan),
            np.where(is_known, high.real, np.nan),
            np.where(is_known, low.imag, 0).astype(np.int64),
            np.where(is_known, -high.imag, 0).astype(np.int64),
        )


def _divide(total: Floats, divisor: Floats) -> Floats:
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        return np.asarray(np.where(divisor > 0, total / divisor, np.nan))


class Downsampler:
    """Figures of rows, gathered in buckets along x: steps, or seconds.

    A bucket is `span` wide, a power of two, and begins at a multiple of it. If more than `capacity`
    of a row are needed, neighbours are merged and `span` doubles; if they are `recent`, the older
    half is forgotten instead. A NaN is no value.
    """

    def __init__(self, *, recent: bool = False) -> None:
        self._recent = recent
        self._doublings = 0
        self._buckets: Buckets | None = None

    @property
    def span(self) -> int:
        """Return the width of a bucket."""
        return 1 << self._doublings

    @property
    def begin(self) -> float:
        """Return where the first bucket begins; NaN if there is none."""
        if self._buckets is None:
            return np.nan
        first_place = self._buckets.place.min()
        return float(first_place * self.span)

    def add(self, gathered: Buckets, capacity: int) -> None:
        """Take in what was measured."""
        new_buckets = gathered.widened(self._doublings)
        newest_place = new_buckets.place.max()
        if self._buckets is not None:
            newest_place = max(newest_place, self._buckets.place.max())
        if self._recent:  # a rank that is behind the others adds nothing to the older half
            is_recent = new_buckets.place > newest_place - capacity // 2
            if not is_recent.any():
                return
            new_buckets = new_buckets.where(is_recent)
        if self._buckets is not None:
            new_buckets = self._buckets.join(new_buckets)
        first_place = new_buckets.place.min()
        if self._recent and newest_place - first_place >= capacity:
            new_buckets = new_buckets.where(new_buckets.place > newest_place - capacity // 2)
            first_place = new_buckets.place.min()
        more_doublings = 0
        while (newest_place >> more_doublings) - (first_place >> more_doublings) >= capacity:
            more_doublings += 1
        self._doublings += more_doublings
        self._buckets = new_buckets.widened(more_doublings)

    def rewind(self, x: float) -> None:
        """Forget the buckets that begin at `x` or behind it."""
        if self._buckets is not None:
            is_before = self._buckets.place * self.span < x
            self._buckets = self._buckets.where(is_before) if is_before.any() else None

    def of_row(self, row: int) -> Downsampler:
        """Return those of one row alone."""
        row_buckets = Downsampler(recent=self._recent)
        row_buckets._doublings = self._doublings
        if self._buckets is not None:
            is_of_row = self._buckets.row == row
            row_buckets._buckets = self._buckets.where(is_of_row) if is_of_row.any() else None
        return row_buckets

    def read(self) -> Buckets | None:
        """Return the buckets, or None if there are none."""
        return self._buckets
