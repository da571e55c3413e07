"""Keeps the figures that come together, such as those of a step."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from struct import calcsize, pack
from typing import TYPE_CHECKING

from msgspec import Struct, field

from remote.run.series.definitions import CORES, Source

if TYPE_CHECKING:  # numpy takes a while to import
    from remote.run.series.downsampling import Downsampler, Floats

MOST_FRESH = 2048
"""Points that are gathered before they become an array."""
WAITING = 2 * MOST_FRESH
"""Points that may wait until each row gets its own. Those of one row are seldom looked at, and many
points at once are quicker."""
CAPACITY = 1024
"""Buckets of a curve."""
ROOM = 1 << 17
"""Buckets of one figure of all ranks together."""
LEAST = 64
"""Buckets of a curve of a rank, however many ranks there are."""
METRIC_CAPACITY = 512
METRIC_ROOM = 1 << 12
METRIC_LEAST = 16
"""The same of a metric: a run may have hundreds of them."""


class Era(Struct, frozen=True):
    """The steps of an attempt."""

    begin: int
    """Its steps come after this one."""
    rows: set[int] = field(default_factory=set)
    """The rows that have points there."""


class SourceHistory:
    """The figures of one source, of each row and of all together: over the whole run, and each step
    of the last ones. Points come as numbers beside each other, which are an array at once."""

    def __init__(self, source: Source, rows: int) -> None:
        self.source = source
        self.version = 0
        self._eras = [Era(0)]
        self._rows = rows
        self._format = f"{4 + len(source.figures)}d"
        self._fresh = bytearray()
        self._most = self._block = MOST_FRESH * calcsize(self._format)
        self._waiting: list[Floats] = []
        self._each: list[Downsampler] = []
        self._together: list[Downsampler] = []
        """Over the whole run, then of the last steps."""

    @property
    def seen(self) -> set[int]:
        """Return the rows that have points."""
        return set().union(*(era.rows for era in self._eras))

    def counts(self, steps: Floats) -> Floats:
        """Return how many rows have points in the era of each of these steps."""
        import numpy as np

        begins = [era.begin for era in self._eras[1:]]
        counts = np.array([len(era.rows) for era in self._eras], float)
        return counts[np.searchsorted(begins, steps)]

    def append(self, *point: float) -> None:
        """Take in a point: row, who it is of, step, time, figures."""
        self._extend(1, pack(self._format, *point))

    def append_points(self, *columns: Sequence[float]) -> None:
        """Take in points: a column for each number of `append`."""
        count = len(columns[0])
        numbers = chain.from_iterable(zip(*columns, strict=True))
        self._extend(count, pack(f"{count * len(columns)}d", *numbers))

    def _extend(self, count: int, points: bytes) -> None:
        self.version += count
        self._fresh += points
        if len(self._fresh) >= self._most:
            self.pack()
            if self._most == 1:
                self._spread()

    def make_room(self, rows: int) -> None:
        """Make room for so many rows."""
        self._rows = max(self._rows, rows)
        self._each = [
            each.resized(self._rows, self._capacity(recent=recent))
            for recent, each in zip((False, True), self._each, strict=False)
        ]

    def rewind(self, step: int) -> None:
        """Forget the points behind this step."""
        self.version += 1
        self.pack()
        self._spread()
        for buckets in (*self._each, *self._together):
            buckets.rewind(step + 1)
        earlier = [era for era in self._eras if era.rows and era.begin < step]
        self._eras = [*earlier, Era(step)]

    def finest(self, since: float, *, each: bool) -> Downsampler | None:
        """Return the finest buckets that reach back to this step, or None before the first point.

        They are of each row, or of all together.
        """
        self.pack()
        if each:
            self._spread()
        whole_and_recent = self._each if each else self._together
        if not whole_and_recent:
            return None
        whole, recent = whole_and_recent[0], whole_and_recent[-1]
        return recent if recent.begin <= since else whole

    def pack(self) -> None:
        """Make an array of the points that have come."""
        if not self._fresh:
            return
        import numpy as np  # takes a while, and not every command has steps

        from remote.run.series.downsampling import GatheredPoints

        if not self._together:
            self._make()
        points = np.frombuffer(self._fresh).reshape(-1, 4 + len(self.source.figures))
        self._fresh = bytearray()
        is_placed = np.isfinite(points[:, :4]).all(axis=1)
        if not is_placed.all():
            points = points[is_placed]
        if not len(points):
            return
        row, owners = points[:, :2].astype(np.int64).T
        self._eras[-1].rows.update(np.flatnonzero(np.bincount(row)).tolist())
        self._waiting.append(points)
        gathered = GatheredPoints.gather(np.zeros_like(row), owners, *self._split_columns(points))
        for together in self._together:
            together.add(gathered)
        if sum(map(len, self._waiting)) >= WAITING:
            self._most = 1  # so that who appends spreads them, and not who reads

    def _spread(self) -> None:
        """Put the points that wait into the buckets of their rows."""
        if not self._waiting:
            return
        import numpy as np

        from remote.run.series.downsampling import GatheredPoints

        points = np.concatenate(self._waiting)
        self._waiting = []
        self._most = self._block
        points = self._keep_points_of_rows(points)
        row, owners = points[:, :2].astype(np.int64).T
        gathered = GatheredPoints.gather(
            row, owners if self._has_parts else None, *self._split_columns(points)
        )
        for each in self._each:
            each.add(gathered)

    def place(self, row: int) -> int | None:
        """Return the row of the buckets of a rank or host, or None if it has none."""
        return row

    def _keep_points_of_rows(self, points: Floats) -> Floats:
        """Return the points that are kept of each row, with the row of its buckets."""
        return points

    def _split_columns(self, points: Floats) -> tuple[Floats, Floats, Floats]:
        """Return the x of points, the other one of step and time, and the figures."""
        step = points[:, 2]
        time = points[:, 3]
        values = points[:, 4:]
        return (time, step, values) if self.source.by_time else (step, time, values)

    @property
    def _has_parts(self) -> bool:
        """Return True if a row has several of the same figure, as a host has cores."""
        return self.source == CORES

    def _make(self) -> None:
        from remote.run.series.downsampling import Downsampler

        figures = len(self.source.figures)
        for recent in (False, True):
            capacity = self._capacity(recent=recent)
            named = self._has_parts
            self._each.append(
                Downsampler(figures, self._rows, capacity, recent=recent, named=named)
            )
            most = CAPACITY * (4 if recent else 1)
            self._together.append(Downsampler(figures, 1, most, recent=recent))

    def _capacity(self, *, recent: bool) -> int:
        """Return the buckets of the curve of one row."""
        fits = ROOM // self._rows // (4 if recent else 1)
        return _power(max(LEAST, min(CAPACITY, fits)))


class MetricHistory(SourceHistory):
    """The values of a metric, which perhaps one rank of a thousand reports.

    Each rank that does has a row, the coarser the more there are, until there is no room left; then
    it counts only in all together.
    """

    def __init__(self, source: Source) -> None:
        super().__init__(source, 0)
        self._places: dict[int, int] = {}

    def place(self, row: int) -> int | None:
        """See `SourceHistory.place`."""
        return self._places.get(row)

    def _make(self) -> None:
        from remote.run.series.downsampling import Downsampler

        self._each = [Downsampler(1, 1, METRIC_CAPACITY, named=False)]
        self._together = [
            Downsampler(1, 1, METRIC_CAPACITY, recent=recent) for recent in (False, True)
        ]
        self._rows = 1

    def _keep_points_of_rows(self, points: Floats) -> Floats:
        import numpy as np

        most = METRIC_ROOM // METRIC_LEAST
        ranks, positions = np.unique(points[:, 0].astype(np.int64), return_inverse=True)
        for rank in ranks.tolist():
            if len(self._places) < most:
                self._places.setdefault(rank, len(self._places))
        if len(self._places) > self._rows:
            self._rows = _power(2 * len(self._places) - 1)
            capacity = min(METRIC_CAPACITY, METRIC_ROOM // self._rows)
            self._each = [each.resized(self._rows, capacity) for each in self._each]
        place = np.array([self._places.get(rank, -1) for rank in ranks.tolist()])[positions]
        points = points.copy()
        points[:, 0] = place
        return points[place >= 0]


def _power(number: int) -> int:
    """Return the greatest power of two that is no greater."""
    return 1 << (number.bit_length() - 1)
