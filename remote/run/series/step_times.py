"""How long the steps of a rank take: over the whole run, and now. All in bounded memory."""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from operator import add, attrgetter, sub
from struct import Struct, pack
from typing import Any

from remote.run.series.definitions import STEP
from remote.statistics.mean import finite_mean
from training.wire.rank_events import StepFinished
from training.wire.step_block import StepColumns

NAN = float("nan")
LAST_EARLY = 40
"""The last iteration that the assignment's rule counts: it takes the mean of iterations 2 to 40."""
RECENT = 20
"""Steps that count as present."""
PRESENT_SECONDS = 10.0
"""Seconds that the means of the present are of, at the least: `RECENT` quick steps take a moment,
and their mean may change by a third from one second to the next."""
PART_SECONDS = 1.0
"""Seconds of steps that come into such a mean, and leave it, together."""


@dataclass(frozen=True, slots=True)
class Means:
    """Means over some iterations. NaN is unknown."""

    seconds: float = NAN
    """Of an iteration."""
    data: float = NAN
    """Seconds of an iteration that went into loading data."""
    compute: float = NAN
    """Seconds of an iteration that went into computing."""
    sync: float = NAN
    """Seconds of an iteration that went into waiting for others."""
    ready: float = NAN
    """Seconds of an iteration until a rank's own gradients were ready."""
    throughput: float = NAN
    """Samples per second."""
    bytes_per_second: float = NAN
    """What the sync method sends."""

    def share(self, phase: float) -> float:
        """Return the share of the iteration that these seconds of it are."""
        return phase / self.seconds if self.seconds > 0 else NAN


def join_means(ranks: Iterable[Means], *, are_apart: bool = False) -> Means:
    """Return the means of a run: over its ranks that make steps.

    What they send adds up, and so does their throughput, unless they `are_apart`: each trains a
    model of its own.
    """
    known_means = [rank for rank in ranks if not math.isnan(rank.seconds)]
    if not known_means:
        return Means()
    time_names = ("seconds", "data", "compute", "sync", "ready")
    # `map`, as comprehensions take three times as long for a thousand ranks.
    means = {
        name: sum(map(attrgetter(name), known_means)) / len(known_means) for name in time_names
    }
    throughput = sum([rank.throughput for rank in known_means])
    if are_apart:
        throughput /= len(known_means)
    bytes_per_second = sum([rank.bytes_per_second for rank in known_means])
    return Means(**means, throughput=throughput, bytes_per_second=bytes_per_second)


_Sums = tuple[int, float, float, float, float, float, int, int]
"""Iterations; their seconds, and those of data, compute, sync and `ready`; their samples, and the
bytes that they sent."""
_NO_ITERATIONS: _Sums = (0, 0.0, 0.0, 0.0, 0.0, 0.0, 0, 0)
_NUM_SUMS = len(_NO_ITERATIONS)


def _means_between(before: _Sums, after: _Sums) -> Means:
    return _means_of(map(sub, after, before))


def _means_of(sums: Iterable[float]) -> Means:
    """Return the means over the iterations of which these are the `_Sums`."""
    num_iterations, seconds, data, compute, sync, ready, samples, bytes_sent = map(float, sums)
    if not num_iterations:
        return Means()
    return Means(
        seconds / num_iterations,
        data / num_iterations,
        compute / num_iterations,
        sync / num_iterations,
        ready / num_iterations,
        samples / seconds if seconds > 0 else NAN,
        bytes_sent / seconds if seconds > 0 else NAN,
    )


