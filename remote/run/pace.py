"""How fast a rank makes its steps now, and where their time goes."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator
from dataclasses import fields
from operator import attrgetter

from remote.run.timing import NAN
from training.wire.events import Step

RECENT = 20
"""Steps that count as present."""
LONG = 500
"""Steps over which the lasting pace is taken."""
_FIGURES = {one.name: attrgetter(one.name) for one in fields(Step)}
"""Ways to the figures of a step, several times as fast as `getattr`: there may be 1,000 ranks."""


class Pace:
    """The last steps of a rank in its present attempt. Figures are those of `Step`; all are NaN
    before the first one.

    `count` is how many steps were timed, `lasting` the mean of the seconds of `LONG` steps, in
    which the older ones count less, `lasting_ready` that of their `ready`. The first step warms up:
    it counts only while it is alone.
    """

    __slots__ = ("_spent", "count", "lasting", "lasting_ready", "recent")

    def __init__(self) -> None:
        self.recent: deque[Step] = deque(maxlen=RECENT)
        self.lasting = self.lasting_ready = NAN
        self.count = 0
        self._spent = NAN

    def __bool__(self) -> bool:
        return bool(self.recent)

    def append(self, step: Step) -> None:
        """Take in a step."""
        self.recent.append(step)
        self._spent = NAN
        if not math.isfinite(step.seconds):
            return
        self.count += 1
        if self.count <= 2:
            self.lasting, self.lasting_ready = step.seconds, step.ready
            return
        made = self.count - 1 if self.count <= LONG else LONG
        self.lasting += (step.seconds - self.lasting) / made
        self.lasting_ready += (step.ready - self.lasting_ready) / made

    @property
    def seconds(self) -> float:
        """Median seconds of a step."""
        return self.median("seconds")

    def median(self, figure: str) -> float:
        """The median of a figure."""
        values = sorted(self._all(figure))  # `statistics.median` takes twice as long
        if not values:
            return NAN
        middle = len(values) // 2
        return values[middle] if len(values) % 2 else (values[middle - 1] + values[middle]) / 2

    def mean(self, figure: str) -> float:
        """The mean of a figure."""
        return sum(self._all(figure)) / len(self.recent) if self.recent else NAN

    def per_second(self, figure: str) -> float:
        """How much of a figure comes in a second of the steps. Of `data`, `compute` and `sync`:
        their share of a step."""
        if math.isnan(self._spent):  # kept for the other figures
            self._spent = sum(self._all("seconds"))
        return sum(self._all(figure)) / self._spent if self._spent > 0 else NAN

    def _all(self, figure: str) -> Iterator[float]:
        return map(_FIGURES[figure], self.recent)
