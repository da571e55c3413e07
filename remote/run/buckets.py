"""Numbers that never end, kept in bounded memory. Needs numpy, so it is imported late."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
Array = NDArray[Any]


@dataclass(frozen=True, eq=False)
class Points:
    """A curve: columns of one length, in order.

    `step` and `time`, in seconds since the run began, are means over the values that a point stands
    for, and so is `mean`; `low` and `high` are the least and the greatest of them. They are NaN
    where none was a number. `lowest` and `highest` are the rows, such as ranks, of `low` and
    `high`.
    """

    step: Floats
    time: Floats
    low: Floats
    high: Floats
    mean: Floats
    lowest: Ints
    highest: Ints

    def __len__(self) -> int:
        return len(self.step)

    def where(self, kept: Bools) -> Points:
        """The points that are marked True."""
        return Points(
            self.step[kept],
            self.time[kept],
            self.low[kept],
            self.high[kept],
            self.mean[kept],
            self.lowest[kept],
            self.highest[kept],
        )

    def lasting(self) -> Points:
        """The points that count: a run that was restarted makes some steps anew."""
        if not len(self):
            return self
        later = np.minimum.accumulate(self.step[::-1])[::-1]
        return self.where(self.step <= later)


_NONE, _NOBODY = np.empty(0), np.empty(0, np.int64)
NO_POINTS = Points(_NONE, _NONE, _NONE, _NONE, _NONE, _NOBODY, _NOBODY)


class Buckets:
    """Figures of each of `rows`, gathered along x: steps, or seconds.

    A bucket is `span` wide, a power of two, and begins at a multiple of it. Where more than
    `capacity` of them were needed, neighbours are merged and `span` doubles; with `recent`, the
    older half is forgotten instead. A NaN is no value.
    """

    def __init__(self, figures: int, rows: int, capacity: int, *, recent: bool = False) -> None:
        self._shape = (figures, rows, capacity)
        self._recent = recent
        self.span = 1
        self._first = self._used = 0  # the number of the bucket in slot 0; slots in use
        self._clear()

    def _clear(self) -> None:
        places = self._shape[1:]
        self._low, self._high = np.full(self._shape, np.inf), np.full(self._shape, -np.inf)
        self._lowest, self._highest = (np.zeros(self._shape, np.int32) for _ in range(2))
        self._total, self._known = np.zeros(self._shape), np.zeros(self._shape, np.int32)
        self._x, self._other = np.zeros(places), np.zeros(places)
        self._points = np.zeros(places, np.int64)

    # Writing

    def add(self, row: Ints, who: Ints, x: Floats, other: Floats, values: Floats) -> None:
        """Take in points: the row of each, who had it, its x and the other of step and time.
        `values` are figures x points."""
        number = np.floor(x / self.span).astype(np.int64)
        if self._recent:
            newest = int(number.max())
            if self._used:
                newest = max(newest, self._first + self._used - 1)
            kept = number > newest - self._shape[2] // 2
            if not kept.any():
                return
            row, who, number = row[kept], who[kept], number[kept]
            x, other, values = x[kept], other[kept], values[:, kept]
        self._make_room(int(number.min()), int(number.max()))
        slot = np.floor(x / self.span).astype(np.int64) - self._first
        place = row * self._shape[2] + slot
        order = np.argsort(place, kind="stable")
        place = place[order]
        starts = np.flatnonzero(np.r_[True, place[1:] != place[:-1]])
        places = place[starts]
        self._x.reshape(-1)[places] += np.add.reduceat(x[order], starts)
        self._other.reshape(-1)[places] += np.add.reduceat(other[order], starts)
        self._points.reshape(-1)[places] += np.diff(np.r_[starts, len(place)])
        self._fold(values[:, order], who[order], starts, places)

    def _fold(self, values: Floats, who: Ints, starts: Ints, places: Ints) -> None:
        known = ~np.isnan(values)
        with np.errstate(invalid="ignore", over="ignore"):
            totals = np.add.reduceat(np.where(known, values, 0.0), starts, axis=1)
            self._flat(self._total)[:, places] += totals
        counts = np.add.reduceat(known.astype(np.int32), starts, axis=1)
        self._flat(self._known)[:, places] += counts
        for ends, names, least in (
            (self._low, self._lowest, True),
            (self._high, self._highest, False),
        ):
            told = np.where(known, values, np.inf if least else -np.inf)
            found, by = _extreme(told, who, starts, least=least)
            before = self._flat(ends)[:, places]
            is_new = found < before if least else found > before
            self._flat(ends)[:, places] = np.where(is_new, found, before)
            self._flat(names)[:, places] = np.where(is_new, by, self._flat(names)[:, places])

    def _flat(self, column: Array) -> Array:
        return column.reshape(self._shape[0], -1)

    def _make_room(self, lowest: int, highest: int) -> None:
        """Have a slot for these buckets and those between, in buckets of twice the width if need
        be."""
        capacity = self._shape[2]
        first, last = lowest, highest
        if self._used:
            first, last = min(first, self._first), max(last, self._first + self._used - 1)
        halvings = 0
        if self._recent and last - first >= capacity:
            first = last - capacity // 2 + 1
        while (last >> halvings) - (first >> halvings) >= capacity:
            halvings += 1
        if self._used and (halvings or first != self._first):
            numbers = (np.arange(self._used) + self._first) >> halvings
            self._move(numbers - (first >> halvings))
        self.span <<= halvings
        self._first = first >> halvings
        self._used = (last >> halvings) - self._first + 1

    def _move(self, slots: Ints) -> None:
        """Move what is in use to these slots; what comes to one slot is merged."""
        used, gone = self._used, int((slots < 0).sum())
        if gone == used:
            self._clear()
            return
        old = vars(self).copy()
        self._clear()
        starts = np.flatnonzero(np.r_[True, np.diff(slots[gone:]) > 0])
        to = slots[gone:][starts]
        for name in ("_total", "_known", "_x", "_other", "_points"):
            with np.errstate(invalid="ignore", over="ignore"):
                merged = np.add.reduceat(old[name][..., gone:used], starts, axis=-1)
            getattr(self, name)[..., to] = merged
        for ends, names, least in (("_low", "_lowest", True), ("_high", "_highest", False)):
            told, by = (old[name][..., gone:used] for name in (ends, names))
            found, by = _extreme(told, by, starts, least=least)
            getattr(self, ends)[..., to], getattr(self, names)[..., to] = found, by

    def rewind(self, x: float) -> None:
        """Forget the buckets that begin at `x` or behind it."""
        keep = max(0, -int(-x // self.span) - self._first)
        if keep >= self._used:
            return
        gone = slice(keep, self._used)
        for column in (self._total, self._known, self._x, self._other, self._points):
            column[..., gone] = 0
        self._low[..., gone], self._high[..., gone] = np.inf, -np.inf
        self._used = keep

    # Reading

    @property
    def begin(self) -> float:
        """Where the first bucket begins; NaN where there is none."""
        return float(self._first * self.span) if self._used else np.nan

    def columns(self, row: int) -> tuple[Floats, Floats, Bools]:
        """The mean x and the other coordinate of the buckets of a row, and which ones have
        points."""
        points = self._points[row, : self._used]
        filled = points > 0
        count = np.maximum(points, 1)
        return self._x[row, : self._used] / count, self._other[row, : self._used] / count, filled

    def mean(self, figure: int, row: int) -> Floats:
        """The mean of a figure in each bucket."""
        total, known = (one[figure, row, : self._used] for one in (self._total, self._known))
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            return np.asarray(np.where(known > 0, total / known, np.nan))

    def ratio(self, figure: int, over: int, row: int) -> Floats:
        """What a figure comes to in each bucket, divided by another."""
        total, divisor = (self._total[one, row, : self._used] for one in (figure, over))
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            return np.asarray(np.where(divisor > 0, total / divisor, np.nan))

    def ends(self, figure: int, row: int) -> tuple[Floats, Floats, Ints, Ints]:
        """The least and the greatest value of each bucket, and who had them."""
        at = (figure, row, slice(self._used))
        known = self._known[at] > 0
        low, high = (np.where(known, one[at], np.nan) for one in (self._low, self._high))
        lowest, highest = (one[at].astype(np.int64) for one in (self._lowest, self._highest))
        return low, high, lowest, highest


def _extreme(told: Floats, who: Ints, starts: Ints, *, least: bool) -> tuple[Floats, Ints]:
    """Of each part that begins at `starts`, along the last axis: the least or greatest value, and
    who has it first."""
    found = (np.minimum if least else np.maximum).reduceat(told, starts, axis=-1)
    count = told.shape[-1]
    size = np.diff(np.r_[starts, count])
    hits = told == np.repeat(found, size, axis=-1)
    first = np.minimum.reduceat(np.where(hits, np.arange(count), count - 1), starts, axis=-1)
    return found, np.take_along_axis(np.broadcast_to(who, told.shape), first, axis=-1)