class StepTotals:
    """The times of all iterations of a rank, in seconds; of all attempts of the run.

    `median` and `p95` are exact up to `KEPT` iterations; beyond, they are of every second value,
    then of every fourth, and so on. All are NaN before their first value.
    """

    KEPT = 16_384
    __slots__ = (
        "_at_last_early",
        "_bytes_sent",
        "_compute",
        "_data",
        "_first",
        "_kept",
        "_ready",
        "_samples",
        "_seconds",
        "_sorted",
        "_stride",
        "_sync",
        "_untimed",
        "_warm",
        "count",
        "longest",
    )

    def __init__(self) -> None:
        self.count = 0
        """Iterations that have a time."""
        self.longest = 0.0
        """The seconds of the longest one, without the first, which warms up."""
        self._seconds = self._data = self._compute = self._sync = self._ready = 0.0
        self._samples = 0
        self._bytes_sent = 0
        self._untimed = 0
        self._first = _NO_ITERATIONS
        self._at_last_early: _Sums | None = None
        self._kept = array("d")
        self._stride = 1
        self._sorted: tuple[int, list[float]] = (0, [])
        self._warm = (0, Means())

    def begin_after(self, step: int) -> None:
        """Take in that no iteration up to this one has a time, so that none that has one warms up.

        This does nothing once an iteration has a time.
        """
        if not self.count:
            self._untimed = step

    def append(self, step: StepFinished, number: int = 1) -> None:
        """Add the next iteration, unless its seconds are not finite.

        In a log, one report may stand for a `number` of iterations.
        """
        if not math.isfinite(step.seconds):
            return
        self._add(1, step)
        if self.count > 1 or self._untimed:
            self.longest = max(self.longest, step.seconds)
        if (self.count - 1) % self._stride == 0:
            self._keep_seconds(step.seconds)
        # Apart from the first, as the first iteration of all warms up.
        if number > 1:
            self._add(number - 1, step)

    def append_steps(self, steps: StepColumns) -> None:
        """Add the next iterations, each of which has a time."""
        is_early = self._at_last_early is None
        if is_early or len(self._kept) + len(steps) > self.KEPT:
            for step in steps.make_steps():
                self.append(step)
            return
        first_kept = -self.count % self._stride
        self._kept.extend(iter(steps.seconds[first_kept :: self._stride]))
        self.count += len(steps)
        self.longest = max(self.longest, max(steps.seconds, default=0.0))
        self._seconds += sum(steps.seconds)
        self._data += sum(steps.data)
        self._compute += sum(steps.compute)
        self._sync += sum(steps.sync)
        self._ready += sum(steps.ready)
        self._samples += sum(steps.samples)
        self._bytes_sent += sum(steps.bytes_sent)

    def _add(self, number: int, step: StepFinished) -> None:
        self.count += number
        self._seconds += number * step.seconds
        self._data += number * step.data
        self._compute += number * step.compute
        self._sync += number * step.sync
        self._ready += number * step.ready
        self._samples += number * step.samples
        self._bytes_sent += number * step.bytes_sent
        if self._at_last_early is not None:
            return
        # After iterations without a time, the first one that has one no longer warms up.
        if self.count == 1 and not self._untimed:
            self._first = self._sums()
        elif self.count >= self._most_early:
            self._at_last_early = self._sums()

    @property
    def early(self) -> Means:
        """Return the means that the assignment asks for: iterations `first_early` to `last_early`.

        If the first iterations have no time, these are the 39 after them.
        """
        return _means_between(self._first, self._at_last_early or self._sums())

    @property
    def first_early(self) -> int:
        """Return the number of the first iteration of `early`."""
        return max(2, self._untimed + 1)

    @property
    def last_early(self) -> int:
        """Return the number of the last iteration of `early`."""
        return self._untimed + min(self.count, self._most_early)

    @property
    def warm(self) -> Means:
        """Return the means over all iterations but the first, which warms up."""
        # Kept: once a run has ended, each figure of it asks for those of all ranks.
        if self._warm[0] != self.count:
            self._warm = (self.count, _means_between(self._first, self._sums()))
        return self._warm[1]

    @property
    def whole(self) -> Means:
        """Return the means over all iterations."""
        return _means_between(_NO_ITERATIONS, self._sums())

    @property
    def total(self) -> float:
        """Return the seconds of all iterations together; 0 before the first."""
        return self._seconds

    @property
    def median(self) -> float:
        """Return the seconds that half of the iterations took at most."""
        return self._quantile(0.5)

    @property
    def p95(self) -> float:
        """Return the seconds that 95 % of the iterations took at most."""
        return self._quantile(0.95)

    @property
    def _most_early(self) -> int:
        """Return the number of iterations with a time, up to the last one of `early`."""
        return LAST_EARLY - 1 if self._untimed else LAST_EARLY

    def _sums(self) -> _Sums:
        return (
            self.count,
            self._seconds,
            self._data,
            self._compute,
            self._sync,
            self._ready,
            self._samples,
            self._bytes_sent,
        )

    def _keep_seconds(self, seconds: float) -> None:
        # Every second value goes, so that those that stay are spread evenly over the run.
        if len(self._kept) == self.KEPT:
            self._kept = self._kept[::2]
            self._stride *= 2
            if (self.count - 1) % self._stride:
                return
        self._kept.append(seconds)

    def _quantile(self, share: float) -> float:
        """Return a quantile, between the two nearest values in proportion, as numpy does."""
        # Sorted once for several quantiles, which are asked for together.
        if self._sorted[0] != self.count:
            self._sorted = (self.count, sorted(self._kept))
        sorted_values = self._sorted[1]
        if not sorted_values:
            return NAN
        lower_index, remainder = divmod(share * (len(sorted_values) - 1), 1)
        lower_value = sorted_values[int(lower_index)]
        upper_value = sorted_values[min(int(lower_index) + 1, len(sorted_values) - 1)]
        return lower_value + (upper_value - lower_value) * remainder


