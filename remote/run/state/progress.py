"""How far the training of a run has come, and what it came to."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from training.formatting import format_loss
from training.wire.rank_events import Drifted, Evaluated, Started

RISEN = 2.0
"""A last loss that is so many times the first one has risen."""
NOT_LEARNED = "did not learn"
WATCHED = "counting the steps of torch's optimiser"
"""The remark on a script of which steps are seen although it prints none."""
TOTAL_HINT = 'how many there will be is not known: a printed line such as "step 20/1000" tells it'
"""What the log adds to it."""


@dataclass(frozen=True)
class Restart:
    """A restart of all ranks."""

    seconds: float
    """Since the run began."""
    step: int = 0
    """The ranks go on after this step; 0 until a rank reports it."""
    reason: str = ""
    """Why; "" if that is not known."""


@dataclass(frozen=True)
class Diverged:
    """The first loss of the run that was no finite number."""

    rank: int
    step: int
    value: float
    """NaN, inf or -inf."""
    when: float = 0.0

    @property
    def text(self) -> str:
        """In words: "loss is NaN at step 12 (rank 0)"."""
        return f"loss is {self.what} at step {self.step} (rank {self.rank})"

    @property
    def what(self) -> str:
        """Return the loss in a word: NaN or infinite."""
        return "NaN" if math.isnan(self.value) else "infinite"


def not_learned(runs: Iterable[tuple[str, float, float]]) -> str:
    """Return a sentence on the runs that did not learn; "" if all did.

    Of each run: its name, and its first and last training loss.
    """
    risen_runs = [run for run in runs if run[2] > RISEN * run[1]]
    if not risen_runs:
        return ""
    run_name, first_loss, last_loss = risen_runs[0]
    runs_text = "1 run" if len(risen_runs) == 1 else f"{len(risen_runs)} runs"
    loss_change = f"rose from {format_loss(first_loss)} to {format_loss(last_loss)}"
    return f"{runs_text} {NOT_LEARNED}: the training loss of {run_name} {loss_change}"


def steps_of_test(begun: Started | None) -> float:
    """Return how many steps train on as many samples as the test set has; 0 if that is unknown."""
    if not begun or not begun.train_samples:
        return 0.0
    return begun.test_samples / begun.train_samples * begun.steps_per_epoch


@dataclass
class TrainingProgress:
    """How far the training of a run has come."""

    begun: Started | None = None
    """What the first rank reported at its first step: the size of the work."""
    printed_steps: int = 0
    """Steps of the whole run as a script prints them; 0 if it does not."""
    argument_steps: int = 0
    """Steps of the whole run by the arguments of a script; 0 if they do not say, or were wrong."""
    watched: bool = False
    """Torch is watched in the script."""
    prints_other_loss: bool = False
    """A script prints another loss than the one that it calls `backward` on, such as the mean of a
    sum."""
    printing_ranks: set[int] = field(default_factory=set)
    """The ranks of a script that have printed a loss."""
    first_step_attempt: int = 0
    """The newest attempt of a script whose first step is known."""
    formats: list[str] = field(default_factory=list)
    """The formats by which the output of a script is read."""
    files: list[str] = field(default_factory=list)
    """The files of a script that are read."""
    has_file_text: bool = False
    """Text has come of files that are followed, whether or not any of it is read."""
    evaluations: list[Evaluated] = field(default_factory=list)
    """Those of rank 0; only the last one has its confusion matrix."""
    drift: Drifted | None = None
    """The first comparison that found the ranks' models to differ."""
    drifted: float = 0.0
    """When it did."""
    largest_drift: Drifted | None = None
    """The comparison that found them to differ most."""
    diverged: Diverged | None = None
    restarts: list[Restart] = field(default_factory=list)

    @property
    def steps(self) -> int:
        """Steps of the whole run; 0 if that is not known yet."""
        return self.begun.steps if self.begun else self.printed_steps or self.argument_steps

    @property
    def epochs(self) -> int:
        """Epochs of the whole run, the last one counted whole; 0 if that is not known yet."""
        if not self.begun or self.begun.steps_per_epoch <= 0:
            return 0
        return -(-self.begun.steps // self.begun.steps_per_epoch)

    def start(self, event: Started) -> bool:
        """Take in that a rank has begun an attempt. Return True if it is the first rank to."""
        if self.begun:
            return False
        self.begun = event
        return True

    def compare_argument(self, step: int, *, is_last: bool = False) -> None:
        """Compare the steps that a script makes with those that its arguments ask for: it may count
        other ones, or end early on purpose. `is_last`: it has ended well after this step."""
        if step > self.argument_steps or (is_last and step < self.argument_steps):
            self.argument_steps = 0

    def rewind(self, step: int) -> None:
        """Forget what was reached behind this step: the ranks go on after it."""
        if self.diverged and step < self.diverged.step:
            self.diverged = None
        if self.restarts:
            self.restarts[-1] = replace(self.restarts[-1], step=step)

    def evaluate(self, event: Evaluated) -> None:
        """Take in an evaluation of rank 0. Only the last confusion matrix is kept."""
        evaluations = self.evaluations
        while evaluations and evaluations[-1].epoch >= event.epoch:
            evaluations.pop()  # these epochs began anew
        if evaluations:
            evaluations[-1] = replace(evaluations[-1], confusion=())
        confusion = event.confusion
        # A host may send anything, and charts draw it as a square.
        is_square = all(len(row) == len(confusion) for row in confusion)
        if not is_square or not any(map(any, confusion)):
            event = replace(event, confusion=())
        evaluations.append(event)

    def compare(self, event: Drifted, when: float) -> bool:
        """Take in that the ranks' models differ. Return True if it is the first time."""
        is_first = self.drift is None
        if is_first:
            self.drift = event
            self.drifted = when
        if not self.largest_drift or event.difference > self.largest_drift.difference:
            self.largest_drift = event
        return is_first
