"""What one sees of a chart, as plain data: which curves, along which axis, how much of it."""

from __future__ import annotations

from enum import Enum
from typing import Annotated

from msgspec import Meta, Struct
from msgspec.structs import replace

from tui.charts.axis import Axis

MIN_WINDOW_SHARE = 1e-6
"""The smallest part of an axis that is shown."""
USUAL_SMOOTHING = 0.9
SMOOTHINGS = (0.0, 0.5, 0.8, 0.9, 0.95, 0.99)

XRange = tuple[float, float]
"""The least and the greatest x."""


class XAxis(Enum):
    """What the x axis counts."""

    STEP = "step"
    EPOCH = "epoch"
    TIME = "time"
    SAMPLES = "samples"


class CurveMode(Enum):
    """Which curves there are."""

    MEAN = "mean"
    """The mean over ranks or hosts, with a band from the least to the greatest."""
    EACH = "each"
    """One curve for each rank or host."""
    ONE = "one"
    """One rank or host against the mean."""


class ChartView(Struct, frozen=True):
    """What one sees of a chart. Methods return changed views.

    Where they take `x_range`, it is that of all curves.
    """

    along: XAxis = XAxis.STEP
    mode: CurveMode = CurveMode.MEAN
    one: Annotated[int, Meta(ge=0)] = 0
    """The rank or host that is drawn against the mean."""
    log_x: bool = False
    log_y: bool | None = None
    """None: where the values span so much that a linear axis would hide most of them."""
    smoothing: Annotated[float, Meta(ge=0, lt=1)] | None = None
    """The weight of the past in an exponential moving average by steps, 0 for none. None: the usual
    one where the values are noisy."""
    marks: bool = True
    window: XRange | None = None
    """The x in view, or None for all."""
    tail: float = 0.0
    """The length of the newest part that is in view and moves, or 0."""
    cursor: float | None = None
    """The x of the cursor."""

    @property
    def is_whole(self) -> bool:
        """Whether all of the x axis is in view."""
        return self.window is None and not self.tail

    def visible_range(self, x_range: XRange) -> XRange | None:
        """Return the x in view, or None for all."""
        if self.tail:
            low, high = x_range
            return max(low, high - self.tail), high
        return self.window

    def whole(self) -> ChartView:
        """Show all of the x axis, without a cursor."""
        return replace(self, window=None, tail=0.0, cursor=None)

    def left(self) -> ChartView:
        """Leave the cursor, or else the zoom."""
        if self.cursor is not None:
            return replace(self, cursor=None)
        return self.whole()

    def zoomed(self, factor: float, x: float, axis: Axis, x_range: XRange) -> ChartView:
        """Zoom in, or out by a factor below 1, while `x` stays in its place."""
        low, high = axis.ends
        share = min(max(axis.share_of(x), 0.0), 1.0)
        size = (high - low) / factor
        first, last = _positions(x_range, axis)
        begin = low + share * (high - low - size)
        begin = max(first, min(begin, last - size))
        return self._with_window(begin, begin + size, axis, x_range)

    def panned(self, share: float, axis: Axis, x_range: XRange) -> ChartView:
        """Move by a share of what is in view."""
        low, high = axis.ends
        size = high - low
        first, last = _positions(x_range, axis)
        begin = min(max(low + share * size, first), max(first, last - size))
        return self._with_window(begin, begin + size, axis, x_range)

    def followed(self, axis: Axis, x_range: XRange) -> ChartView:
        """Follow the newest part, as wide as what is in view, or a quarter if all is."""
        size = x_range[1] - x_range[0]
        tail = size / 4 if self.is_whole else min(axis.high - axis.low, size)
        return replace(self, window=None, tail=max(tail, MIN_WINDOW_SHARE), cursor=None)

    def _with_window(self, low: float, high: float, axis: Axis, x_range: XRange) -> ChartView:
        first, last = _positions(x_range, axis)
        if high - low >= last - first:
            # Whoever zooms or moves by hand no longer follows the newest part, here as below.
            return replace(self, window=None, tail=0.0)
        least_size = MIN_WINDOW_SHARE * max(last - first, 1e-9)
        high = max(high, low + least_size)
        window = (10.0**low, 10.0**high) if axis.log else (low, high)
        return replace(self, window=window, tail=0.0)

    # Choices that keys step through

    def next_axis(self) -> ChartView:
        """Take the next of steps, epochs, time and samples."""
        axes = list(XAxis)
        along = axes[(axes.index(self.along) + 1) % len(axes)]
        # A window and a cursor are numbers of the axis that is left.
        return replace(self.whole(), along=along)

    def next_mode(self, rows: int, chosen: int = 0) -> ChartView:
        """Take the mean, then each of `rows` ranks or hosts, then the `chosen` one.

        If another one than before is chosen by then, it is shown before the mean.
        """
        if self.mode is CurveMode.MEAN and rows > 1:
            return replace(self, mode=CurveMode.EACH)
        has_new_choice = self.mode is CurveMode.ONE and self.one != chosen and rows > 1
        if self.mode is CurveMode.EACH or has_new_choice:
            return replace(self, mode=CurveMode.ONE, one=chosen)
        return replace(self, mode=CurveMode.MEAN, one=0)

    def smoothed(self, change: int, smoothing: float) -> ChartView:
        """Smooth more (1) or less (-1) than by `smoothing`."""
        # The nearest one, as a view that was remembered may have any smoothing.
        distances = [abs(known - smoothing) for known in SMOOTHINGS]
        nearest = distances.index(min(distances))
        index = min(max(nearest + change, 0), len(SMOOTHINGS) - 1)
        return replace(self, smoothing=SMOOTHINGS[index])


def _positions(x_range: XRange, axis: Axis) -> XRange:
    """Return a range of x as positions on an axis."""
    if not axis.log:
        return x_range
    low, high = x_range
    return Axis(max(low, axis.low * 1e-9), high, log=True).ends