_FIGURES = (*STEP.figures, "cpu_seconds")
_PLACES = {figure: place for place, figure in enumerate(_FIGURES)}
_WIDTH = len(_FIGURES)
_times_of: Callable[[object], tuple[Any, ...]] = attrgetter(
    "seconds", "data", "compute", "sync", "ready", "samples", "bytes_sent"
)
"""Reads what `_Sums` sum up of a step, or the columns of several."""
_figures_of: Callable[[object], tuple[Any, ...]] = attrgetter(*_FIGURES)
"""Reads the figures of a step, or the columns of several."""
_pack_step = Struct(f"{_WIDTH}d").pack


def find_median(values: Iterable[float]) -> float:
    """Return the median of these values; NaN if there are none."""
    sorted_values = sorted(values)  # `statistics.median` takes twice as long
    if not sorted_values:
        return NAN
    middle = len(sorted_values) // 2
    if len(sorted_values) % 2:
        return sorted_values[middle]
    return (sorted_values[middle - 1] + sorted_values[middle]) / 2


class PresentTimes:
    """Sums over the last iterations of a rank: `RECENT` of them at the least, which took
    `PRESENT_SECONDS` at the least.

    They are summed in parts, of which the oldest goes once the others are enough. So many quick
    iterations take little memory, and nothing is lost to rounding, as it is if one subtracts.
    """

    __slots__ = ("_closed_sums", "_open_part", "_open_seconds", "_parts")

    def __init__(self) -> None:
        self._parts = array("d")
        """The `_Sums` of each complete part, one after the other."""
        self._closed_sums: list[float] = [*_NO_ITERATIONS]
        """Those of all complete parts together: a frame asks for the means of all ranks."""
        self._open_part: list[float] = [*_NO_ITERATIONS]
        """Those of the newest part, which is not complete yet."""
        self._open_seconds = 0.0

    def append(self, step: StepFinished, number: int) -> None:
        """Take in a `number` of iterations of which each took as long as this one."""
        self._open_seconds += number * step.seconds
        self._add(number, [number * figure for figure in _times_of(step)])
        if self._open_seconds >= PART_SECONDS:
            self._close_part()

    def append_steps(self, steps: StepColumns) -> None:
        """Take in iterations, each of which has a time."""
        columns = _times_of(steps)
        start = 0
        open_seconds = self._open_seconds
        # One by one, so that parts are the same as if each iteration came alone.
        for stop, seconds in enumerate(steps.seconds, 1):
            open_seconds += seconds
            if open_seconds >= PART_SECONDS:
                self._add(stop - start, [sum(column[start:stop]) for column in columns])
                self._close_part()
                open_seconds = 0.0
                start = stop
        self._open_seconds = open_seconds
        if start < len(steps):
            self._add(len(steps) - start, [sum(column[start:]) for column in columns])

    def _add(self, number: int, sums: Sequence[float]) -> None:
        self._open_part = [*map(add, self._open_part, (number, *sums))]

    def _close_part(self) -> None:
        parts = self._parts
        parts.extend(self._open_part)
        self._open_part = [*_NO_ITERATIONS]
        self._open_seconds = 0.0
        num_iterations, seconds = sum(parts[0::_NUM_SUMS]), sum(parts[1::_NUM_SUMS])
        # The oldest part goes once the others are enough.
        while num_iterations - parts[0] >= RECENT and seconds - parts[1] >= PRESENT_SECONDS:
            num_iterations -= parts[0]
            seconds -= parts[1]
            del parts[:_NUM_SUMS]
        self._closed_sums = [sum(parts[place::_NUM_SUMS]) for place in range(_NUM_SUMS)]

    @property
    def means(self) -> Means:
        """Return the means over these iterations."""
        return _means_of(map(add, self._closed_sums, self._open_part))


