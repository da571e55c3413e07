"""What one sees of a chart, as plain data: which curves, along which axis, how much of it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum

from tui.charts.axis import Axis

CLOSEST = 1e-6
"""The smallest part of an axis that is shown."""
SMOOTHINGS = (0.0, 0.5, 0.8, 0.9, 0.95, 0.99)


class XAxis(Enum):
    """The x axis."""

    STEP = "step"
    EPOCH = "epoch"
    TIME = "time"
    SAMPLES = "samples"


class CurveMode(Enum):
    """Which curves: the mean with a band from the least to the greatest, one of each rank or host,
    or one of them against the mean."""

    MEAN = "mean"
    EACH = "each"
    ONE = "one"


@dataclass(frozen=True)
class ChartView:
    """What one sees of a chart.

    `one` is the rank or host against the mean. `smoothing` is the weight of the past in an
    exponential moving average by steps, 0 for none. `window` is the x in view, None for all; with
    `tail` it is the last so much of it, and moves. `cursor` is the x of the cursor.
    """

    along: XAxis = XAxis.STEP
    mode: CurveMode = CurveMode.MEAN
    one: int = 0
    log_x: bool = False
    log_y: bool = False
    smoothing: float = 0.9
    marks: bool = True
    window: tuple[float, float] | None = None
    tail: float = 0.0
    cursor: float | None = None

    @property
    def is_whole(self) -> bool:
        """Whether all of the x axis is in view."""
        return self.window is None and not self.tail

    def shows(self, ends: tuple[float, float]) -> tuple[float, float] | None:
        """The x in view of a curve with these ends; None for all."""
        if self.tail:
            return max(ends[0], ends[1] - self.tail), ends[1]
        return self.window

    def whole(self) -> ChartView:
        """All of the x axis, and no cursor."""
        return replace(self, window=None, tail=0.0, cursor=None)

    def left(self) -> ChartView:
        """One layer less: without its cursor, or all of the x axis; itself where neither is set."""
        return replace(self, cursor=None) if self.cursor is not None else self.whole()

    def zoomed(self, factor: float, at: float, axis: Axis, ends: tuple[float, float]) -> ChartView:
        """So many times closer, or with less than 1 farther, while the x `at` stays in place."""
        low, high = axis.ends
        place = min(max(axis.at(at), 0.0), 1.0)
        size = (high - low) / factor
        first, last = _inside(ends, axis)
        begin = low + place * (high - low - size)
        begin = max(first, min(begin, last - size))
        return self._within(begin, begin + size, axis, ends)

    def panned(self, share: float, axis: Axis, ends: tuple[float, float]) -> ChartView:
        """Moved by a share of what is in view."""
        low, high = axis.ends
        first, last = _inside(ends, axis)
        size = high - low
        begin = min(max(low + share * size, first), max(first, last - size))
        return self._within(begin, begin + size, axis, ends)

    def followed(self, axis: Axis, ends: tuple[float, float]) -> ChartView:
        """The newest part, as wide as what is in view, or a quarter where all is."""
        size = ends[1] - ends[0]
        tail = size / 4 if self.is_whole else min(axis.high - axis.low, size)
        return replace(self, window=None, tail=max(tail, CLOSEST), cursor=None)

    def _within(self, low: float, high: float, axis: Axis, ends: tuple[float, float]) -> ChartView:
        first, last = _inside(ends, axis)
        if high - low >= last - first:
            return replace(self, window=None, tail=0.0)
        least = CLOSEST * max(last - first, 1e-9)
        high = max(high, low + least)
        window = (10.0**low, 10.0**high) if axis.log else (low, high)
        return replace(self, window=window, tail=0.0)

    # Steps through what there is to choose from

    def next_axis(self) -> ChartView:
        """By the next of steps, epochs, time and samples."""
        every = list(XAxis)
        along = every[(every.index(self.along) + 1) % len(every)]
        return replace(self.whole(), along=along)

    def next_mode(self, rows: int, chosen: int = 0) -> ChartView:
        """The mean, each, then the `chosen` one of the rows against the mean: where that is another
        one than before, once more."""
        if self.mode is CurveMode.MEAN and rows > 1:
            return replace(self, mode=CurveMode.EACH)
        if self.mode is CurveMode.EACH or (
            self.mode is CurveMode.ONE and self.one != chosen and rows > 1
        ):
            return replace(self, mode=CurveMode.ONE, one=chosen)
        return replace(self, mode=CurveMode.MEAN, one=0)

    def smoothed(self, by: int) -> ChartView:
        """More smoothed, or less."""
        nearest = min(range(len(SMOOTHINGS)), key=lambda at: abs(SMOOTHINGS[at] - self.smoothing))
        at = min(max(nearest + by, 0), len(SMOOTHINGS) - 1)
        return replace(self, smoothing=SMOOTHINGS[at])


def _inside(ends: tuple[float, float], axis: Axis) -> tuple[float, float]:
    """The ends of the curves as positions on an axis."""
    return Axis(max(ends[0], axis.low * 1e-9), ends[1], log=True).ends if axis.log else ends
