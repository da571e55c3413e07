"""Keeps numbers that never end in bounded memory. Needs numpy, so it is imported late."""

from __future__ import annotations

from typing import Any

import numpy as np
from msgspec import Struct
from msgspec.structs import astuple
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
Array = NDArray[Any]

FARTHEST = 2.0**62
"""Places further along x than this count as this one: the numbers of buckets are of 64 bits."""


class Points(Struct, frozen=True, eq=False):
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

    def where(self, mask: Bools) -> Points:
        """Return the points that are marked True."""
        return Points(
            self.step[mask],
            self.time[mask],
            self.low[mask],
            self.high[mask],
            self.mean[mask],
            self.lowest[mask],
            self.highest[mask],
        )

    def lasting(self) -> Points:
        """Return the points that count: a run that was restarted makes some steps anew."""
        if not len(self):
            return self
        later = np.minimum.accumulate(self.step[::-1])[::-1]
        return self.where(self.step <= later)


_NO_VALUES = np.empty(0)
_NO_ROWS = np.empty(0, np.int64)
NO_POINTS = Points(_NO_VALUES, _NO_VALUES, _NO_VALUES, _NO_VALUES, _NO_VALUES, _NO_ROWS, _NO_ROWS)


class GatheredPoints(Struct, frozen=True, eq=False):
    """What was measured at places along x: one line for each row and place, in order of both."""

    row: Ints
    place: Ints
    """The whole part of x."""
    x: Floats
    """The sum of x over the points of the line."""
    other: Floats
    """The sum of the other one of step and time."""
    points: Ints
    """How many points the line stands for."""
    total: Floats
    """Of each figure, the sum of its values that are numbers."""
    known: Ints
    """Of each figure, how many these are."""
    low: Floats
    high: Floats
    lowest: Ints
    """Who had `low`; without columns if nobody asks."""
    highest: Ints
    """Who had `high`."""

    @classmethod
    def gather(
        cls, row: Ints, owners: Ints | None, x: Floats, other: Floats, values: Floats
    ) -> GatheredPoints:
        """Gather points. `owners` are the ranks or cores that they are of, None if nobody asks.

        `x` is their step or their time, `other` the other one of these; `values` has a column for
        each figure.
        """
        place = np.floor(np.clip(x, -FARTHEST, FARTHEST)).astype(np.int64)
        order = np.lexsort((place, row))
        row = row[order]
        place = place[order]
        values = values[order]
        is_known = ~np.isnan(values)
        low = high = total = values
        if not is_known.all():
            low = np.where(is_known, values, np.inf)
            high = np.where(is_known, values, -np.inf)
            total = np.where(is_known, values, 0.0)
        known = is_known.astype(np.int64)
        names = np.empty((len(row), 0), np.int64)
        if owners is not None:
            names = np.broadcast_to(owners[order][:, None], values.shape)
        x = x[order]
        other = other[order]
        points = np.ones_like(row)
        gathered = cls(row, place, x, other, points, total, known, low, high, names, names)
        return gathered.merged(_starts(place, row))

    def merged(self, starts: Ints) -> GatheredPoints:
        """Return all lines from one of the starts to the next as one."""
        if len(starts) == len(self.row):
            return self
        with np.errstate(invalid="ignore", over="ignore"):
            x, other, points, total, known = (
                np.add.reduceat(column, starts)
                for column in (self.x, self.other, self.points, self.total, self.known)
            )
        low = np.minimum.reduceat(self.low, starts)
        high = np.maximum.reduceat(self.high, starts)
        lowest = _first_with(self.low, low, self.lowest, starts)
        highest = _first_with(self.high, high, self.highest, starts)
        row = self.row[starts]
        place = self.place[starts]
        return GatheredPoints(
            row, place, x, other, points, total, known, low, high, lowest, highest
        )

    def where(self, mask: Bools) -> GatheredPoints:
        """Return the lines that are marked True."""
        if mask.all():
            return self
        return GatheredPoints(*(column[mask] for column in astuple(self)))


def _starts(*keys: Ints) -> Ints:
    """Return where lines begin that differ from the ones before in one of the keys."""
    differs = np.ones(len(keys[0]), np.bool_)
    differs[1:] = np.logical_or.reduce([key[1:] != key[:-1] for key in keys])
    return np.flatnonzero(differs)


