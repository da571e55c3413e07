"""The part of a run that was read again, to be seen closely."""

from __future__ import annotations

from remote.run.series.curves import Curves
from tui.charts.chart_view import ChartView, XAxis

CLOSER = 8.0
"""How many times closer one can look before the steps are read again."""


class FineCurves:
    """`steps` are the first and the last step that were asked for; `curves` what came of it, None
    before. They are of one x axis, and of what is in view there."""

    def __init__(self) -> None:
        self.steps = (0, 0)
        self.curves: Curves | None = None
        self._along = XAxis.STEP
        self._window = (0.0, 0.0)

    def begin(self, part: tuple[int, int], view: ChartView, last: float) -> bool:
        """Ask for the steps of this part, and for as many at each side; there are none yet beyond
        the x `last`. Returns whether they were not asked for yet."""
        low, high = part
        size = high - low
        if view.window is None or self._covers(view):
            return False
        self.steps = max(0, low - size), high + size
        begin, end = view.window
        self._along = view.along
        self._window = (2 * begin - end, max(end, min(2 * end - begin, last)))
        self.curves = None
        return True

    def take(self, steps: tuple[int, int], curves: Curves | None) -> None:
        """Take what came of these steps, unless others were asked for since."""
        if steps == self.steps:
            self.curves = curves

    def within(self, view: ChartView) -> Curves | None:
        """The curves, where they have all that is in view and are not too coarse for it."""
        return self.curves if self._covers(view) else None

    def _covers(self, view: ChartView) -> bool:
        if view.window is None or view.along is not self._along:
            return False
        begin, end = view.window
        low, high = self._window
        return low <= begin and end <= high and (high - low) <= CLOSER * (end - begin)
