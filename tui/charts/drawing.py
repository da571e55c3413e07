"""From the curves of a run to those of a chart."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from operator import attrgetter

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from remote.format import loss
from remote.record.step_notes import StepNote
from remote.run.findings.link_use import link_rate
from remote.run.findings.rates import is_halted, live_means
from remote.run.findings.training_loss import join_losses
from remote.run.run_state import RunState
from remote.run.series.curves import Curves
from remote.run.series.definitions import SERIES, Scope, Unit
from remote.run.series.step_times import Means
from remote.run.state.phases import RunPhase
from tui.charts.annotations import PointLabel
from tui.charts.axis_limits import MIN_DECADES, MIN_DECADES_IF_LOW, count_decades, x_limits
from tui.charts.chart_lines import ChartLine, LineReader
from tui.charts.chart_view import USUAL_SMOOTHING, ChartView, CurveMode, XAxis
from tui.charts.kinds import ChartKind
from tui.charts.plot_frame import PlotOptions, curves_for_height
from tui.charts.raster import Curve
from tui.charts.smoothing import is_noisy, newest_known, smooth
from tui.charts.units import format_value
from tui.charts.x_labels import NOTE_LETTER, Mark
from tui.kit.inks import LINE, PHASE_INKS, REFERENCE, TEST

MIN_FINE_POINTS = 200
"""Points in view that are fine enough."""
NETWORK_SERIES = ("sent", "received")
"""The series that the link of a host limits."""
MAX_LIMIT_RATIO = 5.0
"""How many times the greatest value a limit may be that is drawn: farther up, it would only press
the values down."""


HEADLINES: dict[str, Callable[[Means], float]] = {
    "throughput": attrgetter("throughput"),
    "seconds": attrgetter("seconds"),
    "bytes": attrgetter("bytes_per_second"),
}
"""The figures of the header that charts show over time, by their kinds."""


class Baseline(Struct, frozen=True, eq=False):
    """The run that is pinned, whose curves stand behind those of others."""

    name: str
    run: RunState


class Drawing(Struct, frozen=True, eq=False):
    """What a chart draws, and the points behind it."""

    curves: tuple[Curve, ...]
    marks: tuple[Mark, ...]
    options: PlotOptions
    lines: tuple[ChartLine, ...]
    x_range: tuple[float, float] | None
    """The least and the greatest x of all curves."""
    hidden: int = 0
    """Ranks or hosts that are too many to be drawn."""
    newest: float = math.nan
    """The value that stands above the chart, or NaN."""
    newest_name: str = ""
    """Whose value that is, if the names of the curves do not say it."""
    is_headline: bool = False
    """The newest value is the training loss as the header has it, not one of the curve."""
    headline_row: int | None = None
    """The rank, or -1 for all, whose figure in the header the newest value is; None if it is one of
    the curve."""
    smoothing: float = 0.0
    """The weight of the past in the average that is drawn, or 0."""
    step_phases: tuple[float, ...] = ()
    """Of a chart of phases, the seconds of each in a step, as in the header of the run."""
    limit: float = math.nan
    """What the values cannot exceed, such as the rate of a link, or NaN."""
    notes: tuple[tuple[float, StepNote], ...] = ()
    """The notes at steps, with their x."""
    baseline_name: str = ""
    baseline: float = math.nan
    """The value of the baseline at the newest x, or NaN."""
    best_test: str = ""
    """The value of the test that has the sign, or ""."""

    def for_height(self, height: int) -> Drawing:
        """Return what a chart with so many rows shows of this."""
        return replace(
            self,
            curves=tuple(curves_for_height(self.curves, height)),
            options=self.options.for_height(height),
        )


def make_drawing(
    run: RunState,
    kind: ChartKind,
    view: ChartView,
    fine_curves: Curves | None = None,
    baseline: Baseline | None = None,
    notes: Sequence[StepNote] = (),
) -> Drawing:
    """Return what a chart of this kind draws of a run, whose lock is held.

    `fine_curves` are finer curves of the part in view. The curve of a baseline stands behind, and
    `notes` are marked.
    """
    # Without a step, all points would stand at the same place.
    if not run.has_begun and SERIES[kind.series[0]].source.by_time:
        view = replace(view, along=XAxis.TIME)
    drawing = _Drawer(run, kind, view, run.curves).make()
    if fine_curves is not None:
        # Finer curves end near the view, but moving and zooming need the range of the whole run.
        fine_drawing = _Drawer(run, kind, view, fine_curves).make()
        drawing = replace(fine_drawing, x_range=drawing.x_range)
    if notes and view.marks:
        drawing = _with_notes(drawing, notes)
    if baseline is None or drawing.x_range is None:
        return drawing
    return _with_baseline(drawing, kind, view, baseline)


def _with_notes(drawing: Drawing, notes: Sequence[StepNote]) -> Drawing:
    """Mark the notes at the x of their steps, as far as there are values."""
    line = next((line for line in drawing.lines if len(line.points)), None)
    if line is None:
        return drawing
    steps = np.array([note.step for note in notes], float)
    places = np.interp(steps, line.points.step, line.x).tolist()
    marks = tuple((x, NOTE_LETTER) for x in places)
    return replace(
        drawing, marks=(*drawing.marks, *marks), notes=tuple(zip(places, notes, strict=True))
    )


def _with_baseline(
    drawing: Drawing, kind: ChartKind, view: ChartView, baseline: Baseline
) -> Drawing:
    """Draw the curve of the baseline behind the others, up to their newest x.

    Bars have no room for it: only its value, the sum of all bars, is told.
    """
    assert drawing.x_range is not None
    whole_mean = replace(view.whole(), mode=CurveMode.MEAN)
    drawer = _Drawer(baseline.run, kind, whole_mean, baseline.run.curves)
    curves = [drawer.mean_curve(series) for series in kind.series]
    means = [curve.mean[curve.x <= drawing.x_range[1]] for curve in curves]
    drawing = replace(
        drawing,
        baseline_name=baseline.name,
        baseline=sum(newest_known(mean) for mean in means),
    )
    if kind.stacked or not means[0].size:
        return drawing
    x = curves[0].x[: means[0].size]
    ghost = Curve("", REFERENCE, x, means[0], means[0], means[0], faint=True, band=False)
    return replace(drawing, curves=(ghost, *drawing.curves))


def with_header_figures(drawing: Drawing, kind: ChartKind, run: RunState) -> Drawing:
    """Return a drawing with the header's figures of now, though its curves are of before."""
    if kind.stacked:
        return replace(drawing, step_phases=phase_seconds(run, kind))
    if drawing.headline_row is None:
        return drawing
    return replace(drawing, newest=find_headline(run, kind, drawing.headline_row))