class RecentSteps:
    """The last steps of a rank in its present attempt. Figures are those of `StepFinished`.

    `means`, what is shown of the present, are of at least `PRESENT_SECONDS`; all else is of the
    last `RECENT` steps. All are NaN before the first step. That one warms up: it counts only while
    it is alone.
    """

    # Figures are kept as numbers beside each other. Those of 1,000 ranks are asked for together,
    # and to fetch as many steps from all over the memory takes longer than to compute with them.
    __slots__ = (
        "_loss",
        "_means",
        "_medians",
        "_present",
        "_recent",
        "_warms_up",
        "count",
    )

    def __init__(self) -> None:
        self._recent = array("d")
        self._present = PresentTimes()
        self.count = 0
        """Steps of the attempt that have a time."""
        self._means: Means | None = None
        self._medians: dict[str, float] = {}
        self._loss: float | None = None
        self._warms_up = True

    def __len__(self) -> int:
        return len(self._recent) // _WIDTH

    def __bool__(self) -> bool:
        return bool(self._recent)

    def append(self, step: StepFinished, number: int = 1) -> None:
        """Take in a step. In a log, one report may stand for a `number` of steps."""
        self._keep_figures(_pack_step(*_figures_of(step)))
        if not math.isfinite(step.seconds):
            return
        self.count += 1
        if self.count == 2:  # the first one warms up
            self._present = PresentTimes()
        self._present.append(step, number)

    def append_steps(self, steps: StepColumns) -> None:
        """Take in steps, each of which has a time, after the first `RECENT` ones."""
        newest_steps = steps.part(-RECENT)
        figures = chain.from_iterable(zip(*_figures_of(newest_steps), strict=True))
        self._keep_figures(pack(f"{len(newest_steps) * _WIDTH}d", *figures))
        self.count += len(steps)
        self._present.append_steps(steps)

    def _keep_figures(self, figures: bytes) -> None:
        """Keep the figures of further steps, which come beside each other."""
        recent_figures = self._recent
        recent_figures.frombytes(figures)
        num_superfluous = len(recent_figures) - RECENT * _WIDTH
        if num_superfluous > 0:
            del recent_figures[:num_superfluous]
            self._warms_up = False
        self._means = self._loss = None
        self._medians.clear()

    def last(self, figure: str) -> array[float]:
        """Return a figure of each of the last `RECENT` steps, in order."""
        return self._recent[_PLACES[figure] :: _WIDTH]

    @property
    def seconds(self) -> float:
        """Return the median seconds of a step."""
        return self.median("seconds")

    def median(self, figure: str) -> float:
        """Return the median of a figure. It is kept as `means` are."""
        if figure not in self._medians:
            self._medians[figure] = find_median(self.last(figure))
        return self._medians[figure]

    @property
    def loss(self) -> float:
        """Return the mean loss, of all steps: none warms up. It is kept as `means` are."""
        if self._loss is None:
            self._loss = finite_mean(self.last("loss"))
        return self._loss

    @property
    def means(self) -> Means:
        """Return the means of the present, see `PresentTimes`, which are shown of each rank. They
        are kept, as several ask for them."""
        if self._means is None:
            self._means = self._present.means
        return self._means

    def mean(self, figure: str) -> float:
        """Return the mean of a figure."""
        warm_values = self._warm_values(figure)
        return sum(warm_values) / len(warm_values) if warm_values else NAN

    def _warm_values(self, figure: str) -> array[float]:
        """Return a figure of each step that counts."""
        last_values = self.last(figure)
        return last_values[1:] if self._warms_up and len(last_values) > 1 else last_values
