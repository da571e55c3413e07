"""Keeps the curves of a run: its series over steps and time, in bounded memory."""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import TYPE_CHECKING

from remote.run.series.definitions import (
    CORES,
    GPU_SAMPLE,
    HOST_SAMPLE,
    RANK_SAMPLE,
    SERIES,
    SOURCES,
    STEP,
    TEST,
    Scope,
    Spec,
    metric_id,
)
from remote.run.series.source_history import MetricHistory, SourceHistory
from training.wire import events

if TYPE_CHECKING:  # numpy takes a while to import
    from remote.run.series.downsampling import Points

_figures: Callable[[events.StepFinished], tuple[float, ...]] = attrgetter(*STEP.figures)
_host_figures: Callable[[events.HostSample], tuple[float, ...]] = attrgetter(
    *HOST_SAMPLE.figures[1:]
)
"""The figures of a sample; the first one, `used`, is not in it, but follows from those of ranks."""


class Curves:
    """All series of a run. `version` rises with every point.

    Points are gathered first, so that a record costs next to nothing, and made into arrays when
    they are many or somebody reads.
    """

    def __init__(self, ranks: int, hosts: int) -> None:
        rows = {Scope.RANK: max(ranks, 1), Scope.HOST: max(hosts, 1), Scope.RUN: 1}
        self._kept = {source.name: SourceHistory(source, rows[source.scope]) for source in SOURCES}
        self._step = 0
        self._with_values: set[str] = set()

    @property
    def version(self) -> int:
        """Return how many points have come."""
        return sum(history.version for history in self._kept.values())

    # Writing

    def take(self, event: object, row: int, step: int, time: float) -> None:
        """Take in what rank `row` reports, `time` seconds after the run began and after `step`."""
        match event:
            case events.StepFinished():
                self._step = step
                self._kept[STEP.name].append(row, row, step, time, *_figures(event))
            case events.RankSample():
                self._kept[RANK_SAMPLE.name].append(row, row, step, time, event.cpu, event.memory)
            case events.GpuSample():
                gpu = (event.use, event.memory_used)
                self._kept[GPU_SAMPLE.name].append(row, row, step, time, *gpu)
            case events.Evaluated() if row == 0:
                figures = (event.loss, event.accuracy)
                self._kept[TEST.name].append(0, 0, event.step, time, *figures)
            case events.ScriptMetrics():
                for name, value in event.values:
                    self._metric(name).append(row, row, event.step or step, time, value)

    def sample(self, host: int, sample: events.HostSample, used: float, time: float) -> None:
        """Take in a sample of a host, whose ranks have `used` this share of its cores."""
        figures = used, *_host_figures(sample)
        self._kept[HOST_SAMPLE.name].append(host, host, self._step, time, *figures)
        for core, cpu in enumerate(sample.cpu):
            self._kept[CORES.name].append(host, core, self._step, time, cpu)

    def _metric(self, name: str) -> SourceHistory:
        series = metric_id(name)
        if series not in self._kept:
            self._kept[series] = MetricHistory(SERIES[series].source)
        return self._kept[series]

    def rewind(self, step: int) -> None:
        """Forget the steps behind this one: the ranks make them anew."""
        self._step = step
        for history in self._kept.values():
            if not history.source.by_time:
                history.rewind(step)

    # Reading

    @property
    def metrics(self) -> list[str]:
        """Return the series of the metrics that have come, in order."""
        return list(self._kept)[len(SOURCES) :]

    def rows(self, series: str) -> tuple[int, ...]:
        """Return the ranks or hosts that have points of a series, in order."""
        history = self._of(series)
        history.pack()
        return tuple(sorted(history.seen))

    def has_values(self, series: str) -> bool:
        """Return True if a series has a value that is not 0."""
        if series not in self._with_values:
            mean = self.whole(series).mean
            known = mean[mean == mean]  # NaN is not equal to itself
            if (known != 0).any():
                self._with_values.add(series)
        return series in self._with_values

    def of(self, series: str, row: int, since: float = 0.0) -> Points:
        """Return the curve of one rank or host; it is finer for only what comes `since` a step."""
        return _points(self._of(series), SERIES[series], row, since)

    def whole(self, series: str, since: float = 0.0) -> Points:
        """Return the curve of all ranks or hosts together, see `of` and `Spec.adds`.

        `low` and `high` are those of a single one.
        """
        return _points(self._of(series), SERIES[series], None, since)

    def _of(self, series: str) -> SourceHistory:
        source = SERIES[series].source
        return self._kept.get(source.name) or MetricHistory(source)


def _points(history: SourceHistory, spec: Spec, row: int | None, since: float) -> Points:
    """Return the curve of a row, or of all together."""
    from remote.run.series.downsampling import NO_POINTS, Points

    buckets = history.finest(since, each=row is not None)
    at = 0 if row is None else history.place(row)
    if buckets is None or at is None:
        return NO_POINTS
    x, other, filled = buckets.columns(at)
    step, time = (other, x) if history.source.by_time else (x, other)
    figure = history.source.figures.index(spec.figure)
    low, high, lowest, highest = buckets.ends(figure, at)
    if row is not None and at != row:
        lowest = highest = lowest * 0 + row
    if spec.over:
        over = history.source.figures.index(spec.over)
        mean = buckets.ratio(figure, over, at)
    else:
        mean = buckets.mean(figure, at)
    if spec.over or spec.adds:  # the parts are no measure of the whole
        low = high = mean
    factor = spec.factor * (history.counts(step) if spec.adds and row is None else 1.0)
    low, high, mean = (values * factor for values in (low, high, mean))
    return Points(step, time, low, high, mean, lowest, highest).where(filled).lasting()
