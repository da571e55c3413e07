"""When a run will have made all its steps."""

from __future__ import annotations

import math
from collections.abc import Sequence
from operator import attrgetter

from remote.plan.plan import Plan
from remote.run.diagnosis.pace_spread import Blocks
from remote.run.series.timing import NAN
from remote.run.state.phases import FATES, RankPhase
from remote.run.state.progress import Progress
from remote.run.state.rank_state import RankState

CHANGE = 0.085
"""By which share the time that is left may change in a second, besides that second."""
UNSEEN = 0.9
"""Seconds by which it may change in a second at any rate: few see it, and so it does not end long
before the run."""
WIDE = 0.2
NARROW = 0.15
"""The share of the time that is left by which it may be wrong, from which on that is said, and
below which it is no longer."""
WORTH = 5.0
"""Seconds by which it has to be wrong at the least."""
TESTING = 0.25
"""What testing a sample costs of a rank's own work to train on it, which has a backward pass, too:
0.20 to 0.29 for VGG-11 on CPUs."""
SETTLED = 0.04
"""The share of a run until the forecast is steady: before, each step may change it much."""
KNOWN = 4
"""Steps that are timed before anything is known: the first ones warm up."""
LATE = 3.0
"""Steps that the next one may be late until the time that is left shrinks no further."""
WAIT = 2.0
"""Seconds that it may be late at the least."""
TESTS = 5
"""The last evaluations tell what those to come take."""


class Forecast:
    """The time that is left, by the lasting pace of the rank that is furthest behind, with the
    evaluations and checkpoints to come. It is known once a step was timed besides the first one,
    which warms up.

    It is steady: what slow steps or the first evaluation change comes in little by little.
    """

    def __init__(self) -> None:
        self._began = self._shown = self._found = NAN
        self._when = self._since = self._until = 0.0
        self._blocks = Blocks()
        self._spread = 0.0
        self._step = 0
        self._is_wide = False

    def update(
        self, leader: RankState, ranks: Sequence[RankState], progress: Progress, plan: Plan
    ) -> None:
        """Take in that the first of the ranks that train has made a step, or begun an evaluation or
        a checkpoint."""
        training = [rank for rank in ranks if rank.pace and rank.phase not in FATES]
        if not training or not progress.steps:
            return
        last = min(training, key=attrgetter("step"))
        self._look_at_spread(leader, progress.steps)
        test = _evaluation(training, progress)
        save = _checkpoint(ranks)
        found = (
            max(0, progress.steps - last.step) * last.pace.lasting
            + (progress.epochs - len(progress.evaluations)) * test
            + _checkpoints(leader, progress, plan) * save
        )
        if last.pace.count < KNOWN or not math.isfinite(found):
            return
        when = max(leader.since, leader.stepped_at)
        if math.isnan(self._began):
            self._began = when - sum(last.pace.last("seconds"))
        passed = when - self._began
        is_steady = math.isfinite(self._shown) and passed > SETTLED * (passed + found)
        since = max(leader.since, last.stepped_at)
        self._shown = self.left(when) if is_steady else max(0.0, found - (when - since))
        if not found:  # all steps are made, however long they were expected to take
            self._shown = 0.0
        self._found = found
        self._when = when
        self._since = since
        lasts = {RankPhase.EVALUATING: test, RankPhase.SAVING: save}.get(leader.phase, 0.0)
        between = last.pace.lasting if plan.job else last.between
        self._until = when + lasts + max(WAIT, LATE * between)

    def left(self, now: float) -> float:
        """Seconds that are left at the time `now`, by the session's clock; NaN where that is not
        known."""
        if math.isnan(self._shown):
            return NAN
        most = max(UNSEEN, CHANGE * self._shown) * max(0.0, now - self._when)
        now = max(self._when, min(now, self._until))
        expected = self._shown - (now - self._when)
        change = self._found - (now - self._since) - expected
        return max(0.0, expected + min(most, max(-most, change)))

    def between(self, now: float) -> tuple[float, float]:
        """The least and the most seconds that are left, as far as the pace so far tells: equal
        unless it varies much."""
        left = self.left(now)
        off = left * self._spread
        return (left - off, left + off) if self._is_wide and off >= WORTH else (left, left)

    def _look_at_spread(self, leader: RankState, steps: int) -> None:
        """Take in a new step of the first rank that trains."""
        if leader.step <= self._step or not math.isfinite(leader.seconds):
            return
        is_first = not self._step
        self._step = leader.step
        if not is_first and self._blocks.append(leader.seconds):  # the first one warms up
            self._spread = min(1.0, self._blocks.spread(steps - leader.step))
            self._is_wide = self._spread > (NARROW if self._is_wide else WIDE)


def _evaluation(ranks: Sequence[RankState], progress: Progress) -> float:
    """Seconds of an evaluation: by those before, else by the work of the slowest rank."""
    if progress.evaluations:
        newest = progress.evaluations[-TESTS:]
        return sum(one.seconds for one in newest) / len(newest)
    begun = progress.begun
    if not begun or not begun.train_samples:
        return 0.0
    steps = begun.test_samples / begun.train_samples * begun.steps_per_epoch
    return steps * max(rank.pace.lasting_ready for rank in ranks) * TESTING


def _checkpoint(ranks: Sequence[RankState]) -> float:
    """Seconds of a checkpoint, once there was one."""
    slowest = max(ranks, key=attrgetter("saving_seconds"))
    return slowest.saving_seconds / slowest.saved if slowest.saved else 0.0


def _checkpoints(rank: RankState, progress: Progress, plan: Plan) -> int:
    """How many checkpoints are to come, with the one that is being saved: there is one at the last
    step, too."""
    every = plan.job.checkpoint_every if plan.job else ""
    if not every or not progress.begun:
        return 0
    each = max(1, int(every) if every.isdecimal() else progress.begun.steps_per_epoch)
    made = max((rank.step - 1) // each, -(-rank.saved_step // each))
    return max(0, -(-progress.steps // each) - made)
