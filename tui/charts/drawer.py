"""From the curves of a run to those of a chart."""

from __future__ import annotations

import math
from collections.abc import Callable
from operator import attrgetter

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from remote.format import loss
from remote.run.findings.link_use import link_rate
from remote.run.findings.rates import describe_staleness, is_halted, live_means
from remote.run.findings.training_loss import (
    find_divergence_step,
    find_training_loss,
    is_mean_beside_prints,
    join_losses,
)
from remote.run.run_state import RunState
from remote.run.series.curves import Curves
from remote.run.series.definitions import SERIES, STEP, Scope, Unit
from remote.run.series.step_times import RECENT, Means
from remote.run.state.phases import RunPhase
from tui.charts.annotations import PointLabel, StepLabel
from tui.charts.axis_limits import MIN_DECADES, MIN_DECADES_IF_LOW, count_decades, x_limits
from tui.charts.chart_lines import ChartLine, LineReader
from tui.charts.chart_view import USUAL_SMOOTHING, ChartView, CurveMode, XAxis
from tui.charts.drawing import Drawing
from tui.charts.kinds import ChartKind
from tui.charts.plot_frame import PlotOptions
from tui.charts.raster import Curve
from tui.charts.smoothing import is_noisy, newest_known, smooth
from tui.charts.units import format_value
from tui.kit.inks import LINE, PHASE_INKS, REFERENCE, TEST

NETWORK_SERIES = ("sent", "received")
"""The series that the link of a host limits."""
MAX_LIMIT_RATIO = 5.0
"""How many times the greatest value a limit may be that is drawn: farther up, it would only press
the values down."""
TRAINING = "train"
"""The name of what is measured in training, beside that of tests."""
HEADLINES: dict[str, Callable[[Means], float]] = {
    "throughput": attrgetter("throughput"),
    "seconds": attrgetter("seconds"),
    "bytes": attrgetter("bytes_per_second"),
}
"""The figures of the header that charts show over time, by their kinds."""
SPEEDS = (*HEADLINES, "phases")
"""The kinds of charts that show how fast the ranks are."""


def phase_seconds(run: RunState, kind: ChartKind) -> tuple[float, ...]:
    """Return the seconds of each phase of a step, whose sum is the step in the header."""
    means = live_means(run)
    return tuple(getattr(means, name) for name in kind.series)


def find_headline(run: RunState, kind: ChartKind, row: int) -> float:
    """Return the figure of the header that a chart shows over time, or NaN if there is none; of a
    single host's CPU the sum of what the table of ranks has.

    `row` is a rank or host, or -1 for all.
    """
    if kind.id == "host_cpu":
        return 100 * run.hosts[0].cpu_share if len(run.hosts) == 1 else math.nan
    if kind.id == "loss":
        ranks = run.ranks[row : row + 1]
        training_loss = find_training_loss(run) if row < 0 else join_losses(ranks)
        return math.nan if training_loss is None else training_loss
    is_of_all = row < 0 or len(run.ranks) == 1
    if not is_of_all or kind.id not in HEADLINES:
        return math.nan
    headline = HEADLINES[kind.id](live_means(run))
    return headline if headline > 0 else math.nan


def _is_rate(series: str) -> bool:
    """Return True if a series tells how much is done per second of a step."""
    return SERIES[series].source is STEP and SERIES[series].over == "seconds"


class _NewestValue(Struct, frozen=True):
    """The value that stands above a chart; see the fields of `Drawing`."""

    name: str = ""
    value: float = math.nan
    headline_row: int | None = None


class Drawer:
    """Draws a chart of one kind from the curves of a run."""

    def __init__(self, run: RunState, kind: ChartKind, view: ChartView, curves: Curves) -> None:
        self._run = run
        self._kind = kind
        self._view = view
        self._reader = LineReader(run, kind, view, curves)
        self._divergence_step = find_divergence_step(run) if kind.id == "loss" else None
        self._has_best = find_divergence_step(run) is None
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
            curves.append(self._with_value(curves.pop(), TRAINING, self._newest(lines).value))
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
            self._describe_capacity(),
            best_test=self._best_value(tests),
            staleness=describe_staleness(self._run) if self._kind.id in SPEEDS else "",
            band_name=self._band_name(),
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
            mark_strides=self._run.marks.strides,
            growing=self._run.phase is not RunPhase.ENDED and view.window is None,
            warm=warm,
            cursor=view.cursor,
            point_labels=self._name_best_test(),
            alarm=self._name_divergence(lines),
            named=len(lines) > 1 and not self._kind.stacked,
        )

    def _name_divergence(self, lines: list[ChartLine]) -> StepLabel | None:
        """Name the step at which the run diverged, if this is a chart of that and it did."""
        if self._divergence_step is None or not lines or not len(lines[0].points):
            return None
        points = lines[0].points
        x = float(np.interp(self._divergence_step, points.step, lines[0].x))
        return StepLabel(x, f"diverged, step {self._divergence_step:.0f}")

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
            if is_mean_beside_prints(self._run):
                mean_name = f"mean of {RECENT} steps"
                name = f"{name}, {mean_name}" if name else mean_name
            return _NewestValue(name or TRAINING, headline, line.row)
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
            is_rate=_is_rate(line.series),
        )
        if not self._smoothing or len(points) < 3:
            return [curve]
        # By steps also along another axis, so that the same values stand above all of them.
        mean = smooth(points.step, points.mean, self._smoothing)
        smoothed = replace(curve, low=mean, high=mean, mean=mean, band=False)
        if not has_band:
            return [smoothed]
        # Where values fall quickly, an average would lie outside of a band that is none.
        low = smooth(points.step, points.low, self._smoothing)
        high = smooth(points.step, points.high, self._smoothing)
        raw = replace(curve, low=low, high=high, faint=True)
        return [raw, smoothed]

    def _band_name(self) -> str:
        """Say whose values lie in the band; of one rank or host, those of several steps do."""
        is_of_ranks = SERIES[self._kind.series[0]].scope is Scope.RANK
        sources = self._run.ranks if is_of_ranks else self._run.hosts
        if len(sources) < 2:
            return "min to max"
        return "all ranks" if is_of_ranks else "all hosts"

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

    def _describe_capacity(self) -> str:
        """Return of how many cores a host's CPU is a share, if all hosts have as many."""
        if self._kind.series[0] != "host_cpu":
            return ""
        num_cores = {host.hello.cores for host in self._run.hosts if host.hello}
        if len(num_cores) != 1:
            return ""
        [cores] = num_cores
        return f"{cores:g} {'core' if cores == 1 else 'cores'}" if cores else ""

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
        """Name the best test by its value, and an accuracy by its step, if there are several
        tests; the lowest loss unless it is the newest, which stands above the chart."""
        if not self._kind.tests or not self._has_best:
            return ()
        line = self._reader.read(self._kind.tests, -1)
        known = np.flatnonzero(np.isfinite(line.points.mean))
        if known.size < 2:
            return ()
        is_accuracy = self._kind.unit is Unit.SHARE
        tests = line.points.mean[known]
        best = int(known[tests.argmax() if is_accuracy else tests.argmin()])
        if not is_accuracy and best == known[-1]:
            return ()
        value = float(line.points.mean[best])
        step_text = f"{self._format(value)} at step {line.points.step[best]:.0f}"
        text = step_text if is_accuracy else f"lowest {self._format(value)}"
        return (PointLabel(float(line.x[best]), value, text, TEST),)

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
