"""The metrics of a run: values that a script prints or writes, by name."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from remote.run.series.step_times import NAN
from remote.sanitise import one_line
from training.wire.rank_events import ScriptMetrics

MOST = 200
"""Metrics of a run that are kept."""
MOST_NAMES = 100_000
"""Names beyond these that are told apart."""
LONGEST = 80
"""Characters of a name."""
VALIDATION_LOSS = "val_loss"
"""The name of the loss on validation or test data, however a script calls it; see
`remote.formats.names`."""
MOST_VALIDATIONS = 2_000
"""Validation losses that are kept."""


@dataclass(slots=True)
class RunMetric:
    """The newest value of a metric and its extremes, which are finite, each with its step."""

    rank: int
    """The first rank that reported it. Values of others do not count here."""
    count: int = 0
    """How many values it has reported."""
    last: float = NAN
    step: int = 0
    """The step of the last value."""
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
        # Also True while `least` is NaN, as every comparison with NaN is False.
        if not value >= self.least:
            self.least = value
            self.least_step = step
        if not value <= self.most:
            self.most = value
            self.most_step = step


class ValidationLoss(NamedTuple):
    """The loss of a script on data that it does not train on."""

    step: int
    epoch: int
    """0 if the script does not tell it."""
    loss: float


class ValidationLosses(list[ValidationLoss]):
    """The validation losses of a run, in order of their steps."""

    def take(self, value: float, step: int, epoch: float) -> None:
        """Take in the next one."""
        # Steps that are made again after a restart, and values that are printed once a batch.
        while self and step and self[-1].step >= step:
            self.pop()
        # A bar of progress repeats the last one with each step.
        is_repeated = bool(self) and self[-1].loss == value
        if not math.isfinite(value) or is_repeated:
            return
        if len(self) >= MOST_VALIDATIONS:
            del self[1::2]
        self.append(ValidationLoss(step, math.ceil(epoch), value))


@dataclass
class RunMetrics:
    """The metrics that a script reports."""

    named: dict[str, RunMetric] = field(default_factory=dict)
    """The first `MOST` of the run."""
    validation_losses: ValidationLosses = field(default_factory=ValidationLosses)
    beyond: set[str] = field(default_factory=set)
    """The names of others, of which nothing is kept."""
    _known: dict[str, str] = field(default_factory=dict)

    def take(self, event: ScriptMetrics, step: int) -> ScriptMetrics:
        """Take in values after `step`. Return those that are kept, by names that can be shown."""
        kept_values = []
        is_same = True
        for reported_name, value in event.values:
            name = self._known.get(reported_name) or self._shown_name(reported_name)
            is_same &= name == reported_name
            if not name:
                continue
            kept_values.append((name, value))
            run_metric = self.named.get(name)
            if run_metric is None:
                run_metric = self.named[name] = RunMetric(event.rank)
            # Values of several ranks would have no order, so that none was the last one.
            if run_metric.rank != event.rank:
                continue
            run_metric.take(value, event.step or step)
            if name == VALIDATION_LOSS:
                self.validation_losses.take(value, event.step or step, event.epoch)
        return event if is_same else replace(event, values=tuple(kept_values))

    def _shown_name(self, reported_name: str) -> str:
        """Return the name under which a metric is kept; "" for one that is not."""
        shown_name = one_line(reported_name)[:LONGEST] or "?"
        if shown_name in self.named or len(self.named) < MOST:
            if len(self._known) < MOST_NAMES:
                self._known[reported_name] = shown_name
            return shown_name
        if len(self.beyond) < MOST_NAMES:
            self.beyond.add(shown_name)
        return ""