def phase_seconds(run: RunState, kind: ChartKind) -> tuple[float, ...]:
    """Return the seconds of each phase of a step, whose sum is the step in the header."""
    means = live_means(run)
    return tuple(getattr(means, name) for name in kind.series)


def find_headline(run: RunState, kind: ChartKind, row: int) -> float:
    """Return the figure of the header that a chart shows over time, or NaN if there is none.

    `row` is a rank, or -1 for all.
    """
    if kind.id == "loss":
        training_loss = join_losses(run.ranks if row < 0 else run.ranks[row : row + 1])
        return math.nan if training_loss is None else training_loss
    is_of_all = row < 0 or len(run.ranks) == 1
    if not is_of_all or kind.id not in HEADLINES:
        return math.nan
    headline = HEADLINES[kind.id](live_means(run))
    return headline if headline > 0 else math.nan


def steps_to_refine(
    drawing: Drawing, kind: ChartKind, view: ChartView, run: RunState
) -> tuple[int, int] | None:
    """Return the first and the last step in view if they have more points than are drawn."""
    if view.window is None or not drawing.lines:
        return None
    # Samples come with a time and not with a step, and only steps are read again.
    if SERIES[kind.series[0]].source.by_time:
        return None
    line = drawing.lines[0]
    known = np.flatnonzero(np.isfinite(line.x))
    first, end = np.searchsorted(line.x[known], view.window)
    inside = known[max(first - 1, 0) : end + 1]  # with one more at each side
    if inside.size < 2:
        return None
    first_step = int(line.points.step[inside[0]])
    last_step = int(line.points.step[inside[-1]])
    is_coarse = inside.size < min(0.7 * (last_step - first_step), MIN_FINE_POINTS)
    return (first_step, last_step) if is_coarse else None


class _NewestValue(Struct, frozen=True):
    """The value that stands above a chart; see the fields of `Drawing`."""

    name: str = ""
    value: float = math.nan
    headline_row: int | None = None


