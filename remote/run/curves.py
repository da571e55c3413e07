"""The curves of a run: its series over steps and time, in bounded memory."""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import TYPE_CHECKING

from remote.run.series import (
    CORES,
    GPU_SAMPLE,
    HOST_SAMPLE,
    RANK_SAMPLE,
    SERIES,
    SOURCES,
    STEP,
    TEST,
    Scope,
    Source,
    Spec,
)
from training.wire import events

if TYPE_CHECKING:  # numpy takes a while to import
    from remote.run.buckets import Buckets, Floats, Points

BLOCK = 4096
"""Points that are kept as they came before they become arrays."""
WAITING = 4 * BLOCK
"""Points that may wait until each row gets its own. Those of one row are seldom looked at, and many
points at once are quicker."""
CAPACITY = 1024
"""Buckets of a curve."""
ROOM = 1 << 17
"""Buckets of one figure of all ranks together."""
LEAST = 64
"""Buckets of a curve of a rank, however many ranks there are."""
Point = tuple[float, ...]
"""Row, who it is of, step, time, figures."""
_figures: Callable[[events.Step], tuple[float, ...]] = attrgetter(*STEP.figures)


class Curves:
    """What is kept of all series of a run. `version` rises with every point.

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
        """How many points have come."""
        return sum(history.version for history in self._kept.values())

    # Writing

    def take(self, event: object, row: int, step: int, time: float) -> None:
        """Take in what rank `row` says, `time` seconds after the run began and after `step`."""
        match event:
            case events.Step():
                self._step = step
                self._kept[STEP.name].append((row, row, step, time, *_figures(event)))
            case events.RankSample():
                self._kept[RANK_SAMPLE.name].append((row, row, step, time, event.cpu, event.memory))
            case events.GpuSample():
                gpu = (event.use, event.memory_used)
                self._kept[GPU_SAMPLE.name].append((row, row, step, time, *gpu))
            case events.Evaluated() if row == 0:
                figures = (event.loss, event.accuracy)
                self._kept[TEST.name].append((0, 0, event.step, time, *figures))

    def sample(self, host: int, sample: events.HostSample, used: float, time: float) -> None:
        """Take in a sample of a host, whose ranks have `used` this share of its cores."""
        figures = (used, sample.memory_used, sample.sent, sample.received)
        self._kept[HOST_SAMPLE.name].append((host, host, self._step, time, *figures))
        for core, cpu in enumerate(sample.cpu):
            self._kept[CORES.name].append((host, core, self._step, time, cpu))

    def rewind(self, step: int) -> None:
        """Forget the steps behind this one: the ranks make them anew."""
        self._step = step
        for history in self._kept.values():
            if not history.source.by_time:
                history.rewind(step)

    # Reading

    def rows(self, series: str) -> tuple[int, ...]:
        """The ranks or hosts that have points of a series, in order."""
        history = self._of(series)
        history.pack()
        return tuple(sorted(history.seen))

    def has_values(self, series: str) -> bool:
        """Whether a series has a value that is not 0."""
        if series not in self._with_values:
            mean = self.whole(series).mean
            self._with_values |= (
                {series} if len(mean) and (mean[mean == mean] != 0).any() else set()
            )
        return series in self._with_values

    def of(self, series: str, row: int, since: float = 0.0) -> Points:
        """The curve of one rank or host; finer where only what comes `since` a step is wanted."""
        return _points(self._of(series), SERIES[series], row, since)

    def whole(self, series: str, since: float = 0.0) -> Points:
        """The curve of all ranks or hosts together, see `Spec.adds`; `low` and `high` are those of
        a single one. See `of`."""
        return _points(self._of(series), SERIES[series], None, since)

    def _of(self, series: str) -> SourceHistory:
        return self._kept[SERIES[series].source.name]


class SourceHistory:
    """The figures of one source, of each row and of all together: over the whole run, and each step
    of the last ones."""

    def __init__(self, source: Source, rows: int) -> None:
        self.source = source
        self.version = 0
        self.seen: set[int] = set()
        self._rows = rows
        self._fresh: list[Point] = []
        self._most = BLOCK
        self._waiting: list[Floats] = []
        self._levels: list[tuple[Buckets, Buckets]] = []

    def append(self, point: Point) -> None:
        """Take in a point."""
        self.version += 1
        self._fresh.append(point)
        if len(self._fresh) >= self._most:
            self.pack()
            if self._most < BLOCK:
                self._spread()

    def rewind(self, step: int) -> None:
        """Forget the points behind this step."""
        self.version += 1
        self.pack()
        self._spread()
        for level in self._levels:
            for buckets in level:
                buckets.rewind(step + 1)

    def finest(self, since: float, *, each: bool) -> Buckets | None:
        """The finest buckets that reach back to this step, of each row or of all together; None
        before the first point."""
        self.pack()
        if each:
            self._spread()
        if not self._levels:
            return None
        whole, recent = (level[0 if each else 1] for level in self._levels)
        return recent if recent.begin <= since else whole

    def pack(self) -> None:
        """Make arrays of the points that are kept as they came."""
        if not self._fresh:
            return
        import numpy as np  # takes a while, and not every command has steps

        from remote.run.buckets import Gathered

        if not self._levels:
            self._levels = [self._level(recent=False), self._level(recent=True)]
        points = np.array(self._fresh, dtype=np.float64)
        self._fresh = []
        points = points[np.isfinite(points[:, :4]).all(axis=1)]
        if not len(points):
            return
        row, who = points[:, :2].astype(np.int64).T
        self.seen.update(np.unique(row).tolist())
        self._waiting.append(points)
        gathered = Gathered.of(np.zeros_like(row), who, *self._along(points))
        for _, together in self._levels:
            together.add(gathered)
        if sum(map(len, self._waiting)) >= WAITING:
            self._most = 1  # so that who appends spreads them, and not who reads

    def _spread(self) -> None:
        """Put the points that wait into the buckets of their rows."""
        if not self._waiting:
            return
        import numpy as np

        from remote.run.buckets import Gathered

        points = np.concatenate(self._waiting)
        self._waiting, self._most = [], BLOCK
        row, who = points[:, :2].astype(np.int64).T
        gathered = Gathered.of(row, who if self._has_parts else None, *self._along(points))
        for each, _ in self._levels:
            each.add(gathered)

    def _along(self, points: Floats) -> tuple[Floats, Floats, Floats]:
        """The x of points, the other of step and time, and the figures."""
        step, time, values = points[:, 2], points[:, 3], points[:, 4:]
        return (time, step, values) if self.source.by_time else (step, time, values)

    @property
    def _has_parts(self) -> bool:
        """Whether a row, as a host, has several that tell the same figure, as its cores."""
        return self.source is CORES

    def _level(self, *, recent: bool) -> tuple[Buckets, Buckets]:
        from remote.run.buckets import Buckets

        figures = len(self.source.figures)
        fits = ROOM // self._rows // (4 if recent else 1)
        capacity = 1 << (max(LEAST, min(CAPACITY, fits)).bit_length() - 1)
        each = Buckets(figures, self._rows, capacity, recent=recent, named=self._has_parts)
        return each, Buckets(figures, 1, CAPACITY * (4 if recent else 1), recent=recent)


def _points(history: SourceHistory, spec: Spec, row: int | None, since: float) -> Points:
    """The curve of a row, or of all together."""
    from remote.run.buckets import NO_POINTS, Points

    buckets, at = history.finest(since, each=row is not None), row or 0
    if buckets is None:
        return NO_POINTS
    x, other, filled = buckets.columns(at)
    step, time = (other, x) if history.source.by_time else (x, other)
    figure = history.source.figures.index(spec.figure)
    low, high, lowest, highest = buckets.ends(figure, at)
    if spec.over:
        over = history.source.figures.index(spec.over)
        mean = buckets.ratio(figure, over, at)
    else:
        mean = buckets.mean(figure, at)
    if spec.over or spec.adds:  # the parts are no measure of the whole
        low = high = mean
    factor = spec.factor * (len(history.seen) if spec.adds and row is None else 1)
    low, high, mean = (values * factor for values in (low, high, mean))
    return Points(step, time, low, high, mean, lowest, highest).where(filled).lasting()
