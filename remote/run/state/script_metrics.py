"""The metrics of a run: values that a user's own program prints or writes, by name."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

from remote.run.series.timing import NAN
from remote.sanitise import one_line
from training.wire import events

MOST = 200
"""Metrics that are kept of a run."""
COUNTED = 100_000
"""Names beyond that are told apart."""
LONGEST = 80
"""Characters of a name."""


@dataclass(slots=True)
class Metric:
    """What is known of a metric, of `rank`, the first one that told it: its newest value and its
    extremes, each with its step. Values that are no finite numbers are none of the extremes."""

    rank: int
    count: int = 0
    last: float = NAN
    step: int = 0
    least: float = NAN
    least_step: int = 0
    most: float = NAN
    most_step: int = 0

    def take(self, value: float, step: int) -> None:
        """Take in the next value."""
        self.count += 1
        self.last = value
        self.step = step
        if not math.isfinite(value):
            return
        if not value >= self.least:
            self.least = value
            self.least_step = step
        if not value <= self.most:
            self.most = value
            self.most_step = step


@dataclass
class Metrics:
    """`named` are the first `MOST` of a run, `beyond` the names of others, of which nothing is
    kept."""

    named: dict[str, Metric] = field(default_factory=dict)
    beyond: set[str] = field(default_factory=set)
    _known: dict[str, str] = field(default_factory=dict)

    def take(self, event: events.ScriptMetrics, step: int) -> events.ScriptMetrics:
        """Take in values after `step`. Returns those that are kept, by names that are fit to be
        shown."""
        kept = []
        is_same = True
        for told, value in event.values:
            name = self._known.get(told) or self._name(told)
            is_same &= name == told
            if not name:
                continue
            kept.append((name, value))
            metric = self.named.get(name)
            if metric is None:
                metric = self.named[name] = Metric(event.rank)
            if metric.rank == event.rank:
                metric.take(value, event.step or step)
        return event if is_same else replace(event, values=tuple(kept))

    def _name(self, told: str) -> str:
        """The name under which a metric is kept; "" for one that is not."""
        name = one_line(told)[:LONGEST] or "?"
        if name in self.named or len(self.named) < MOST:
            if len(self._known) < COUNTED:
                self._known[told] = name
            return name
        if len(self.beyond) < COUNTED:
            self.beyond.add(name)
        return ""
