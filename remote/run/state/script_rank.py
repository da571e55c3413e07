"""A rank of a user's own program: what that prints, and what the watch sees of it."""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, field
from typing import ClassVar

from remote.events import Parsed
from remote.run.series.pace import RECENT
from remote.run.state.phases import RankPhase
from remote.run.state.rank_state import LASTING, RankState
from training.wire import events
from training.wire.events import Event

REPORTS = 20
"""Reports that tell how often there are some."""
LONGEST = 0.2
"""How much the longest time between two reports counts: an evaluation, which no script announces,
takes as long the next time."""
SURE = 3
"""Losses in a row that are no numbers until the loss has become one: a log may have a gap."""


@dataclass(slots=True)
class ScriptRank(RankState):
    """`metrics` are its newest values by name, `parsed` is how its output is read, `losses` those
    of its last steps that are known. A step may stand for all since the one before: a log tells
    every hundredth."""

    lasting: ClassVar[tuple[str, ...]] = (*LASTING, "metrics")
    metrics: dict[str, float] = field(default_factory=dict)
    parsed: Parsed | None = None
    gaps: deque[float] = field(default_factory=lambda: deque(maxlen=REPORTS))
    longest: float = 0.0
    losses: deque[float] = field(default_factory=lambda: deque(maxlen=RECENT))

    @property
    def doing(self) -> str:
        """See `RankState.doing`. Without a step, nobody knows whether it trains."""
        is_silent = self.phase is RankPhase.TRAINING and not (self.step or self.stalled)
        return "running" if is_silent else super(ScriptRank, self).doing

    @property
    def makes_steps(self) -> bool:
        """See `RankState.makes_steps`. Of a script perhaps one rank prints them."""
        return self.step > 0

    @property
    def between(self) -> float:
        """See `RankState.between`."""
        mean = sum(self.gaps) / len(self.gaps) if self.gaps else 0.0
        return max(self.pace.seconds, mean, LONGEST * self.longest) if self.pace else mean

    @property
    def is_diverged(self) -> bool:
        """Whether its loss has become infinite, or was a number before and no longer is."""
        if math.isinf(self.loss):
            return True
        are_nan = [*map(math.isnan, self.losses)]
        return len(are_nan) > SURE and all(are_nan[-SURE:]) and not all(are_nan)

    def apply(self, event: Event, when: float) -> None:
        """Take in what it, or its agent, says of it."""
        match event:
            case events.StepFinished() | events.ScriptMetrics():
                self._report(when)
        match event:
            case events.ScriptMetrics():
                self.heard = when
                self._tell(event)
            case Parsed():
                self.parsed = event
            case _:
                RankState.apply(self, event, when)

    def _report(self, when: float) -> None:
        """It has told of steps, or values."""
        if self.stepped_at and when > self.stepped_at:
            self.gaps.append(when - self.stepped_at)
            self.longest = max(self.longest, self.gaps[-1])
        self.stepped_at = when
        self.stalled = False

    def _tell(self, event: events.ScriptMetrics) -> None:
        self.metrics.update(event.values)
        if not self._tells_loss:
            self.loss = self.metrics.get("loss", self.loss)
        self.accuracy = self.metrics.get("accuracy", self.accuracy)

    @property
    def _tells_loss(self) -> bool:
        """Whether its steps have losses."""
        return not all(map(math.isnan, self.losses))

    def stepped(self, step: events.StepFinished) -> None:
        """Take in one iteration, or the last of several."""
        made = step.step - self.step if 0 < self.step < step.step else 1
        self.step = step.step
        self.seconds = step.seconds
        self.epoch = step.epoch or self.epoch
        if step.loss_known:
            self.losses.append(step.loss)
            self.loss = step.loss if self._tells_loss else self.loss
        if not math.isfinite(step.seconds):
            self.timing.begin_after(step.step)
            return
        self.pace.append(step)
        self.timing.append(step.seconds, step.data, step.compute, step.sync, step.samples)
        if made > 1:
            self.timing.repeat(made - 1, step.seconds, step.data, step.samples)
