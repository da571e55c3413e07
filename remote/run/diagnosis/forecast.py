"""Estimates when a run will have made all its steps."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from operator import attrgetter

from remote.plan.plan import Plan
from remote.run.series.step_times import NAN
from remote.run.state.phases import FATES, RankPhase
from remote.run.state.progress import TrainingProgress, steps_of_test
from remote.run.state.rank_state import Ranks, RankState

CHANGE = 0.085
"""The share by which the time that is left may change in a second, besides that second."""
UNSEEN = 0.8
"""Seconds by which it may change in a second at any rate: few see it, and so it does not end long
before the run."""
WIDE = 0.2
"""From this share on by which the time that is left may be wrong, that is said,"""
NARROW = 0.15
"""and below this one no longer."""
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
"""The last evaluations say what those to come take."""
MOST_BLOCKS = 16
"""Blocks of steps at the most; there are at least half as many once there are enough steps."""
LEAST_BLOCKS = 6
"""Blocks from which on a spread is known."""
DEVIATIONS = 2.0
"""Standard deviations on each side: the mean to come is within these in 19 of 20 cases, if the pace
varies as it did."""
MOST_CORRELATION = 0.8
"""The greatest correlation of a block with the next one that counts."""


class StepBlocks:
    """The means of equally long blocks of steps; the blocks grow with the run."""

    def __init__(self) -> None:
        self._means: list[float] = []
        self._size = 1
        self._steps_in_block = 0
        self._seconds_in_block = 0.0

    def append(self, seconds: float) -> bool:
        """Take in a step. Return True if it completes a block."""
        self._seconds_in_block += seconds
        self._steps_in_block += 1
        if self._steps_in_block < self._size:
            return False
        self._means.append(self._seconds_in_block / self._size)
        self._steps_in_block = 0
        self._seconds_in_block = 0.0
        # Half as many, each twice as long: so a run of any length fits.
        if len(self._means) == MOST_BLOCKS:
            pairs = zip(self._means[::2], self._means[1::2], strict=True)
            self._means = [(first + second) / 2 for first, second in pairs]
            self._size *= 2
        return True

    @property
    def mean(self) -> float:
        """Return the mean of all blocks so far; NaN before the first."""
        # `fmean` raises if a sum is too large.
        return sum(self._means) / len(self._means) if self._means else NAN

    def spread(self, steps: int) -> float:
        """Return the share by which the mean of so many steps to come may differ from the mean so
        far; 0 while little is known."""
        num_blocks = len(self._means)
        if num_blocks < LEAST_BLOCKS or steps <= 0:
            return 0.0
        block_mean = self.mean
        if not block_mean > 0 or not math.isfinite(block_mean):
            return 0.0
        offsets = [block - block_mean for block in self._means]
        squares = sum(offset * offset for offset in offsets)
        # Slow times last, so neighbouring blocks say less than independent ones would.
        neighbour_products = sum(first * second for first, second in pairwise(offsets))
        correlation = neighbour_products / squares if squares else 0.0
        correlation = min(MOST_CORRELATION, max(0.0, correlation))
        variance = squares / (num_blocks - 1) * (1 + correlation) / (1 - correlation)
        # Both means vary: that of the blocks so far, and that of those to come.
        blocks_to_come = max(1.0, steps / self._size)
        return DEVIATIONS * math.sqrt(variance * (1 / num_blocks + 1 / blocks_to_come)) / block_mean


class Forecast:
    """The time that is left, by the present pace of the rank that is furthest behind, with the
    evaluations and checkpoints to come.

    That pace is shown beside it as the time of a step, so whoever multiplies finds the same. The
    forecast is known once a step was timed besides the first ones, which warm up. It is steady:
    what slow steps or the first evaluation change comes in little by little.
    """

    def __init__(self) -> None:
        self._training_began = NAN
        self._shown = NAN
        """The seconds that were shown to be left at the last update."""
        self._expected = NAN
        """The seconds that were expected then, without any damping."""
        self._updated_at = 0.0
        self._expected_since = 0.0
        """When the step was made from which that is counted."""
        self._valid_until = 0.0
        """The time from which on the next step is so late that nothing shrinks any more."""
        self._blocks = StepBlocks()
        self._spread = 0.0
        self._pace = NAN
        """Seconds of a step of the leader at present."""
        self._is_wide = False
        self._last_step = 0

    def update(
        self, leader: RankState, ranks: Ranks, progress: TrainingProgress, plan: Plan
    ) -> None:
        """Take in that the leader (see `find_leader`) has made steps, or begun another phase."""
        training_ranks = [rank for rank in ranks if rank.pace and rank.phase not in FATES]
        if not training_ranks or not progress.steps:
            return
        last_rank = min(training_ranks, key=attrgetter("step"))
        pace = last_rank.pace.means.seconds
        self.take_pace((leader.step,), (leader.seconds,), progress.steps)
        evaluation_seconds = _seconds_of_evaluation(training_ranks, progress)
        checkpoint_seconds = _seconds_of_checkpoint(ranks)
        expected_seconds = max(0, progress.steps - last_rank.step) * pace
        expected_seconds += (progress.epochs - len(progress.evaluations)) * evaluation_seconds
        expected_seconds += _checkpoints_to_come(leader, progress, plan) * checkpoint_seconds
        if last_rank.pace.count < KNOWN or not math.isfinite(expected_seconds):
            return
        now = max(leader.since, leader.stepped_at)
        if math.isnan(self._training_began):
            self._training_began = now - sum(last_rank.pace.last("seconds"))
        seconds_passed = now - self._training_began
        settled_after = SETTLED * (seconds_passed + expected_seconds)
        is_steady = math.isfinite(self._shown) and seconds_passed > settled_after
        step_began = max(leader.since, last_rank.stepped_at)
        if is_steady:
            # What is shown goes on from what was shown before: `left` limits how fast it changes.
            self._shown = self.left(now)
        else:
            self._shown = max(0.0, expected_seconds - (now - step_began))
        if not expected_seconds:  # all steps are made, however long they were expected to take
            self._shown = 0.0
        self._expected = expected_seconds
        self._pace = leader.pace.means.seconds
        self._updated_at = now
        self._expected_since = step_began
        phases = {RankPhase.EVALUATING: evaluation_seconds, RankPhase.SAVING: checkpoint_seconds}
        report_gap = pace if plan.job else last_rank.between
        self._valid_until = now + phases.get(leader.phase, 0.0) + max(WAIT, LATE * report_gap)

    def left(self, now: float) -> float:
        """Return the seconds that are left at this time; NaN if that is not known."""
        if math.isnan(self._shown):
            return NAN
        most_change = max(UNSEEN, CHANGE * self._shown) * max(0.0, now - self._updated_at)
        now = max(self._updated_at, min(now, self._valid_until))
        shown_seconds = self._shown - (now - self._updated_at)
        change = self._expected - (now - self._expected_since) - shown_seconds
        return max(0.0, shown_seconds + min(most_change, max(-most_change, change)))

    def between(self, now: float) -> tuple[float, float]:
        """Return the least and the most seconds that are left: one value if the pace is even.

        A pace that varies for long may be a fast or a slow one just now, so the range reaches as
        far beyond what is left by the mean of all steps so far.
        """
        expected_seconds = self.left(now)
        if not self._is_wide or not self._pace > 0:
            return expected_seconds, expected_seconds
        usual_seconds = expected_seconds * self._blocks.mean / self._pace
        likely_error = usual_seconds * self._spread
        if not math.isfinite(likely_error) or likely_error < WORTH:
            return expected_seconds, expected_seconds
        least = min(expected_seconds, usual_seconds) - likely_error
        most = max(expected_seconds, usual_seconds) + likely_error
        return max(0.0, least), most

    def take_pace(self, steps: Sequence[int], seconds: Sequence[float], steps_of_run: int) -> None:
        """Take in how long steps of the leader took, before `update`, which knows the last one."""
        if not steps_of_run:
            return
        for step, step_seconds in zip(steps, seconds, strict=True):
            if step <= self._last_step or not math.isfinite(step_seconds):
                continue
            is_first = not self._last_step
            self._last_step = step
            if not is_first and self._blocks.append(step_seconds):  # the first one warms up
                self._spread = min(1.0, self._blocks.spread(steps_of_run - step))
                # Two limits, so that a spread between them does not switch the text at every block.
                self._is_wide = self._spread > (NARROW if self._is_wide else WIDE)


def _seconds_of_evaluation(ranks: Ranks, progress: TrainingProgress) -> float:
    """Estimate an evaluation: by those before, else by the work of the slowest rank."""
    if progress.evaluations:
        newest_evaluations = progress.evaluations[-TESTS:]
        total_seconds = sum(evaluation.seconds for evaluation in newest_evaluations)
        return total_seconds / len(newest_evaluations)
    slowest_seconds = max(rank.pace.means.ready for rank in ranks)
    return steps_of_test(progress.begun) * slowest_seconds * TESTING


def _seconds_of_checkpoint(ranks: Ranks) -> float:
    """Estimate a checkpoint by those before; 0 if there was none."""
    slowest = max(ranks, key=attrgetter("saving_seconds"))
    return slowest.saving_seconds / slowest.saved if slowest.saved else 0.0


def _checkpoints_to_come(rank: RankState, progress: TrainingProgress, plan: Plan) -> int:
    """Return how many checkpoints are to come, with the one that is being saved."""
    checkpoint_setting = plan.job.checkpoint_every if plan.job else ""
    if not checkpoint_setting or not progress.begun:
        return 0
    # The setting is a number of steps, or the word "epoch".
    steps_between = progress.begun.steps_per_epoch
    if checkpoint_setting.isdecimal():
        steps_between = int(checkpoint_setting)
    steps_between = max(1, steps_between)
    # Rounded up, since the checkpoint of the last step may come sooner than the setting says.
    num_made = max((rank.step - 1) // steps_between, -(-rank.saved_step // steps_between))
    num_in_all = -(-progress.steps // steps_between)  # there is one at the last step, too
    return max(0, num_in_all - num_made)
