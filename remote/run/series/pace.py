"""How fast a rank makes its steps now, and where their time goes."""

from __future__ import annotations

import math
from array import array
from operator import attrgetter
from struct import Struct

from remote.run.series.definitions import STEP
from remote.run.series.timing import NAN
from training.wire.events import StepFinished

RECENT = 20
"""Steps that count as present."""
LONG = 500
"""Steps over which the lasting pace is taken."""
_FIGURES = (*STEP.figures, "cpu_seconds")
_PLACES = {figure: place for place, figure in enumerate(_FIGURES)}
_WIDTH = len(_FIGURES)
_figures_of = attrgetter(*_FIGURES)
_pack = Struct(f"{_WIDTH}d").pack


class Pace:
    """The last steps of a rank in its present attempt. Figures are those of `StepFinished`;
    all are NaN before the first one.

    `count` is how many steps were timed, `lasting` the mean of the seconds of `LONG` steps, in
    which the older ones count less, `lasting_ready` that of their `ready`. The first step warms up:
    it counts only while it is alone.

    Figures are kept as numbers beside each other. Those of 1,000 ranks are asked for together, and
    to fetch as many steps from all over the memory takes several times as long as to compute.
    """

    __slots__ = ("_recent", "_spent", "_warms_up", "count", "lasting", "lasting_ready")

    def __init__(self) -> None:
        self._recent = array("d")
        self.lasting = self.lasting_ready = NAN
        self.count = 0
        self._spent = NAN
        self._warms_up = True

    def __len__(self) -> int:
        return len(self._recent) // _WIDTH

    def __bool__(self) -> bool:
        return bool(self._recent)

    def append(self, step: StepFinished) -> None:
        """Take in a step."""
        recent = self._recent
        recent.frombytes(_pack(*_figures_of(step)))
        if len(recent) > RECENT * _WIDTH:
            del recent[:_WIDTH]
            self._warms_up = False
        self._spent = NAN
        if not math.isfinite(step.seconds):
            return
        self.count += 1
        if self.count <= 2:
            self.lasting = step.seconds
            self.lasting_ready = step.ready
            return
        made = self.count - 1 if self.count <= LONG else LONG
        self.lasting += (step.seconds - self.lasting) / made
        self.lasting_ready += (step.ready - self.lasting_ready) / made

    def last(self, figure: str) -> array[float]:
        """A figure of each step, in order."""
        return self._recent[_PLACES[figure] :: _WIDTH]

    @property
    def seconds(self) -> float:
        """Median seconds of a step."""
        return self.median("seconds")

    def median(self, figure: str) -> float:
        """The median of a figure."""
        values = sorted(self.last(figure))  # `statistics.median` takes twice as long
        if not values:
            return NAN
        middle = len(values) // 2
        return values[middle] if len(values) % 2 else (values[middle - 1] + values[middle]) / 2

    def mean(self, figure: str) -> float:
        """The mean of a figure."""
        values = self._warm(figure)
        return sum(values) / len(values) if values else NAN

    def per_second(self, figure: str) -> float:
        """How much of a figure comes in a second of the steps. Of `data`, `compute` and `sync`:
        their share of a step."""
        if math.isnan(self._spent):  # kept for the other figures
            self._spent = sum(self._warm("seconds"))
        return sum(self._warm(figure)) / self._spent if self._spent > 0 else NAN

    def _warm(self, figure: str) -> array[float]:
        """A figure of each step that counts."""
        values = self.last(figure)
        return values[1:] if self._warms_up and len(values) > 1 else values