class _Drawer:
    def __init__(self, run: RunState, kind: ChartKind, view: ChartView, curves: Curves) -> None:
        self._run = run
        self._kind = kind
        self._view = view
        self._reader = LineReader(run, kind, view, curves)
        self._divergence_step = divergence_step(run) if kind.id == "loss" else None
        self._has_best = divergence_step(run) is None
        """Whether the best test is marked: of a run that diverged, none is worth it."""

    def make(self) -> Drawing:
        lines, hidden = self._reader.read_all()
        self._smoothing = self._smoothing_of(lines)
        curves = [curve for line in lines for curve in self._curves_of(line, len(lines))]
        step_phases: tuple[float, ...] = ()
        if self._kind.stacked:
            step_phases = phase_seconds(self._run, self._kind)
            curves = [
                self._with_value(curve, curve.label, value)
                for curve, value in zip(curves, step_phases, strict=True)
            ]
        tests = self._test_curves()
        if tests and len(lines) == 1:
            curves.append(self._with_value(curves.pop(), "train", self._newest(lines).value))
        curves += tests
        x_range = x_limits(curves, self._view.log_x)
        limit = self._limit()
        curves = [*self._limit_curve(limit, curves, x_range), *curves]
        newest = self._newest(lines)
        return Drawing(
            tuple(curves),
            tuple(self._reader.marks()),
            self._options(lines, x_range),
            tuple(lines),
            x_range,
            hidden,
            newest.value,
            newest.name,
            self._kind.id == "loss",
            newest.headline_row,
            self._smoothing,
            step_phases,
            limit,
            best_test=self._best_value(tests),
        )

    def mean_curve(self, series: str) -> Curve:
        """Return the curve of the mean over all ranks or hosts alone, smoothed as in a chart."""
        line = self._reader.read(series, -1)
        self._smoothing = self._smoothing_of([line])
        return self._curves_of(line, 1)[-1]

    def _options(self, lines: list[ChartLine], x_range: tuple[float, float] | None) -> PlotOptions:
        view = self._view
        # How far a run that diverged has come is seen from its first steps on.
        warm = None if self._divergence_step is not None else self._reader.warm_x(lines)
        is_log, is_log_if_low = self._log_choices(lines, warm)
        return PlotOptions(
            view.along.value,
            clock=self._reader.is_by_time,
            parts=view.along is XAxis.EPOCH,
            from_zero=self._kind.from_zero,
            log_x=view.log_x,
            log_y=is_log,
            log_y_if_low=is_log_if_low,
            unit=self._kind.unit,
            stacked=self._kind.stacked,
            window=view.visible_range(x_range) if x_range else None,
            has_end_values=self._run.phase is RunPhase.ENDED,
            growing=self._run.phase is not RunPhase.ENDED and view.window is None,
            warm=warm,
            cursor=view.cursor,
            point_labels=self._name_best_test(),
            alarm=self._divergence_x(lines),
            named=len(lines) > 1 and not self._kind.stacked,
        )

    def _divergence_x(self, lines: list[ChartLine]) -> float | None:
        """Return the x at which the run diverged, if this is a chart of that and it did."""
        if self._divergence_step is None or not lines or not len(lines[0].points):
            return None
        points = lines[0].points
        return float(np.interp(self._divergence_step, points.step, lines[0].x))

    def _log_choices(self, lines: list[ChartLine], warm: float | None) -> tuple[bool, bool]:
        """Return whether the y axis is logarithmic, and whether it is where a chart is low."""
        if self._kind.stacked or not lines:
            return False, False
        if self._view.log_y is not None:
            return self._view.log_y, self._view.log_y
        if self._kind.unit is Unit.SHARE:  # between 0 and 1 by nature
            return False, False
        # Of what was measured, as a peak takes many steps to leave an average.
        values = np.concatenate([line.points.mean[line.x >= (warm or -math.inf)] for line in lines])
        has_diverged = self._divergence_step is not None
        decades = count_decades(values, with_peaks=has_diverged)
        is_log_if_low = self._kind.id == "loss" and decades > MIN_DECADES_IF_LOW
        return decades > MIN_DECADES, is_log_if_low

    def _smoothing_of(self, lines: list[ChartLine]) -> float:
        if self._kind.stacked or not lines:
            return 0.0
        if self._view.smoothing is not None:
            return self._view.smoothing
        # An average would hide how suddenly a loss rose.
        is_even = self._divergence_step is not None or not is_noisy(lines[0].points.mean)
        is_smoothed = self._kind.smooth and not is_even
        return USUAL_SMOOTHING if is_smoothed else 0.0

    def _newest(self, lines: list[ChartLine]) -> _NewestValue:
        """Return the value that stands above the chart, and its name if the names of the curves do
        not say whose it is. It is smoothed as it is drawn; what the header has is as there."""
        if not lines or self._kind.stacked:
            return _NewestValue()
        line = lines[-1]
        name = ""
        if self._view.mode is CurveMode.EACH and len(lines) > 1:
            line = self._reader.read(line.series, -1)
            name = "mean"
        elif len(lines) > 1:
            is_rank = SERIES[line.series].scope is Scope.RANK
            name = f"rank {line.name}" if is_rank else line.name
        headline = find_headline(self._run, self._kind, line.row)
        if self._kind.id == "loss":
            return _NewestValue(name or "train", headline, line.row)
        if math.isfinite(headline) or (self._kind.id in HEADLINES and is_halted(self._run)):
            return _NewestValue(name, headline, line.row)
        return _NewestValue(name, newest_known(self._curves_of(line, len(lines))[-1].mean))

    # Curves

    def _curves_of(self, line: ChartLine, line_count: int) -> list[Curve]:
        """Return the curve of a line. A smoothed one comes after the faint one it is made of."""
        points = line.points
        is_only_line = line_count == 1
        # The values of a single host tell nothing about others: a band would be its noise.
        has_spread = line.row < 0 or SERIES[line.series].scope is not Scope.HOST
        has_band = not self._kind.stacked and has_spread and (line.row < 0 or is_only_line)
        # Of a loss that diverged, the ranks' differences say nothing.
        has_band = has_band and self._divergence_step is None
        curve = Curve(
            line.name,
            self._colour_of(line, is_only_line),
            line.x,
            points.low,
            points.high,
            points.mean,
            band=has_band,
        )
        if not self._smoothing or len(points) < 3:
            return [curve]
        # By steps also along another axis, so that the same values stand above all of them.
        mean = smooth(points.step, points.mean, self._smoothing)
        smoothed = replace(curve, low=mean, high=mean, mean=mean, band=False)
        return [replace(curve, faint=True), smoothed] if has_band else [smoothed]

    def _with_value(self, curve: Curve, name: str, value: float) -> Curve:
        """Return the curve with a name and a value beside its end."""
        text = self._format(value) if math.isfinite(value) else ""
        return replace(curve, end_name=name, end_value=text)

    def _format(self, value: float) -> str:
        """Format a value as the header does."""
        if self._kind.id == "loss":
            return loss(value)
        is_accuracy = self._kind.unit is Unit.SHARE and self._kind.tests
        return f"{value:.1f}%" if is_accuracy else format_value(value, self._kind.unit)

    def _colour_of(self, line: ChartLine, is_only_line: bool) -> int:
        if self._kind.stacked:
            return PHASE_INKS[line.series]
        return LINE if line.row < 0 or is_only_line else line.row

    def _limit(self) -> float:
        """Return the rate of the slowest link for what the network carries, if it is known."""
        if self._kind.series[0] not in NETWORK_SERIES:
            return math.nan
        rates = [link_rate(self._run, host) for host in self._run.hosts]
        return min((rate for rate in rates if rate > 0), default=math.nan)

    def _limit_curve(
        self, limit: float, curves: list[Curve], x_range: tuple[float, float] | None
    ) -> list[Curve]:
        """Return a line at the limit, if the values come near enough to be seen below it."""
        highest = max((float(np.nanmax(curve.high, initial=0.0)) for curve in curves), default=0.0)
        if not x_range or not limit <= MAX_LIMIT_RATIO * highest:
            return []
        level = np.array([limit, limit])
        x = np.array(x_range)
        return [Curve("", REFERENCE, x, level, level, level, faint=True, band=False)]

    def _name_best_test(self) -> tuple[PointLabel, ...]:
        """Name the best test accuracy by its step, if there are several tests."""
        if self._kind.id != "accuracy" or not self._has_best:
            return ()
        line = self._reader.read(self._kind.tests, -1)
        known = np.flatnonzero(np.isfinite(line.points.mean))
        if known.size < 2:
            return ()
        best = int(known[line.points.mean[known].argmax()])
        text = f"best, step {line.points.step[best]:.0f}"
        return (PointLabel(float(line.x[best]), float(line.points.mean[best]), text, TEST),)

    def _test_curves(self) -> list[Curve]:
        """Return the curve of tests, if there has been one."""
        if not self._kind.tests:
            return []
        line = self._reader.read(self._kind.tests, -1)
        mean = line.points.mean
        known = np.flatnonzero(np.isfinite(mean) & np.isfinite(line.x))
        if not known.size:
            return []
        unit = self._kind.unit
        values = mean[known]
        best = known[values.argmax() if unit is Unit.SHARE else values.argmin()]
        last = int(known[-1])
        label = "test acc" if unit is Unit.SHARE else "test loss"
        signed = (int(best),) if self._has_best else ()
        curve = Curve(label, TEST, line.x, mean, mean, mean, band=False, signed=signed)
        return [self._with_value(curve, "test", float(mean[last]))]

    def _best_value(self, tests: list[Curve]) -> str:
        """Return the value of the test that has the sign, or ""."""
        if not tests:
            return ""
        (test,) = tests
        return self._format(float(test.mean[test.signed[0]])) if test.signed else ""


def divergence_step(run: RunState) -> int | None:
    """Return the step at which the loss of a run rose for good, or was no number."""
    rise = run.divergence.rise
    if run.progress.diverged:
        return run.progress.diverged.step
    return rise.step if rise and not rise.over else None
