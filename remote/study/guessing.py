"""Find out whether the runs of a study still guess, so that their results say little. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from remote.plan.expected import class_count
from remote.study.folder import RunEnded
from remote.study.length import TrainingLength, find_length
from remote.study.study import Study

GUESSING = 0.03
"""A loss that is not further from that of guesses, as a share of it, is one of guesses."""


@dataclass(frozen=True)
class Guesses:
    """What the runs of a study came to, all of which still guess."""

    length: TrainingLength | None
    """How long each run trained; None if nobody knows whether longer runs would learn."""
    best_loss: float
    """The least of their test losses; NaN if there is none."""
    guess_loss: float
    """The test loss of guesses; NaN if it is not known."""
    is_near: bool
    """Whether all losses are near that of guesses."""

    @property
    def word(self) -> str:
        """Return what such a study is called."""
        return "too short" if self.length else "nothing learned"

    @property
    def text(self) -> str:
        """Return it in a sentence."""
        meaning = "nothing was learned to compare"
        after_text = ""
        if self.length:
            meaning = "not trained long enough to compare"
            after_text = f"after {self.length} "
        return f"{meaning}: {after_text}{self._describe()}"

    @property
    def brief_text(self) -> str:
        """Return it where there is little room: "10 epochs barely beat guessing (best run 2.24,
        guessing 2.30)"."""
        if self._is_barely_better:
            losses = f"best run {self.best_loss:.2f}, guessing {self.guess_loss:.2f}"
            return f"{self.clause} ({losses})"
        return self.clause

    @property
    def clause(self) -> str:
        """Return it without losses: "10 epochs barely beat guessing"."""
        if self._is_barely_better:
            verb = "beats" if self.length and self.length.value == 1 else "beat"
            subject = str(self.length) if self.length else "runs"
            return f"{subject} barely {verb} guessing"
        after_text = f"after {self.length} " if self.length else ""
        return f"{after_text}all runs still guess"

    @property
    def _is_barely_better(self) -> bool:
        # A chart shows a loss below that of guesses, so the words must not deny it.
        is_shown_better = f"{self.best_loss:.2f}" != f"{self.guess_loss:.2f}"
        return self.is_near and self.best_loss < self.guess_loss and is_shown_better

    def _describe(self) -> str:
        if not (math.isfinite(self.best_loss) and math.isfinite(self.guess_loss)):
            return "all runs still guess"
        guess_text = f"{self.guess_loss:.2f}"
        if self._is_barely_better:
            best_text = f"best run {self.best_loss:.2f}"
            return f"barely better than guessing ({best_text}, guessing {guess_text})"
        return f"all runs still guess (loss of guessing: {guess_text})"


def find_guesses(study: Study, counted_runs: Sequence[RunEnded]) -> Guesses | None:
    """Return what the runs of a study came to if all of them still guess. Return None if one does
    not, or if times are compared."""
    if study.compares_times or not counted_runs:
        return None
    guess_loss = find_guess_loss(study)
    is_near = all(
        run_end.value is not None and abs(run_end.value / guess_loss - 1) <= GUESSING
        for run_end in counted_runs
    )
    if not is_near and not all(run_end.at_chance for run_end in counted_runs):
        return None
    values = [run_end.value for run_end in counted_runs if run_end.value is not None]
    return Guesses(find_length(study), min(values, default=math.nan), guess_loss, is_near)


def find_guess_loss(study: Study) -> float:
    """Return the test loss of guesses; NaN if it is not known, or not what is compared."""
    class_counts = {class_count(cell.job) if cell.job else 0 for cell in study.cells}
    num_classes = class_counts.pop() if len(class_counts) == 1 else 0
    return math.log(num_classes) if study.metric == "loss" and num_classes > 1 else math.nan
