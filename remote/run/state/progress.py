"""How far the training of a run has come, and what it came to."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from training import figures
from training.wire import events

RISEN = 2.0
"""How many times the first loss a last one is that has risen."""
NOT_LEARNED = "did not learn"
WATCHED = "torch is watched"
"""What is said of a user's own program of which steps are seen without a print."""


@dataclass(frozen=True)
class Restart:
    """The run was restarted `seconds` after it began, for this reason ("" where it is not known),
    and goes on after `step`; 0 until a rank says so."""

    seconds: float
    step: int = 0
    reason: str = ""


@dataclass(frozen=True)
class Diverged:
    """The first loss of the run that was no finite number, at the time `when`: `value` is nan, inf
    or -inf."""

    rank: int
    step: int
    value: float
    when: float = 0.0

    @property
    def text(self) -> str:
        """In words: "loss is NaN at step 12 (rank 0)"."""
        return f"loss is {self.what} at step {self.step} (rank {self.rank})"

    @property
    def what(self) -> str:
        """What the loss is, in a word."""
        return "NaN" if math.isnan(self.value) else "infinite"


def not_learned(runs: Iterable[tuple[str, float, float]]) -> str:
    """Which runs did not learn, in a sentence; "" if all did. Of each: its name, and its first and
    last training loss."""
    found = [run for run in runs if run[2] > RISEN * run[1]]
    if not found:
        return ""
    name, first, last = found[0]
    number = "1 run" if len(found) == 1 else f"{len(found)} runs"
    rose = f"rose from {figures.loss(first)} to {figures.loss(last)}"
    return f"{number} {NOT_LEARNED}: the training loss of {name} {rose}"


@dataclass
class Progress:
    """`begun` is the first rank's word on the size of the work, None before. `evaluations` are rank
    0's, the last one with its confusion matrix. `drift` is the first comparison that found the
    ranks' models to differ, at `drifted`, `largest_drift` the one that found them to differ most.
    `diverged` is the first loss that was no finite number, `restarts` tell when the run was
    restarted. `printed_steps` are those of the whole run as a user's own program prints them, 0 if
    it does not, `formats` those by which that is read, `files` those of its files that are read,
    `watched`: torch is, in it.
    `anew` is the attempt of which the first step is known."""

    begun: events.Started | None = None
    printed_steps: int = 0
    watched: bool = False
    anew: int = 0
    formats: list[str] = field(default_factory=list)
    files: list[str] = field(default_factory=list)
    evaluations: list[events.Evaluated] = field(default_factory=list)
    drift: events.Drifted | None = None
    drifted: float = 0.0
    largest_drift: events.Drifted | None = None
    diverged: Diverged | None = None
    restarts: list[Restart] = field(default_factory=list)

    @property
    def steps(self) -> int:
        """Steps of the whole run; 0 before it is known."""
        return self.begun.steps if self.begun else self.printed_steps

    @property
    def epochs(self) -> int:
        """Epochs of the whole run, one begun counted whole; 0 before it is known."""
        if not self.begun or self.begun.steps_per_epoch <= 0:
            return 0
        return -(-self.begun.steps // self.begun.steps_per_epoch)

    def start(self, event: events.Started) -> bool:
        """Take in a rank's first word in an attempt. Returns whether it is the first of all
        ranks."""
        if self.begun:
            return False
        self.begun = event
        self.go_back(event.resumed)
        return True

    def go_back(self, step: int) -> None:
        """The ranks make the steps after this one, perhaps anew."""
        if self.diverged and step < self.diverged.step:
            self.diverged = None
        if self.restarts:
            self.restarts[-1] = replace(self.restarts[-1], step=step)

    def evaluate(self, event: events.Evaluated) -> None:
        """Take in an evaluation of rank 0. Of confusion matrices, which may be large, only the last
        is kept."""
        while self.evaluations and self.evaluations[-1].epoch >= event.epoch:
            self.evaluations.pop()  # these epochs began anew
        if self.evaluations:
            self.evaluations[-1] = replace(self.evaluations[-1], confusion=())
        counts = event.confusion
        is_whole = any(map(any, counts)) and all(len(row) == len(counts) for row in counts)
        self.evaluations.append(event if is_whole else replace(event, confusion=()))

    def compare(self, event: events.Drifted, when: float) -> bool:
        """Take in a comparison of the ranks' models. Returns whether it is the first to find them
        different."""
        is_first = self.drift is None
        if is_first:
            self.drift = event
            self.drifted = when
        if not self.largest_drift or event.difference > self.largest_drift.difference:
            self.largest_drift = event
        return is_first
