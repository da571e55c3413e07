"""Bounded curves and timings: what a run keeps of numbers that never end."""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable
from dataclasses import dataclass
from typing import cast

NAN = float("nan")


class Series:
    """A bounded curve: points in order of x, gathered into buckets of equally many points with min,
    max and mean.

    When `capacity` buckets are full, neighbours are merged and a bucket holds twice as many points
    from then on. A NaN point is kept out of min, max and mean; a bucket of NaN only is NaN. `x` is
    that of a bucket's first point. `version` rises with every point. The four curves are views of
    equal length that numpy wraps without copying (`np.asarray(series.mean)`); they change under the
    reader.
    """

    def __init__(self, capacity: int = 1024) -> None:
        if capacity < 2 or capacity % 2:
            raise ValueError("capacity must be even and at least 2")
        self.capacity = capacity
        self.version = 0
        self._buckets = 0
        self._span = 1  # points that a full bucket holds
        self._points = 0  # points in the last bucket, NaN included
        self._x, self._low, self._high, self._mean = (array("d") for _ in range(4))
        self._weight = array("q")  # points in a bucket, NaN not counted

    def __len__(self) -> int:
        return self._buckets

    @property
    def x(self) -> memoryview[float]:
        """Where each bucket begins."""
        return self._view(self._x)

    @property
    def low(self) -> memoryview[float]:
        """The least value of each bucket."""
        return self._view(self._low)

    @property
    def high(self) -> memoryview[float]:
        """The greatest value of each bucket."""
        return self._view(self._high)

    @property
    def mean(self) -> memoryview[float]:
        """The mean of each bucket."""
        return self._view(self._mean)

    def append(self, x: float, y: float) -> None:
        """Add a point."""
        self.version += 1
        if self._points == self._span or not self._buckets:
            self._open(x)
        self._points += 1
        if math.isnan(y):
            return
        last = self._buckets - 1
        weight = self._weight[last] = self._weight[last] + 1
        if weight == 1:
            self._low[last] = self._high[last] = self._mean[last] = y
        else:
            self._low[last] = min(self._low[last], y)
            self._high[last] = max(self._high[last], y)
            self._mean[last] += (y - self._mean[last]) / weight

    def rewind(self, x: float) -> None:
        """Forget what begins at `x` or behind it: the points from there on come anew."""
        self.version += 1
        while self._buckets and self._x[self._buckets - 1] >= x:
            self._buckets -= 1
            self._points = self._span  # the next point opens a bucket

    def _view(self, values: array[float]) -> memoryview[float]:
        return cast("memoryview[float]", memoryview(values))[: self._buckets]

    def _open(self, x: float) -> None:
        if not self._x:  # at once, as an array could not grow while numpy holds a view of it
            empty = bytes(8 * self.capacity)
            self._x, self._low, self._high, self._mean = (array("d", empty) for _ in range(4))
            self._weight = array("q", empty)
        if self._buckets == self.capacity:
            self._merge()
        last = self._buckets
        self._x[last] = x
        self._low[last] = self._high[last] = self._mean[last] = NAN
        self._weight[last] = 0
        self._buckets += 1
        self._points = 0

    def _merge(self) -> None:
        for to in range(self.capacity // 2):
            one, other = 2 * to, 2 * to + 1
            if not self._weight[one] or not self._weight[other]:
                kept = one if self._weight[one] else other
                low, high, mean = self._low[kept], self._high[kept], self._mean[kept]
            else:
                low = min(self._low[one], self._low[other])
                high = max(self._high[one], self._high[other])
                share = self._weight[other] / (self._weight[one] + self._weight[other])
                mean = self._mean[one] + (self._mean[other] - self._mean[one]) * share
            self._x[to], self._low[to], self._high[to], self._mean[to] = (
                self._x[one],
                low,
                high,
                mean,
            )
            self._weight[to] = self._weight[one] + self._weight[other]
        self._buckets = self.capacity // 2
        self._span *= 2


@dataclass(frozen=True, slots=True)
class Means:
    """Mean seconds of an iteration, how many of them went into `data`, `compute` and `sync`, and
    samples per second.

    What is not known is NaN.
    """

    seconds: float = NAN
    data: float = NAN
    compute: float = NAN
    sync: float = NAN
    throughput: float = NAN

    def share(self, phase: float) -> float:
        """The share of the iteration that these seconds of it are."""
        return phase / self.seconds if self.seconds > 0 else NAN


def joined(ranks: Iterable[Means]) -> Means:
    """Those of a run: means over its ranks that make steps, whose samples per second add up."""
    known = [rank for rank in ranks if not math.isnan(rank.seconds)]
    if not known:
        return Means()
    names = ("seconds", "data", "compute", "sync")
    mean = {name: sum(getattr(rank, name) for rank in known) / len(known) for name in names}
    return Means(**mean, throughput=sum(rank.throughput for rank in known))


_Sums = tuple[int, float, float, float, float, int]
"""Iterations; their seconds, and those that went into data, compute and sync; their samples."""


def _means(
    count: float, seconds: float, data: float, compute: float, sync: float, samples: float
) -> Means:
    if not count:
        return Means()
    return Means(
        seconds / count,
        data / count,
        compute / count,
        sync / count,
        samples / seconds if seconds > 0 else NAN,
    )


class Timing:
    """Iteration times of one rank in seconds.

    `count`, `mean` and `whole` are of all. `rule` and `early` are the reference's: of iterations 2
    to 40, or of what there is of them. `median` and `p95` are exact up to `KEPT` iterations;
    beyond, of every second value, then of every fourth, and so on. All are NaN before their first
    value.
    """

    KEPT = 16_384

    def __init__(self) -> None:
        self.count = 0
        self._seconds = self._data = self._compute = self._sync = 0.0
        self._samples = 0
        self._first: _Sums = self._sums()
        self._at_40: _Sums | None = None
        self._kept = array("d")
        self._stride = 1
        self._sorted: tuple[int, list[float]] = (0, [])

    def append(
        self,
        seconds: float,
        data: float = 0.0,
        compute: float = 0.0,
        sync: float = 0.0,
        samples: int = 0,
    ) -> None:
        """Add the next iteration; one whose seconds are not finite counts for nothing."""
        if not math.isfinite(seconds):
            return
        self.count += 1
        self._seconds += seconds
        self._data += data
        self._compute += compute
        self._sync += sync
        self._samples += samples
        if self.count == 1:
            self._first = self._sums()
        elif self.count == 40:
            self._at_40 = self._sums()
        if (self.count - 1) % self._stride == 0:
            self._keep(seconds)

    @property
    def early(self) -> Means:
        """Means over iterations 2 to 40, or over what there is of them."""
        last = self._at_40 or self._sums()
        return _means(
            *(float(after - before) for after, before in zip(last, self._first, strict=True))
        )

    @property
    def whole(self) -> Means:
        """Means over all iterations."""
        return _means(*self._sums())

    @property
    def rule(self) -> float:
        """Mean seconds of iterations 2 to 40, or of what there is of them."""
        return self.early.seconds

    @property
    def total(self) -> float:
        """What all iterations took together; 0 before the first."""
        return self._seconds

    @property
    def mean(self) -> float:
        """Mean seconds of all iterations."""
        return self._seconds / self.count if self.count else NAN

    def _sums(self) -> _Sums:
        return self.count, self._seconds, self._data, self._compute, self._sync, self._samples

    @property
    def median(self) -> float:
        """The time that half of the iterations took at most."""
        return self._quantile(0.5)

    @property
    def p95(self) -> float:
        """The time that 95 % of the iterations took at most."""
        return self._quantile(0.95)

    def _keep(self, seconds: float) -> None:
        if len(self._kept) == self.KEPT:
            self._kept = self._kept[::2]
            self._stride *= 2
            if (self.count - 1) % self._stride:
                return
        self._kept.append(seconds)

    def _quantile(self, share: float) -> float:
        """Between the two nearest values in proportion, as numpy does by default."""
        if self._sorted[0] != self.count:
            self._sorted = (self.count, sorted(self._kept))
        values = self._sorted[1]
        if not values:
            return NAN
        below, rest = divmod(share * (len(values) - 1), 1)
        low = values[int(below)]
        high = values[min(int(below) + 1, len(values) - 1)]
        return low + (high - low) * rest
