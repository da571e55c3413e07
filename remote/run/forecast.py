"""When a run will have made all its steps."""

from __future__ import annotations

import math
from collections.abc import Sequence

from remote.plan.plan import Plan
from remote.run.phases import FATES
from remote.run.progress import Progress
from remote.run.rank import RankState
from remote.run.timing import NAN

CHANGE = 0.05
"""By which share the time that is left may change in a second, besides that second."""
TESTING = 0.26
"""What testing a sample costs of a rank's own work to train on it, which has a backward pass, too:
0.24 to 0.30 for VGG-11 on CPUs."""
SETTLED = 5
"""Steps until the forecast is steady: before, each of them may change it much."""
LATE = 3.0
"""Steps that the next one may be late until the time that is left shrinks no further."""


class Forecast:
    """The time that is left, by the lasting pace of the rank that is furthest behind, with the
    evaluations and checkpoints to come.

    It is steady: what slow steps or the first evaluation change comes in little by little.
    """

    def __init__(self) -> None:
        self._shown = self._found = NAN
        self._when = self._pace = 0.0

    def update(
        self, ranks: Sequence[RankState], progress: Progress, plan: Plan, when: float
    ) -> None:
        """Take in that ranks have made steps."""
        training = [rank for rank in ranks if rank.pace and rank.phase not in FATES]
        if not training or not progress.steps:
            return
        last = min(training, key=lambda rank: rank.step)
        found = (
            max(0, progress.steps - last.step) * last.pace.lasting
            + _evaluations(last, progress)
            + _checkpoints(ranks, last.step, progress, plan)
        )
        if not math.isfinite(found):
            return
        is_new = math.isnan(self._shown) or last.pace.count < SETTLED
        self._shown = found if is_new else self.left(when)
        self._found, self._when, self._pace = found, when, last.pace.lasting

    def left(self, now: float) -> float:
        """Seconds that are left at the time `now`, by the session's clock; NaN where that is not
        known."""
        if math.isnan(self._shown):
            return NAN
        passed = max(0.0, now - self._when)
        most = CHANGE * passed * max(self._shown, 1.0)
        change = min(most, max(-most, self._found - self._shown))
        return max(0.0, self._shown + change - min(passed, LATE * self._pace))


def _evaluations(rank: RankState, progress: Progress) -> float:
    """Seconds of the evaluations to come."""
    left = progress.epochs - len(progress.evaluations)
    if progress.evaluations:
        return left * progress.evaluations[-1].seconds
    begun = progress.begun
    if not begun or not begun.train_samples:
        return 0.0
    steps = begun.test_samples / begun.train_samples * begun.steps_per_epoch
    return left * steps * rank.pace.median("ready") * TESTING


def _checkpoints(ranks: Sequence[RankState], step: int, progress: Progress, plan: Plan) -> float:
    """Seconds of the checkpoints to come, once there was one."""
    slowest = max(ranks, key=lambda rank: rank.saving_seconds)
    if not slowest.saved or not plan.job:
        return 0.0
    every = plan.job.checkpoint_every
    left = (
        (progress.steps - step) // int(every)
        if every.isdecimal()
        else progress.epochs - len(progress.evaluations)
    )
    return left * slowest.saving_seconds / slowest.saved