def _first_with(values: Floats, extremes: Floats, names: Ints, starts: Ints) -> Ints:
    """Return who was the first in each part that begins at `starts` to have its extreme value."""
    if not names.shape[1]:
        return names[starts]
    count = len(values)
    hits = values == np.repeat(extremes, np.diff(starts, append=count), axis=0)
    lines = np.where(hits, np.arange(count)[:, None], count - 1)
    return np.take_along_axis(names, np.minimum.reduceat(lines, starts), axis=0)


class Downsampler:
    """Figures of each of `rows`, gathered in buckets along x: steps, or seconds.

    A bucket is `span` wide, a power of two, and begins at a multiple of it. If more than `capacity`
    of them are needed, neighbours are merged and `span` doubles; with `recent`, the older half is
    forgotten instead. A NaN is no value. Unless `named`, all figures of a row are its own.
    """

    def __init__(
        self, figures: int, rows: int, capacity: int, *, recent: bool = False, named: bool = True
    ) -> None:
        self._capacity = capacity
        self._recent = recent
        self._named = named
        self.span = 1
        self._first = 0  # the number of the bucket in slot 0
        self._used = 0  # slots in use
        # The figures of a bucket lie beside each other, as they come together. Slots are written
        # to only once they are used: until then, they take no memory.
        places = (rows, capacity)
        shape = (rows, capacity, figures)
        names = shape if named else (rows, capacity, 0)
        self._x, self._other = np.zeros(places), np.zeros(places)
        self._points = np.zeros(places, np.int64)
        self._total, self._known = np.zeros(shape), np.zeros(shape, np.int32)
        self._low, self._high = np.zeros(shape), np.zeros(shape)
        self._lowest, self._highest = (np.zeros(names, np.int32) for _ in range(2))

    @property
    def _sums(self) -> tuple[Array, ...]:
        return self._x, self._other, self._points, self._total, self._known

    @property
    def _ends(self) -> tuple[Array, ...]:
        return self._low, self._high, self._lowest, self._highest

    def _empty(self, slots: slice) -> None:
        """Make these slots ready for use, whatever they had before."""
        for column in self._sums:
            column[:, slots] = 0
        self._low[:, slots] = np.inf
        self._high[:, slots] = -np.inf

    # Writing

    def add(self, gathered: GatheredPoints) -> None:
        """Take in what was measured."""
        number = self._number(gathered)
        if self._recent:
            newest = int(number.max())
            if self._used:
                newest = max(newest, self._first + self._used - 1)
            is_recent = number > newest - self._capacity // 2
            if not is_recent.any():
                return
            gathered = gathered.where(is_recent)
            number = number[is_recent]
        self._make_room(int(number.min()), int(number.max()))
        self._put(gathered)

    def _number(self, gathered: GatheredPoints) -> Ints:
        """Return the numbers of the buckets of its places."""
        return gathered.place >> self.span.bit_length() - 1

    def _put(self, gathered: GatheredPoints) -> None:
        """Add it to its buckets, which have slots."""
        at = gathered.row * self._capacity + self._number(gathered) - self._first
        starts = _starts(at)
        gathered = gathered.merged(starts)
        at = at[starts]
        sums = (gathered.x, gathered.other, gathered.points, gathered.total, gathered.known)
        with np.errstate(invalid="ignore", over="ignore"):
            for column, added in zip(self._sums, sums, strict=True):
                _flat(column)[at] += added
        for ends, names, new, by, further in (
            (self._low, self._lowest, gathered.low, gathered.lowest, np.minimum),
            (self._high, self._highest, gathered.high, gathered.highest, np.maximum),
        ):
            before = _flat(ends)[at]
            extremes = further(before, new)
            _flat(ends)[at] = extremes
            if self._named:
                _flat(names)[at] = np.where(extremes != before, by, _flat(names)[at])

    def _make_room(self, lowest: int, highest: int) -> None:
        """Make slots for these buckets and those between; if need be, double the width of all."""
        first = lowest
        last = highest
        if self._used:
            first = min(first, self._first)
            last = max(last, self._first + self._used - 1)
        elif not self._recent:
            first -= first % 2  # 0 for 1: an even one takes half the time to merge
        halvings = 0
        if self._recent and last - first >= self._capacity:
            first = last - self._capacity // 2 + 1
        while (last >> halvings) - (first >> halvings) >= self._capacity:
            halvings += 1
        for _ in range(halvings):
            self._halve()
        self._shift(self._first - (first >> halvings))
        self._first = first >> halvings
        used = (last >> halvings) - self._first + 1
        self._empty(slice(self._used, used))
        self._used = used

    def _halve(self) -> None:
        """Merge each two neighbours."""
        self.span *= 2
        if not self._used:
            return
        for ends, names, further, none in (
            (self._low, self._lowest, np.minimum, np.inf),
            (self._high, self._highest, np.maximum, -np.inf),
        ):
            left, right = self._neighbours(ends, none)
            extremes = further(left, right)
            if self._named:
                left_names, right_names = self._neighbours(names, 0)
                _fill(names, np.where(extremes == left, left_names, right_names))
            _fill(ends, extremes)
        for column in self._sums:
            with np.errstate(invalid="ignore", over="ignore"):
                _fill(column, np.add(*self._neighbours(column, 0)))
        last = self._first + self._used - 1
        self._first >>= 1
        self._used = (last >> 1) - self._first + 1

    def _neighbours(self, column: Array, none: float) -> tuple[Array, Array]:
        """Return the left and right halves of each pair to merge, padded with `none`."""
        column = column[:, : self._used]
        edge = np.full_like(column[:, :1], none)
        if self._first % 2:
            column = np.concatenate([edge, column], axis=1)
        if column.shape[1] % 2:
            column = np.concatenate([column, edge], axis=1)
        return column[:, 0::2], column[:, 1::2]

    def _shift(self, by: int) -> None:
        """Move all buckets by so many slots; those that come to no slot are forgotten."""
        if not by or not self._used:
            return
        gone = max(0, -by)
        first = max(0, by)
        count = max(0, self._used - gone)
        for column in (*self._sums, *self._ends):
            column[:, first : first + count] = column[:, gone : gone + count]
        self._empty(slice(0, first))
        self._used = first + count

    def rewind(self, x: float) -> None:
        """Forget the buckets that begin at `x` or behind it."""
        keep = max(0, -int(-x // self.span) - self._first)
        self._used = min(self._used, keep)

    def resized(self, rows: int, capacity: int) -> Downsampler:
        """Return the same with so many rows, at least as many as now, and buckets of each."""
        while self._used > capacity:
            self._halve()
        figures = self._total.shape[2]
        new = Downsampler(figures, rows, capacity, recent=self._recent, named=self._named)
        new.span = self.span
        new._first = self._first
        new._used = self._used
        for ours, theirs in zip((*new._sums, *new._ends), (*self._sums, *self._ends), strict=True):
            ours[: len(theirs), : self._used] = theirs[:, : self._used]
        return new

    # Reading

    @property
    def begin(self) -> float:
        """Return where the first bucket begins; NaN if there is none."""
        return float(self._first * self.span) if self._used else np.nan

    def columns(self, row: int) -> tuple[Floats, Floats, Bools]:
        """Return the mean x and the other coordinate of a row's buckets, and which have points."""
        points = self._points[row, : self._used]
        filled = points > 0
        count = np.maximum(points, 1)
        return self._x[row, : self._used] / count, self._other[row, : self._used] / count, filled

    def mean(self, figure: int, row: int) -> Floats:
        """Return the mean of a figure in each bucket."""
        total = self._total[row, : self._used, figure]
        known = self._known[row, : self._used, figure]
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            return np.asarray(np.where(known > 0, total / known, np.nan))

    def ratio(self, figure: int, over: int, row: int) -> Floats:
        """Return the sum of a figure in each bucket, divided by that of another."""
        total = self._total[row, : self._used, figure]
        divisor = self._total[row, : self._used, over]
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            return np.asarray(np.where(divisor > 0, total / divisor, np.nan))

    def ends(self, figure: int, row: int) -> tuple[Floats, Floats, Ints, Ints]:
        """Return the least and the greatest value of each bucket, and who had them."""
        at = (row, slice(self._used), figure)
        known = self._known[at] > 0
        low = np.where(known, self._low[at], np.nan)
        high = np.where(known, self._high[at], np.nan)
        if not self._named:
            own = np.full(self._used, row)
            return low, high, own, own
        return low, high, self._lowest[at].astype(np.int64), self._highest[at].astype(np.int64)


def _flat(column: Array) -> Array:
    """Return the buckets of all rows, one after the other."""
    return column.reshape(-1, *column.shape[2:])


def _fill(column: Array, slots: Array) -> None:
    """Put these into the first slots of all rows."""
    column[:, : slots.shape[1]] = slots
