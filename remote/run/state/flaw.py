"""What spoils the result of a run that may have done all its work, as a value with fields.

It stands apart from `remote.run.findings.flaws`, which finds it: lists of runs only read it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from remote.format import UNKNOWN, duration, figure, percent


class FlawKind(StrEnum):
    """What is wrong, in a word or two, the most important first."""

    DIVERGED = "diverged"
    LEARNED_NOTHING = "learned nothing"
    ALONE = "trained alone"
    OVERFITTED = "overfitted"
    SLOW = "slow"


class Measure(StrEnum):
    """Which figure of a run changed."""

    LOSS = "loss"
    TEST_LOSS = "test loss"
    VALIDATION_LOSS = "validation loss"
    TEST_ACCURACY = "test accuracy"


FigureOrWord = float | str
"""A word, such as NaN, stands for what JSON has no number for."""


@dataclass(frozen=True)
class Flaw:
    """Something spoils the result of a run. Its fields are keys of `summary.json`; those that do
    not belong to its kind have their defaults."""

    kind: FlawKind
    step: int = 0
    """Since which step."""
    epoch: int = 0
    """Since which epoch a run is overfitted; 0 of a script that does not tell it."""
    measure: Measure | None = None
    """What changed."""
    before: FigureOrWord | None = None
    """What it was."""
    after: FigureOrWord | None = None
    """What it became."""
    rank: int = -1
    """Of a slow run: the rank for which the others waited longest."""
    host: str = ""
    """The host of this rank."""
    seconds: float = 0.0
    """How long it was slow."""
    training_seconds: float = 0.0
    """How long the run trained."""
    reason: str = ""
    """Why the rank was slow; "" if nothing tells."""

    @property
    def text(self) -> str:
        """In words, with the reason of a slow run."""
        return f"{self.title}; {self.reason}" if self.reason else self.title

    @property
    def change(self) -> str:
        """What changed, and how: "test loss 0.3 → 0.5"."""
        before_text = "" if self.before is None else f"{_word(self.measure, self.before)} → "
        return f"{self.measure} {before_text}{_word(self.measure, self.after)}"

    @property
    def title(self) -> str:
        """In words, such as "diverged at step 12: loss 2.3 → 17655 at the end"."""
        match self.kind:
            case FlawKind.DIVERGED:
                # At that step, it had only begun.
                has_end = self.before is not None and not isinstance(self.after, str)
                end_text = " at the end" if has_end else ""
                return f"diverged at step {self.step}: {self.change}{end_text}"
            case FlawKind.LEARNED_NOTHING:
                return f"learned nothing: {self.change}, as by chance"
            case FlawKind.ALONE:
                return "trained alone: each rank has a model of its own"
            case FlawKind.OVERFITTED:
                since = f" since epoch {self.epoch}" if self.epoch else f" since step {self.step}"
                # A script may tell neither.
                since = since if self.epoch or self.step else ""
                return f"overfitted{since}: {self.change}"
            case FlawKind.SLOW:
                times = f"{duration(self.seconds)} of {duration(self.training_seconds)}"
                return f"slow for {times}: all waited for rank {self.rank} on {self.host}"


def _word(measure: Measure | None, value: FigureOrWord | None) -> str:
    if value is None or isinstance(value, str):
        return value or UNKNOWN
    return percent(value, 1) if measure is Measure.TEST_ACCURACY else figure(value)
