"""A rank of a script: what the script prints, and what the watch sees of it."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import ClassVar

from remote.events import Parsed
from remote.run.series.step_times import RECENT
from remote.run.state.phases import RankPhase
from remote.run.state.rank_state import LASTING_FIELDS, RankState
from training.wire.events import Collectives, Event, Isolation, ScriptMetrics, StepFinished

REPORTS = 20
"""Reports that say how often there are some."""
LONGEST_GAP_WEIGHT = 0.2
"""How much the longest time between two reports counts: an evaluation, which no script announces,
takes as long the next time."""
LOSSES_FOR_DIVERGED = 3
"""Losses in a row that are no numbers until the run has diverged: a log may have a gap."""


def unknown_if_zero(value: float) -> float:
    """Return a figure of a script's steps, NaN if it is 0.

    A script reports few figures. Those that it does not report are 0 in its `Step`s, so for a
    script 0 means unknown.
    """
    return value or math.nan


@dataclass(slots=True)
class CollectiveTotals:
    """What a rank has exchanged by functions of torch.distributed, as far as these are watched."""

    count: int = 0
    """Calls."""
    bytes: int = 0
    seconds: float = 0.0
    """In which it was blocked."""
    newest: Collectives | None = None

    def append(self, event: Collectives) -> None:
        """Take in the next report."""
        self.count += event.count
        self.bytes += event.bytes
        self.seconds += event.seconds
        self.newest = event

    def per_second(self, figure: str) -> float:
        """Return how much of a figure came in a second of the time before the newest report."""
        if not self.newest or not self.newest.span:
            return math.nan
        return float(getattr(self.newest, figure)) / self.newest.span


def join_totals(ranks: Iterable[ScriptRank]) -> CollectiveTotals:
    """Return what these ranks have exchanged together."""
    joined = CollectiveTotals()
    for rank in ranks:
        joined.count += rank.collectives.count
        joined.bytes += rank.collectives.bytes
        joined.seconds += rank.collectives.seconds
    return joined


@dataclass(slots=True)
class ScriptRank(RankState):
    """A rank of a script.

    If its log has only every hundredth step, a recorded step stands for the hundred since the last.
    Its `loss` is that of its newest step. If steps come without a loss, it is the newest that the
    script prints as "loss".
    """

    lasting_fields: ClassVar[tuple[str, ...]] = (*LASTING_FIELDS, "metrics")
    metrics: dict[str, float] = field(default_factory=dict)
    """Its newest values by name."""
    parsed: Parsed | None = None
    """How its output is read."""
    collectives: CollectiveTotals = field(default_factory=CollectiveTotals)
    isolation: Isolation | None = None
    """The newest report that it trains alone, or no longer."""
    isolated_at: float = 0.0
    """When it first reported that."""
    connected_at: float = 0.0
    """When it reported that it no longer does; 0 before."""
    gaps: deque[float] = field(default_factory=lambda: deque(maxlen=REPORTS))
    """The seconds between its last reports."""
    longest_gap: float = 0.0
    losses: deque[float] = field(default_factory=lambda: deque(maxlen=RECENT))
    """The losses of its last steps; NaN for a loss that diverged. Steps whose loss nobody reads are
    left out, and so are losses that it prints without a step."""

    @property
    def doing(self) -> str:
        """See `RankState.doing`. Without a step, nobody knows whether it trains."""
        is_silent = self.phase is RankPhase.TRAINING and not (self.step or self.stalled)
        # With its arguments: `super()` alone does not know the class that a dataclass with slots
        # becomes.
        return "running" if is_silent else super(ScriptRank, self).doing

    @property
    def only_exchanges(self) -> bool:
        """See `RankState.only_exchanges`."""
        return not self.step and self.collectives.count > 0

    @property
    def is_isolated(self) -> bool:
        """Return True if it has exchanged nothing with other ranks so far."""
        return self.isolation is not None and not self.isolation.over

    @property
    def makes_steps(self) -> bool:
        """See `RankState.makes_steps`. Perhaps only one rank of a script reports steps."""
        return self.step > 0

    @property
    def between(self) -> float:
        """See `RankState.between`."""
        mean_gap = sum(self.gaps) / len(self.gaps) if self.gaps else 0.0
        if not self.pace:
            return mean_gap
        return max(self.pace.seconds, mean_gap, LONGEST_GAP_WEIGHT * self.longest_gap)

    @property
    def is_diverged(self) -> bool:
        """See `RankState.is_diverged`. Its loss is infinite, or was a number and stays NaN."""
        # A log may lack a number, but does not make up an infinite one.
        if math.isinf(self.loss):
            return True
        are_nan = [math.isnan(loss) for loss in self.losses]
        has_lasted = len(are_nan) > LOSSES_FOR_DIVERGED and all(are_nan[-LOSSES_FOR_DIVERGED:])
        # Losses that never were numbers are those of a script that does not report any.
        return has_lasted and not all(are_nan)

    def apply(self, event: Event, when: float) -> None:
        """See `RankState.apply`."""
        match event:
            case Parsed():
                self.parsed = event
                return
            case Collectives():
                self.heard = when
                self.collectives.append(event)
                # Once it makes steps, these say how far it is.
                if not self.step:
                    self._note_report(when)
                return
            case Isolation():
                self.heard = when
                self._take_isolation(event, when)
                return
            case StepFinished() | ScriptMetrics():
                self._note_report(when)
        if isinstance(event, ScriptMetrics):
            self.heard = when
            self._take_metrics(event)
        else:
            RankState.apply(self, event, when)

    def _note_report(self, when: float) -> None:
        if self.stepped_at and when > self.stepped_at:
            gap = when - self.stepped_at
            self.gaps.append(gap)
            self.longest_gap = max(self.longest_gap, gap)
        self.stepped_at = when
        self.stalled = False

    def _take_isolation(self, event: Isolation, when: float) -> None:
        self.isolation = event
        if event.over:
            self.connected_at = when
        else:
            self.isolated_at = when

    def _take_metrics(self, event: ScriptMetrics) -> None:
        self.metrics.update(event.values)
        if not self._steps_have_losses:
            self.loss = self.metrics.get("loss", self.loss)
        self.accuracy = self.metrics.get("accuracy", self.accuracy)

    @property
    def _steps_have_losses(self) -> bool:
        return not all(map(math.isnan, self.losses))

    def take_step(self, step: StepFinished) -> None:
        """Take in one step, or the last of several."""
        # A log may have every hundredth step only, whose time then stands for all hundred.
        steps_made = step.step - self.step if 0 < self.step < step.step else 1
        self.step = step.step
        self.seconds = step.seconds
        self.epoch = step.epoch or self.epoch
        if step.loss_known:
            self.losses.append(step.loss)
            if self._steps_have_losses:
                self.loss = step.loss
        if math.isfinite(step.seconds):
            self.pace.append(step)
            self.timing.append(step, steps_made)
        else:
            self.timing.begin_after(step.step)
