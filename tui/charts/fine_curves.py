"""The part of a run that was read again from its record, to be seen closely."""

from __future__ import annotations

from remote.run.series.curves import Curves
from tui.charts.chart_view import ChartView, XAxis

MAX_ZOOM = 8.0
"""How many times closer one can look before the steps are read again."""


class FineCurves:
    """Finer curves of what is in view on one x axis."""

    def __init__(self) -> None:
        self.steps = (0, 0)
        """The first and the last step that were asked for."""
        self.curves: Curves | None = None
        """The curves of these steps, once they have been read."""
        self._along = XAxis.STEP
        self._window = (0.0, 0.0)

    def request(self, steps: tuple[int, int], view: ChartView, last_x: float) -> bool:
        """Ask for the steps in view and as many at each side, up to the x of the newest step.

        Return False if they were asked for already.
        """
        if view.window is None or self._covers(view):
            return False
        first, last = steps
        size = last - first
        self.steps = max(0, first - size), last + size
        self._along = view.along
        begin, end = view.window
        # Not beyond the newest step: what a live run adds there has not been read.
        self._window = (2 * begin - end, max(end, min(2 * end - begin, last_x)))
        self.curves = None
        return True

    def take(self, steps: tuple[int, int], curves: Curves | None) -> None:
        """Take the curves of these steps, unless others were asked for since."""
        if steps == self.steps:
            self.curves = curves

    def for_view(self, view: ChartView) -> Curves | None:
        """Return the curves if they have all that is in view and are not too coarse for it."""
        return self.curves if self._covers(view) else None

    def _covers(self, view: ChartView) -> bool:
        if view.window is None or view.along is not self._along:
            return False
        begin, end = view.window
        low, high = self._window
        is_inside = low <= begin and end <= high
        return is_inside and (high - low) <= MAX_ZOOM * (end - begin)
