"""Keeps the curves of a run: its series over steps and time, in bounded memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING

from msgspec import structs

from remote.run.series.definitions import (
    CORES,
    HOST_SAMPLE,
    SERIES,
    SOURCES,
    STEP,
    Scope,
    Spec,
    metric_id,
)
from remote.run.series.source_history import MetricHistory, SourceHistory
from training.wire.host_events import HostSample
from training.wire.rank_events import Evaluated, ScriptMetrics, StepFinished
from training.wire.step_block import StepColumns

if TYPE_CHECKING:  # numpy takes a while to import
    from remote.run.series.downsampling import Points

_FIGURES_OF: dict[type[object], tuple[str, Callable[[object], tuple[float, ...]]]] = {
    source.event: (source.name, attrgetter(*source.figures)) for source in SOURCES if source.event
}
"""By event, its source and what reads the figures of one."""
_figures_of_steps: Callable[[StepColumns], tuple[Sequence[float], ...]] = attrgetter(*STEP.figures)
"""The columns of the figures of steps."""
_host_figures: Callable[[HostSample], tuple[float, ...]] = attrgetter(*HOST_SAMPLE.figures[1:])
"""The figures of a sample. The first one of the source, `cpu_share`, is not in it: it follows from
the samples of ranks."""


class Curves:
    """All series of a run. `version` rises with every point.

    Points are gathered first, so that a record costs next to nothing, and made into arrays when
    they are many or somebody reads.
    """

    def __init__(self, ranks: int, hosts: int) -> None:
        rows = {Scope.RANK: max(ranks, 1), Scope.HOST: max(hosts, 1), Scope.RUN: 1}
        self._histories = {
            source.name: SourceHistory(source, rows[source.scope]) for source in SOURCES
        }
        self.are_apart = False
        """Each rank trains a model of its own, so that what they do does not add up."""
        self._step = 0
        self._with_values: set[str] = set()

    @property
    def version(self) -> int:
        """Return how many points have come."""
        return sum(history.version for history in self._histories.values())

    # Writing

    def take(self, event: object, row: int, step: int, time: float) -> None:
        """Take in what rank `row` reports, `time` seconds after the run began and after `step`."""
        if isinstance(event, ScriptMetrics):
            for metric_name, value in event.values:
                self._metric_history(metric_name).append(row, row, event.step or step, time, value)
            return
        source = _FIGURES_OF.get(type(event))
        if source is None:
            return
        source_name, read_figures = source
        if isinstance(event, StepFinished):
            self._step = step
        elif isinstance(event, Evaluated):
            if row:  # each rank reports a test, which is the run's
                return
            step = event.step
        self._histories[source_name].append(row, row, step, time, *read_figures(event))

    def take_steps(self, steps: StepColumns, row: int, times: Sequence[float]) -> None:
        """Take in steps of rank `row`, made so many seconds after the run began."""
        self._step = steps.step[-1]
        rows = [row] * len(steps)
        history = self._histories[STEP.name]
        history.append_points(rows, rows, steps.step, times, *_figures_of_steps(steps))

    def sample(self, host: int, sample: HostSample, cpu_share: float, time: float) -> None:
        """Take in a sample of a host, whose ranks use this share of its cores."""
        sample_figures = cpu_share, *_host_figures(sample)
        self._histories[HOST_SAMPLE.name].append(host, host, self._step, time, *sample_figures)
        for core, cpu in enumerate(sample.cpu):
            self._histories[CORES.name].append(host, core, self._step, time, cpu)

    def _metric_history(self, name: str) -> SourceHistory:
        series_id = metric_id(name)
        if series_id not in self._histories:
            self._histories[series_id] = MetricHistory(SERIES[series_id].source)
        return self._histories[series_id]

    def make_room(self, ranks: int) -> None:
        """Make room for so many ranks, as a script has started some itself."""
        for history in self._histories.values():
            if history.source.scope is Scope.RANK and not isinstance(history, MetricHistory):
                history.make_room(ranks)

    def rewind(self, step: int) -> None:
        """Forget the steps behind this one: the ranks make them anew."""
        self._step = step
        for history in self._histories.values():
            # Samples of hosts go on with the time, whatever step the ranks are at.
            if not history.source.by_time:
                history.rewind(step)

    # Reading

    @property
    def metrics(self) -> list[str]:
        """Return the series of the metrics that have come, in order."""
        # Those of the sources were there from the beginning, so they come first.
        return list(self._histories)[len(SOURCES) :]

    def rows(self, series: str) -> tuple[int, ...]:
        """Return the ranks or hosts that have points of a series, in order."""
        history = self._history_of(series)
        history.pack()
        return tuple(sorted(history.seen))

    def has_values(self, series: str) -> bool:
        """Return True if a series has a value that is not 0."""
        if series not in self._with_values:
            mean = self.whole(series).mean
            known_values = mean[mean == mean]  # NaN is not equal to itself
            if (known_values != 0).any():
                self._with_values.add(series)
        return series in self._with_values

    def of(self, series: str, row: int, since: float = 0.0) -> Points:
        """Return the curve of one rank or host; it is finer for only what comes `since` a step."""
        return _make_points(self._history_of(series), SERIES[series], row, since)

    def whole(self, series: str, since: float = 0.0) -> Points:
        """Return the curve of all ranks or hosts together, see `of` and `Spec.adds`.

        `low` and `high` are those of a single one.
        """
        spec = SERIES[series]
        if self.are_apart and spec.source is STEP:
            spec = structs.replace(spec, adds=False)
        return _make_points(self._history_of(series), spec, None, since)

    def _history_of(self, series: str) -> SourceHistory:
        source = SERIES[series].source
        return self._histories.get(source.name) or MetricHistory(source)


def _make_points(history: SourceHistory, spec: Spec, row: int | None, since: float) -> Points:
    """Return the curve of a row, or of all together."""
    from remote.run.series.downsampling import NO_POINTS, Points

    buckets = history.finest(since, each=row is not None)
    place = 0 if row is None else history.place(row)
    if buckets is None or place is None:
        return NO_POINTS
    x, other_axis, filled = buckets.columns(place)
    step, time = (other_axis, x) if history.source.by_time else (x, other_axis)
    figure_index = history.source.figures.index(spec.figure)
    low, high, lowest, highest = buckets.ends(figure_index, place)
    if row is not None and place != row:
        lowest = highest = lowest * 0 + row
    if spec.over:
        over = history.source.figures.index(spec.over)
        mean = buckets.ratio(figure_index, over, place)
    else:
        mean = buckets.mean(figure_index, place)
    if spec.over or spec.adds:  # the parts are no measure of the whole
        low = high = mean
    unit_factor = spec.factor * (history.counts(step) if spec.adds and row is None else 1.0)
    low, high, mean = (values * unit_factor for values in (low, high, mean))
    return Points(step, time, low, high, mean, lowest, highest).where(filled).lasting()
