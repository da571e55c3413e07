"""Finds a training loss that rises far above its first value and stays there.

A loss that is no number is told elsewhere, see `TrainingProgress.diverged`: it needs no judgement.
"""

from __future__ import annotations

import math
import statistics
from collections import deque
from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from remote.format import figure
from remote.run.diagnosis.detector import Report
from remote.run.state.rank_state import Ranks, RankState
from remote.run.state.script_rank import ScriptRank
from training.wire.step_block import StepColumns

LASTING = 10
"""The loss has risen once this many in a row are far above the first one, and has come back once as
many are not. A spike is shorter."""
LASTING_LOSSES = 3
"""Of a script, whose loss may be known at a few steps only, so many in a row are enough if they are
of at least `LASTING` steps."""


class RiseRule(Struct, frozen=True):
    """When a loss is far above the first one of its run."""

    ratio: float
    """It is more than so many times the first one."""
    least_first: float
    """A first loss counts as at least so much: that of a run which resumes is next to nothing."""


OF_JOB = RiseRule(ratio=3.0, least_first=1.0)
"""Our own ranks train with cross-entropy, which begins at what a guess costs."""
OF_SCRIPT = RiseRule(ratio=1000.0, least_first=0.1)
"""A script's loss may be anything: that of a GAN's generator, or of a critic whose rewards grow,
rises a hundredfold in a run that is well."""


class LossRise(Struct, frozen=True):
    """A time in which the training loss was far above its first value."""

    step: int
    """The first step at which it was."""
    first: float
    """The first loss of the run."""
    loss: float
    """The median of the last losses in which it was."""
    since: float
    """When it was found."""
    over: float = 0.0
    """When the loss had come back; 0 before."""

    @property
    def text(self) -> str:
        """In words, such as "loss 2.3 → 17655 since step 3"."""
        return f"loss {figure(self.first)} → {figure(self.loss)} since step {self.step}"


class DivergenceDetector:
    """Compares the training loss of the run with the first one. A `Detector`."""

    def __init__(self, ranks: Ranks) -> None:
        self.rise: LossRise | None = None
        """The newest one."""
        self.first = math.nan
        """The first loss of the run that is a number; NaN before."""
        self._ranks = ranks
        self._high_losses = deque[float](maxlen=LASTING)
        self._high_from = 0
        """The step of the first of these."""
        self._calm_losses = 0
        self._newest = math.nan
        self._hides_step_losses = False
        self._is_comparable = True

    def take_report(self, report: Report, rank: RankState, when: float) -> list[str]:
        """See `Detector.take_report`."""
        if not self._is_compared(rank):
            return []
        if isinstance(rank, ScriptRank) and rank.hides_step_losses != self._hides_step_losses:
            # From now on it is the loss that the script prints, another quantity.
            self._hides_step_losses = rank.hides_step_losses
            self._forget()
        return self._take_loss(rank.loss, rank.step, when, is_script=isinstance(rank, ScriptRank))

    def find_checks(self, steps: StepColumns, rank: RankState) -> Sequence[int]:
        """See `Detector.find_checks`. The losses are all that it needs."""
        return ()

    def take_steps(
        self, steps: StepColumns, rank: RankState, times: Sequence[float]
    ) -> list[tuple[float, str]]:
        """See `Detector.take_steps`."""
        if not self._is_compared(rank):
            return []
        is_script = isinstance(rank, ScriptRank)
        losses = rank.shown_losses(steps)
        return [
            (when, remark)
            for loss, step, when in zip(losses, steps.step, times, strict=True)
            for remark in self._take_loss(loss, step, when, is_script=is_script)
        ]

    def _is_compared(self, rank: RankState) -> bool:
        """Return True if this is the rank whose losses are compared: the first that has any."""
        return rank is next((other for other in self._ranks if other.tells_loss), None)

    def _take_loss(self, loss: float, step: int, when: float, *, is_script: bool) -> list[str]:
        """Take in the loss after a step. Return remarks for the log."""
        # Between two lines of a script that prints every hundredth loss, the last one stands.
        if not math.isfinite(loss) or loss == self._newest:
            return []
        self._newest = loss
        # Where 0 is no least value, many times the first one means nothing.
        self._is_comparable = self._is_comparable and loss >= 0
        if math.isnan(self.first):
            self.first = loss
        rule = OF_SCRIPT if is_script else OF_JOB
        is_high = loss > rule.ratio * max(self.first, rule.least_first)
        if not (is_high and self._is_comparable):
            self._take_calm_loss(when)
            return []
        return self._take_high_loss(loss, step, when, is_sparse=is_script)

    def restart(self, ranks: Ranks, when: float) -> None:
        """See `Detector.restart`. The first loss stays that of the first attempt."""
        self._ranks = ranks
        self.rise = None
        self._high_losses.clear()
        self._calm_losses = 0

    def _forget(self) -> None:
        self.first = math.nan
        self.rise = None
        self._high_losses.clear()
        self._is_comparable = True

    def _take_high_loss(self, loss: float, step: int, when: float, *, is_sparse: bool) -> list[str]:
        """Return a remark if it is now sure that the loss has risen. `is_sparse`: the losses may be
        those of a few steps only."""
        self._calm_losses = 0
        if not self._high_losses:
            self._high_from = step
        self._high_losses.append(loss)
        lasts = is_sparse and step - self._high_from >= LASTING
        if len(self._high_losses) < (LASTING_LOSSES if lasts else LASTING):
            return []
        is_new = self.rise is None or self.rise.over > 0
        since = when if self.rise is None or is_new else self.rise.since
        middle_loss = statistics.median(self._high_losses)
        self.rise = LossRise(self._high_from, self.first, middle_loss, since)
        return [self.rise.text] if is_new else []

    def _take_calm_loss(self, when: float) -> None:
        self._calm_losses += 1
        if self._calm_losses != LASTING:
            return
        self._high_losses.clear()
        if self.rise and not self.rise.over:
            self.rise = replace(self.rise, over=when)
