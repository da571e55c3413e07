"""Runs as curves over each other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from remote.format import exact_duration
from remote.metrics.points import Points, evaluation_points, training_points
from remote.metrics.run import RunFigures
from tui.charts.annotations import PointLabel
from tui.charts.axis_limits import MIN_DECADES, count_decades
from tui.charts.chart_view import USUAL_SMOOTHING
from tui.charts.raster import Curve, Floats
from tui.charts.smoothing import smooth
from tui.kit.inks import REFERENCE
from tui.kit.palette import RUN_LETTERS


class PointsReader(Protocol):
    """Reads the points of a run's metric, see `remote.metrics.points`."""

    def __call__(self, run: RunFigures, figure: str, *, by_time: bool) -> Points: ...


MAX_RUNS_WITH_STEPS = 2
"""Runs of which the single steps are drawn behind the average."""


class CompareMeasure(Struct, frozen=True):
    """A metric by which runs are compared."""

    title: str
    read_points: PointsReader
    metric: str

    @property
    def is_noisy(self) -> bool:
        """Whether each value comes from one step, of one batch."""
        return self.read_points is training_points

    def is_log(self, curves: Sequence[Curve]) -> bool:
        """Return True if these curves are easier to compare on a logarithmic axis."""
        values = [curve.mean for curve in curves]
        if self.metric != "loss" or not values:
            return False
        return count_decades(np.concatenate(values)) > MIN_DECADES

    def curves(
        self, runs: Sequence[RunFigures], *, clock: bool, smoothed: bool = False
    ) -> list[Curve]:
        """Return a curve for each run, by step or with `clock` by seconds, named by its letter.

        With `smoothed`, noisy ones are averaged. Of few runs, the single steps stand behind that.
        """
        factor = 100.0 if self.metric == "accuracy" else 1.0
        step_curves = []
        curves = []
        for place, run in enumerate(runs):
            x, values = self.read_points(run, self.metric, by_time=clock)
            values = values * factor
            if not (smoothed and self.is_noisy and len(values)):
                curves.append(_curve(place, x, values))
                continue
            # The average counts steps, also where x is a time.
            steps, _ = self.read_points(run, self.metric, by_time=False)
            step_curves.append(_curve(place, x, values, faint=True))
            curves.append(_curve(place, x, smooth(steps, values, USUAL_SMOOTHING)))
        return step_curves + curves if len(runs) <= MAX_RUNS_WITH_STEPS else curves


def _curve(place: int, x: Floats, values: Floats, faint: bool = False) -> Curve:
    return Curve(
        RUN_LETTERS[place],
        place,
        x,
        values,
        values,
        values,
        faint=faint,
        band=False,
        # The single steps are faint already.
        dash=0 if faint else place,
    )


class MarkedCurves(NamedTuple):
    """Curves, and the names of points on them."""

    curves: list[Curve]
    labels: tuple[PointLabel, ...] = ()


def mark_goal(curves: Sequence[Curve], goal: float, *, clock: bool) -> MarkedCurves:
    """Draw a line at the test accuracy `goal`, a share, and mark where each of these curves of
    percentages reaches it first: "A 15 s", or without `clock` "A step 40"."""
    level = 100.0 * goal
    # A share of 0.29 is a little less than 29 percent.
    crossings = [np.flatnonzero(curve.mean >= level - 1e-6) for curve in curves]
    if not (curves and all(crossing.size for crossing in crossings)):
        return MarkedCurves(list(curves))
    signed_curves = []
    labels = []
    for curve, crossing in zip(curves, crossings, strict=True):
        first = int(crossing[0])
        x = float(curve.x[first])
        place_text = exact_duration(x) if clock else f"step {x:.0f}"
        signed_curves.append(replace(curve, signed=(first,)))
        text = f"{curve.label} {place_text}"
        labels.append(PointLabel(x, float(curve.mean[first]), text, curve.colour))
    left = min(float(curve.x[0]) for curve in curves)
    right = max(float(curve.x[-1]) for curve in curves)
    level_line = make_level_line(level, left, right)
    return MarkedCurves([level_line, *signed_curves], tuple(labels))


def make_level_line(level: float, left: float, right: float) -> Curve:
    """Return a faint line at one value of y, to read others by."""
    values = np.array([level, level])
    ends = np.array([left, right])
    return Curve("", REFERENCE, ends, values, values, values, faint=True, band=False)


LOSS = CompareMeasure("training loss", training_points, "loss")
TEST_ACCURACY = CompareMeasure("test accuracy (%)", evaluation_points, "accuracy")
TRAINING_ACCURACY = CompareMeasure("training accuracy (%)", training_points, "accuracy")
TEST_LOSS = CompareMeasure("test loss", evaluation_points, "loss")
MEASURES = LOSS, TRAINING_ACCURACY, TEST_ACCURACY, TEST_LOSS
