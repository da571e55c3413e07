"""From the curves of a run to the lines of a chart: the points along its x axis."""

from __future__ import annotations

import numpy as np
from msgspec import Struct, structs

from remote.run.run_state import RunState
from remote.run.series.curves import Curves
from remote.run.series.definitions import SERIES, Scope, Unit
from remote.run.series.downsampling import Floats, Points
from tui.charts.chart_view import ChartView, CurveMode, XAxis
from tui.charts.kinds import ChartKind
from tui.charts.x_labels import Mark

FIRST_WARM_STEP = 5
"""The step from which on values set the limits of y."""
WARM_UP_SHARE = 0.1
"""The share of the steps that warm up where values come near their limit."""
MAX_CURVES = 32
"""Curves that are drawn at once: more cannot be told apart, and take too long."""


class ChartLine(Struct, frozen=True):
    """The points of one series of one rank or host, or of all of them."""

    series: str
    name: str
    row: int
    """The rank or host, or -1 for the mean over all."""
    points: Points
    x: Floats


class LineReader:
    """Reads the lines of a chart from the curves of a run."""

    def __init__(self, run: RunState, kind: ChartKind, view: ChartView, curves: Curves) -> None:
        self._run = run
        self._kind = kind
        self._view = view
        self._curves = curves
        self.is_by_time = view.along is XAxis.TIME
        self._x_per_step = _x_per_step(run, view.along)

    def read_all(self) -> tuple[list[ChartLine], int]:
        """Return the lines to draw, and how many more are hidden."""
        if self._kind.stacked:
            return [self.read(name, -1) for name in self._kind.series], 0
        view = self._view
        series = self._kind.series[0]
        rows = self._curves.rows(series)
        if view.mode is CurveMode.EACH or len(rows) == 1:
            lines = [self.read(series, row) for row in rows[:MAX_CURVES]]
            return lines, max(0, len(rows) - MAX_CURVES)
        mean = self.read(series, -1)
        if view.mode is CurveMode.ONE and view.one < len(rows):
            return [mean, self.read(series, rows[view.one])], 0
        return [mean], 0

    def read(self, series: str, row: int) -> ChartLine:
        """Return the line of a series of a rank or host, or (-1) of the mean over all."""
        since = self._first_step_needed()
        if row < 0:
            points = self._curves.whole(series, since)
        else:
            points = self._curves.of(series, row, since)
        if self._kind.unit is Unit.SHARE:
            points = _to_percent(points)
        return ChartLine(series, self._name_of(series, row), row, points, self._x_of(points))

    def _name_of(self, series: str, row: int) -> str:
        definition = SERIES[series]
        if row < 0:
            return definition.title if self._kind.stacked else "mean"
        if definition.scope is Scope.HOST:
            return self._run.host_name(row)
        return str(row)

    def _first_step_needed(self) -> float:
        """Return the first step in view, so that a view of the end is fine and quick."""
        view = self._view
        # Points are found by their steps, and of an x in seconds nobody knows the step.
        if self.is_by_time or view.is_whole:
            return 0.0
        if view.window:
            return view.window[0] / self._x_per_step
        return self._run.step - view.tail / self._x_per_step

    def _x_of(self, points: Points) -> Floats:
        return points.time if self.is_by_time else points.step * self._x_per_step

    def warm_x(self, lines: list[ChartLine]) -> float | None:
        """Return the x from which on values set the limits of y."""
        for line in lines:
            steps = line.points.step
            warm_step = float(FIRST_WARM_STEP)
            if self._kind.saturates and steps.size:
                warm_step = max(warm_step, WARM_UP_SHARE * float(steps[-1]))
            warm_points = np.flatnonzero(steps >= warm_step)
            if warm_points.size:
                return float(line.x[warm_points[0]])
        return None

    def marks(self) -> list[Mark]:
        """Return what happened in the run, by x."""
        if not self._view.marks:
            return []
        return [
            (mark.time if self.is_by_time else mark.step * self._x_per_step, mark.letter)
            for mark in self._run.marks.all()
        ]


def _x_per_step(run: RunState, along: XAxis) -> float:
    job = run.plan.job
    begun = run.progress.begun
    if along is XAxis.EPOCH and begun:
        return 1 / max(begun.steps_per_epoch, 1)
    if along is XAxis.SAMPLES and job:
        return float(job.batch_size)
    return 1.0


def _to_percent(points: Points) -> Points:
    with np.errstate(over="ignore"):  # a script may print any number
        return structs.replace(
            points, low=100 * points.low, high=100 * points.high, mean=100 * points.mean
        )
