"""Keeps the figures that come together, such as those of a step."""

from __future__ import annotations

from dataclasses import dataclass, field
from struct import calcsize, pack
from typing import TYPE_CHECKING

from remote.run.series.definitions import CORES, Source

if TYPE_CHECKING:  # numpy takes a while to import
    from remote.run.series.downsampling import Buckets, Downsampler, Floats

MOST_FRESH = 4096
"""Points that are gathered before they become an array."""
WAITING = 2 * MOST_FRESH
"""Points that may wait until each row gets its own. Those of one row are seldom looked at, and many
points at once are quicker."""


@dataclass(frozen=True)
class Room:
    """How many buckets are kept of a source."""

    together: int
    """Of all rows together, over the whole run."""
    recent: int
    """Of all rows together, of the last steps."""
    rows: int
    """Of single rows, in all."""
    least: int
    """Of a single row, however many there are."""

    def of_row(self, rows: int) -> int:
        """Return the buckets of each of so many rows."""
        return max(self.least, min(self.together, self.rows // rows))

    @property
    def most_rows(self) -> int:
        """Return how many rows have curves of their own."""
        return self.rows // self.least


ROOM = Room(together=1024, recent=4096, rows=1 << 17, least=64)
METRIC_ROOM = Room(together=512, recent=512, rows=1 << 12, least=16)
"""Of a metric: a run may have hundreds of them, which perhaps one rank of a thousand reports."""


@dataclass(frozen=True)
class Era:
    """The steps of an attempt."""

    begin: int
    """Its steps come after this one."""
    rows: set[int] = field(default_factory=set)
    """The rows that have points there."""


class SourceHistory:
    """The figures of one source, of each row and of all together: over the whole run, and each step
    of the last ones. Points come as numbers beside each other, which are an array at once.

    Rows are ranks or hosts. Of a metric, those that come when there is no room left have no curve
    of their own.
    """

    def __init__(self, source: Source, room: Room = ROOM) -> None:
        self.source = source
        self.version = 0
        self._room = room
        self._eras = [Era(0)]
        self._rows: dict[int, None] = {}
        """Those that have curves, in order of their first points."""
        self._format = f"{4 + len(source.figures)}d"
        self._fresh = bytearray()
        self._block = MOST_FRESH * calcsize(self._format)
        self._waiting: list[Floats] = []
        self._waiting_count = 0
        self._each: list[Downsampler] = []
        """Over the whole run, then of the last steps."""
        self._together: list[Downsampler] = []

    @property
    def seen(self) -> set[int]:
        """Return the rows that have points."""
        return set().union(*(era.rows for era in self._eras))

    @property
    def has_parts(self) -> bool:
        """Return True if a row has several of the same figure, as a host has cores."""
        return self.source is CORES

    def counts(self, steps: Floats) -> Floats:
        """Return how many rows have points in the era of each of these steps."""
        import numpy as np

        begins = [era.begin for era in self._eras[1:]]
        counts = np.array([len(era.rows) for era in self._eras], float)
        return counts[np.searchsorted(begins, steps)]

    def append(self, *point: float) -> None:
        """Take in a point: row, who it is of, step, time, figures."""
        self.version += 1
        self._fresh += pack(self._format, *point)
        if len(self._fresh) >= self._block:
            self.pack()
        if self._waiting_count >= WAITING:  # who appends spreads them, and not who reads
            self._spread()

    def rewind(self, step: int) -> None:
        """Forget the points behind this step."""
        self.version += 1
        self.pack()
        # Points that wait are not in any bucket yet, and would come in after the rewind.
        if self._waiting:
            self._spread()
        for buckets in (*self._each, *self._together):
            buckets.rewind(step + 1)
        earlier_eras = [era for era in self._eras if era.rows and era.begin < step]
        self._eras = [*earlier_eras, Era(step)]

    def finest(self, since: float, row: int | None) -> Buckets | None:
        """Return the finest buckets of a row that reach back to this step, or None without points.

        They are of all together if `row` is None.
        """
        self.pack()
        whole_and_recent = self._together
        if row is not None:
            whole_and_recent = self._of_row(row)
        if not whole_and_recent:
            return None
        whole_run, recent_steps = whole_and_recent
        return recent_steps.read() if recent_steps.begin <= since else whole_run.read()

    def _of_row(self, row: int) -> list[Downsampler]:
        """Return the buckets of a row, with its points that wait."""
        if row not in self._rows:
            return []
        # The points of all other rows go on waiting: putting them into buckets takes far longer.
        row_samplers = [buckets.of_row(row) for buckets in self._each]
        waiting_points = [points[points[:, 0] == row] for points in self._waiting]
        self._add_to_rows(row_samplers, waiting_points)
        return row_samplers

    def pack(self) -> None:
        """Make an array of the points that have come."""
        if not self._fresh:
            return
        import numpy as np  # takes a while, and not every command has steps

        from remote.run.series.downsampling import Downsampler

        if not self._together:
            self._each = [Downsampler(), Downsampler(recent=True)]
            self._together = [Downsampler(), Downsampler(recent=True)]
        # The array keeps these very bytes, and Python lets nobody extend them: what comes next
        # needs others.
        points = np.frombuffer(self._fresh).reshape(-1, 4 + len(self.source.figures))
        self._fresh = bytearray()
        # A host or a script may send any number as its step or time, also one that has no bucket.
        points = points[np.isfinite(points[:, :4]).all(axis=1)]
        if not len(points):
            return
        row_counts = np.bincount(points[:, 0].astype(np.int64))
        new_rows = np.flatnonzero(row_counts).tolist()
        self._eras[-1].rows.update(new_rows)
        for row in new_rows:
            if len(self._rows) < self._room.most_rows:
                self._rows.setdefault(row)
        self._waiting.append(points)
        self._waiting_count += len(points)
        new_buckets = self._gather(points, together=True)
        self._together[0].add(new_buckets, self._room.together)
        self._together[1].add(new_buckets, self._room.recent)

    def _spread(self) -> None:
        """Put the points that wait into the buckets of their rows."""
        import numpy as np

        kept_rows = list(self._rows)
        waiting_points = [points[np.isin(points[:, 0], kept_rows)] for points in self._waiting]
        self._waiting = []
        self._waiting_count = 0
        self._add_to_rows(self._each, waiting_points)

    def _add_to_rows(self, samplers: list[Downsampler], waiting_points: list[Floats]) -> None:
        import numpy as np

        if not any(map(len, waiting_points)):
            return
        row_buckets = self._gather(np.concatenate(waiting_points), together=False)
        num_rows = len(self._rows)
        whole_run, recent_steps = samplers
        whole_run.add(row_buckets, self._room.of_row(num_rows))
        # Of the last steps a quarter is enough, as each of them has a bucket of its own.
        recent_steps.add(row_buckets, self._room.of_row(4 * num_rows))

    def _gather(self, points: Floats, *, together: bool) -> Buckets:
        import numpy as np

        from remote.run.series.downsampling import Buckets

        row_numbers, owners = points[:, :2].astype(np.int64).T
        x, other_axis = points[:, 2:4].T
        if self.source.by_time:
            x, other_axis = other_axis, x
        if together:
            row_numbers = np.zeros_like(row_numbers)
        is_named = together or self.has_parts
        return Buckets.gather(
            row_numbers, owners if is_named else None, x, other_axis, points[:, 4:]
        )
