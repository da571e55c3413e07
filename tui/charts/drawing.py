"""From the curves of a run to those of a chart."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from remote.run.run_state import RunState
from remote.run.series.curves import Curves
from remote.run.series.definitions import SERIES, Scope, Unit
from remote.run.series.downsampling import Floats, Points
from tui.charts.annotations import Mark
from tui.charts.axis_limits import x_limits
from tui.charts.chart_view import ChartView, CurveMode, XAxis
from tui.charts.kinds import ChartKind
from tui.charts.plot_frame import PlotOptions
from tui.charts.raster import Curve

WARM = 5
"""The step from which on values set the limits of y."""
MOST = 32
"""Curves that are drawn at once: more cannot be told apart, and take too long."""
FINE = 200
"""Points in view that are fine enough."""
SPAN = 500
"""Steps up to which smoothing counts single steps."""
BITS = 500
LARGE = 1e150
"""By how many powers of two the weights of values differ that are summed at once, and the largest
value that can stand beside them."""


@dataclass(frozen=True)
class ChartLine:
    """Points of a series, with the name and the row of whom they are of; -1 for all."""

    series: str
    name: str
    row: int
    points: Points
    x: Floats


@dataclass(frozen=True, eq=False)
class Drawing:
    """What a chart draws, and the points behind it. `hidden` rows are too many to be drawn.
    `newest` is the value that stands above it, NaN where there is none, and `whose` it is, where
    the names of the curves do not tell."""

    curves: tuple[Curve, ...]
    marks: tuple[Mark, ...]
    look: PlotOptions
    lines: tuple[ChartLine, ...]
    ends: tuple[float, float] | None
    hidden: int = 0
    newest: float = math.nan
    whose: str = ""


def drawing(run: RunState, kind: ChartKind, view: ChartView, kept: Curves | None = None) -> Drawing:
    """What a chart of this kind draws of a run; with `kept`, of these finer curves of the part in
    view. The run's lock is held."""
    drawn = _Drawer(run, kind, view, kept or run.curves).drawing()
    if kept is None:
        return drawn
    whole = _Drawer(run, kind, view, run.curves).drawing()
    return replace(drawn, ends=whole.ends)


def coarse(
    drawn: Drawing, kind: ChartKind, view: ChartView, run: RunState
) -> tuple[int, int] | None:
    """The first and the last step in view, where more of them were made than are drawn; else
    None."""
    if view.window is None or not drawn.lines or SERIES[kind.series[0]].source.by_time:
        return None
    line = drawn.lines[0]
    (inside,) = np.nonzero((line.x >= view.window[0]) & (line.x <= view.window[1]))
    if inside.size < 2:
        around = np.flatnonzero(np.isfinite(line.x))
        at = np.searchsorted(line.x[around], view.window)
        inside = around[max(at[0] - 1, 0) : at[1] + 1]
    if inside.size < 2:
        return None
    low, high = (int(line.points.step[at]) for at in (inside[0], inside[-1]))
    return (low, high) if inside.size < min(0.7 * (high - low), FINE) else None


