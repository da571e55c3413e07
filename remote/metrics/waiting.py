"""Who waited for whom: at each step all ranks wait for the one whose last gradient came last."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from remote.metrics.steps import Floats, Ints, StepTable

NOBODY = -1


@dataclass(frozen=True, eq=False)
class WaitTimes:
    """How long ranks waited for each other.

    A rank waits no longer than it was blocked on others, so what was hidden behind its own work
    does not count.
    """

    ranks: tuple[int, ...]
    """The columns."""
    step: Ints
    """The steps that all ranks made."""
    last: Ints
    """The rank for which the others waited at each step, or `NOBODY`."""
    seconds: Floats
    """Steps x ranks: how long each rank waited."""
    share: float
    """The share of a step that a rank other than the last one waited, on average; NaN without
    steps."""

    def for_whom(self) -> Floats:
        """Return seconds in total as ranks x ranks: how long the rank of a row waited for the rank
        of a column."""
        wait_totals = np.zeros((len(self.ranks), len(self.ranks)))
        for column, rank in enumerate(self.ranks):
            wait_totals[:, column] = self.seconds[self.last == rank].sum(axis=0)
        return wait_totals

    def last_shares(self) -> dict[int, float]:
        """Return for each rank the share of the steps at which it was the last one."""
        num_steps = max(1, len(self.last))
        return {rank: float((self.last == rank).sum()) / num_steps for rank in self.ranks}


def measure_waits(steps: StepTable) -> WaitTimes:
    """Return who waited for whom, of ranks that wait for each other.

    If they do so every few steps only, the steps since the last time count together.
    """
    ranks = steps.ranks
    step_numbers, ready = _finite_matrix(steps, "ready")
    _, seconds = _finite_matrix(steps, "seconds")
    _, sync = _finite_matrix(steps, "sync")
    if len(ranks) < 2 or not len(step_numbers):
        no_waits = np.zeros((len(step_numbers), len(ranks)))
        return WaitTimes(
            ranks, step_numbers, np.full(len(step_numbers), NOBODY), no_waits, float("nan")
        )
    # Ranks that had nothing to wait for did not meet at that step.
    have_met = sync.max(axis=1) > 0
    busy_seconds = ready + _seconds_since_met(seconds, have_met)
    behind_last = busy_seconds.max(axis=1, keepdims=True) - busy_seconds
    wait_seconds = np.where(have_met[:, None], np.minimum(behind_last, sync), 0.0)
    slowest_ranks = np.array(ranks)[busy_seconds.argmax(axis=1)]
    last_ranks = np.where(have_met, slowest_ranks, NOBODY)
    # At each step, all ranks but the last one may have waited all the time.
    possible_seconds = seconds.mean(axis=1).sum() * (len(ranks) - 1)
    share = float(wait_seconds.sum() / possible_seconds) if possible_seconds > 0 else float("nan")
    return WaitTimes(ranks, step_numbers, last_ranks, wait_seconds, share)


def _finite_matrix(steps: StepTable, column: str) -> tuple[Ints, Floats]:
    """Return the steps that all ranks made, and a column of them with 0 for what is not finite."""
    step_numbers, values = steps.matrix(column)
    return step_numbers, np.nan_to_num(values, posinf=0.0, neginf=0.0)


def _seconds_since_met(seconds: Floats, have_met: NDArray[np.bool_]) -> Floats:
    """Return the seconds of whole steps since the ranks last waited for each other, before each
    step."""
    # With a row of zeros first, row i is the total before step i.
    total_before = np.vstack([np.zeros(seconds.shape[1]), np.cumsum(seconds, axis=0)])
    meetings = np.where(have_met, np.arange(1, len(have_met) + 1), 0)
    last_meeting = np.maximum.accumulate(np.r_[0, meetings])
    return total_before[:-1] - total_before[last_meeting[:-1]]
