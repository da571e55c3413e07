"""How long the iterations of a rank take, in bounded memory."""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable
from dataclasses import dataclass

NAN = float("nan")


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


def _between(before: _Sums, after: _Sums) -> Means:
    return _means(*(float(end - begin) for begin, end in zip(before, after, strict=True)))


class Timing:
    """Iteration times of one rank in seconds.

    `count`, `mean` and `whole` are of all, `warm` is of all but the first. `rule` and `early` are
    the reference's: of iterations 2 to 40, or of what there is of them; of the first 39 that have a
    time, where the first iteration has none. `median` and `p95` are
    exact up to `KEPT` iterations; beyond, of every second value, then of every fourth, and so on.
    All are NaN before their first value.
    """

    KEPT = 16_384
    __slots__ = (
        *("count", "_seconds", "_data", "_compute", "_sync", "_samples"),
        *("_untimed", "_first", "_at_40", "_kept", "_stride", "_sorted"),
    )

    def __init__(self) -> None:
        self.count = 0
        self._seconds = self._data = self._compute = self._sync = 0.0
        self._samples = 0
        self._untimed = 0
        self._first: _Sums = self._sums()
        self._at_40: _Sums | None = None
        self._kept = array("d")
        self._stride = 1
        self._sorted: tuple[int, list[float]] = (0, [])

    def begin_after(self, step: int) -> None:
        """No iteration up to this one has a time, so that none that has one warms up. Does nothing
        once one has."""
        if not self.count:
            self._untimed = step

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
        if self.count <= 40:
            self._look_at_early()
        if (self.count - 1) % self._stride == 0:
            self._keep(seconds)

    def repeat(self, more: int, seconds: float, data: float, samples: int) -> None:
        """Add that many iterations like the last one, of which nothing else is known: one report
        stands for all of them."""
        self.count += more
        self._seconds += more * seconds
        self._data += more * data
        self._samples += more * samples
        if self._at_40 is None and self.count >= self._most_early:
            self._at_40 = self._sums()

    def _look_at_early(self) -> None:
        if self.count == 1 and not self._untimed:
            self._first = self._sums()
        elif self.count == self._most_early:
            self._at_40 = self._sums()

    @property
    def _most_early(self) -> int:
        """Iterations with a time up to the last one of `early`."""
        return 39 if self._untimed else 40

    @property
    def early(self) -> Means:
        """Means over iterations `first_early` to `last_early`."""
        return _between(self._first, self._at_40 or self._sums())

    @property
    def first_early(self) -> int:
        """The number of the first of these iterations."""
        return max(2, self._untimed + 1)

    @property
    def last_early(self) -> int:
        """The number of the last of these iterations."""
        return self._untimed + min(self.count, self._most_early)

    @property
    def warm(self) -> Means:
        """Means over all timed iterations; iteration 1 does not count, as it warms up."""
        return _between(self._first, self._sums())

    @property
    def whole(self) -> Means:
        """Means over all iterations."""
        return _means(*self._sums())

    @property
    def rule(self) -> float:
        """Mean seconds of iterations 2 to 40, or of what there is of them; without times of the
        first ones, of the 39 after those."""
        count, seconds, *_ = self._at_40 or self._sums()
        first, before, *_ = self._first
        return (seconds - before) / (count - first) if count > first else NAN

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