class _Drawer:
    def __init__(self, run: RunState, kind: ChartKind, view: ChartView, curves: Curves) -> None:
        self._run = run
        self._kind = kind
        self._view = view
        self._curves = curves
        self._factor = 100.0 if kind.unit is Unit.SHARE else 1.0

    def drawing(self) -> Drawing:
        lines, hidden = self._lines()
        curves = [curve for line in lines for curve in self._drawn(line, len(lines))]
        if self._kind.tests:
            curves += self._tests()
        span = x_limits(curves, self._view.log_x)
        window = self._view.shows(span) if span else None
        look = PlotOptions(
            self._view.along.value,
            clock=self._view.along is XAxis.TIME,
            parts=self._view.along is XAxis.EPOCH,
            from_zero=self._kind.from_zero,
            log=self._view.log_x,
            stacked=self._kind.stacked,
            window=window,
            live=bool(self._view.tail),
            warm=self._warm(lines),
            cursor=self._view.cursor,
            named=len(lines) > 1 and not self._kind.stacked,
        )
        told, whose = self._told(lines)
        newest = self._newest(told, len(lines)) if told else math.nan
        drawn = tuple(curves), tuple(self._marks()), look, tuple(lines), span, hidden
        return Drawing(*drawn, newest, whose)

    def _lines(self) -> tuple[list[ChartLine], int]:
        kind = self._kind
        view = self._view
        if kind.stacked:
            return [self._line(name, -1) for name in kind.series], 0
        series = kind.series[0]
        rows = self._curves.rows(series)
        if view.mode is CurveMode.EACH or len(rows) == 1:
            return [self._line(series, row) for row in rows[:MOST]], max(0, len(rows) - MOST)
        whole = self._line(series, -1)
        if view.mode is CurveMode.ONE and view.one < len(rows):
            return [whole, self._line(series, rows[view.one])], 0
        return [whole], 0

    def _told(self, lines: list[ChartLine]) -> tuple[ChartLine | None, str]:
        """The line whose newest value stands above the chart, and its name, where that is one of
        several."""
        if self._kind.stacked or len(lines) < 2:
            return (lines[0] if lines else None), ""
        if self._view.mode is CurveMode.EACH:
            return self._line(self._kind.series[0], -1), "mean"
        one = lines[-1]
        is_rank = SERIES[one.series].scope is Scope.RANK
        return one, f"rank {one.name}" if is_rank else one.name

    def _newest(self, line: ChartLine, count: int) -> float:
        """The newest value of a line, smoothed as it is drawn."""
        mean = self._drawn(line, count)[-1].mean
        known = mean[np.isfinite(mean)]
        return float(known[-1]) if known.size else math.nan

    def _line(self, series: str, row: int) -> ChartLine:
        since = self._since()
        points = (
            self._curves.whole(series, since) if row < 0 else self._curves.of(series, row, since)
        )
        if self._factor != 1:
            with np.errstate(over="ignore"):  # a program may print any number
                low, high, mean = (
                    self._factor * one for one in (points.low, points.high, points.mean)
                )
            points = replace(points, low=low, high=high, mean=mean)
        return ChartLine(series, self._name(series, row), row, points, self._x(points))

    def _name(self, series: str, row: int) -> str:
        spec = SERIES[series]
        if row < 0:
            return spec.title if self._kind.stacked else "mean"
        if spec.scope is Scope.HOST:
            return self._run.host_name(row)
        return str(row)

    def _since(self) -> float:
        """The first step in view, if that is near the end."""
        view = self._view
        if view.along is XAxis.TIME or view.is_whole:
            return 0.0
        last = float(self._run.step)
        low = view.window[0] / self._per_step() if view.window else 0.0
        return last - view.tail / self._per_step() if view.tail else low

    def _per_step(self) -> float:
        """How much of the x axis one step is."""
        job = self._run.plan.job
        begun = self._run.progress.begun
        match self._view.along:
            case XAxis.EPOCH:
                return 1 / max(begun.steps_per_epoch, 1) if begun else 1.0
            case XAxis.SAMPLES:
                return float(job.batch_size) if job else 1.0
        return 1.0

    def _x(self, points: Points) -> Floats:
        return points.time if self._view.along is XAxis.TIME else points.step * self._per_step()

    def _drawn(self, line: ChartLine, count: int) -> list[Curve]:
        """The curve of a line; a smoothed one over the faint one that it is made of."""
        points = line.points
        alone = count == 1
        colour = 0 if line.row < 0 or alone else line.row
        if self._kind.stacked:
            colour = self._kind.series.index(line.series)
        if self._view.mode is CurveMode.ONE and line.row >= 0:
            colour = 1 + line.row
        banded = not self._kind.stacked and (line.row < 0 or alone)
        raw = Curve(*(line.name, colour, line.x, points.low, points.high, points.mean), band=banded)
        smoothing = 0.0 if self._kind.stacked else self._view.smoothing
        if not smoothing or len(points) < 3:
            return [raw]
        even = smooth(points.step, points.mean, smoothing)
        over = replace(raw, low=even, high=even, mean=even, band=False)
        return [replace(raw, faint=True), over] if banded else [over]

    def _tests(self) -> list[Curve]:
        line = self._line(self._kind.tests, -1)
        mean = line.points.mean
        return [Curve("test", 1, line.x, mean, mean, mean, band=False, single=True)]

    def _warm(self, lines: list[ChartLine]) -> float | None:
        """The x from which on values set the limits of y."""
        for line in lines:
            late = np.flatnonzero(line.points.step >= WARM)
            if late.size:
                return float(line.x[late[0]])
        return None

    def _marks(self) -> list[Mark]:
        if not self._view.marks:
            return []
        clock = self._view.along is XAxis.TIME
        return [
            (mark.time if clock else mark.step * self._per_step(), mark.letter)
            for mark in self._run.marks.all()
        ]


def smooth(steps: Floats, values: Floats, weight: float) -> Floats:
    """The exponential moving average of values, in which what lies n steps back counts `weight` to
    the power of n; in long runs, n times as many steps back. NaN stays a gap, and the average goes
    on behind it."""
    known = np.isfinite(values)
    found = np.where(known, values, np.nan)
    if not weight or not known.any():
        return found
    size = max(float(steps[-1] - steps[0]) / SPAN, 1.0)
    unit = 2.0 ** math.floor(math.log2(size))  # seldom another, so that what is drawn stays
    place = np.cumsum(np.diff(steps, prepend=steps[:1]).clip(0)) / unit
    scale = max(1.0, float(np.abs(found[known]).max()) / LARGE)
    sums = np.array([np.where(known, values, 0.0) / scale, known])
    total = np.zeros(2)
    last = 0.0
    for part in _parts(place, BITS / -math.log2(weight)):
        # Growing forwards instead of fading backwards comes to the same mean.
        growth = weight ** -(place[part] - place[part][0])
        totals = total[:, None] * weight ** (place[part][0] - last) + np.cumsum(
            sums[:, part] * growth, axis=1
        )
        here = known[part]
        found[part][here] = totals[0][here] / totals[1][here] * scale
        total = totals[:, -1] / growth[-1]
        last = place[part][-1]
    return found


def _parts(place: Floats, room: float) -> Iterator[slice]:
    """Parts that each have at most so much room."""
    cuts = np.flatnonzero(np.diff(place // room)) + 1
    for first, end in pairwise([0, *cuts.tolist(), len(place)]):
        yield slice(first, end)
