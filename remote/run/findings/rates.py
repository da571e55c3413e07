"""How fast the ranks of a run are, by their last steps. Pure."""

from __future__ import annotations

from remote.run.run_state import RunState
from remote.run.series.step_times import Means, join_means
from remote.run.state.once_per_state import once_per_state
from remote.run.state.phases import FATES, RunPhase
from remote.run.state.rank_state import RankState


@once_per_state
def step_means(run: RunState) -> Means:
    """Return the means over the last steps of all ranks; once the run has ended, over all steps
    but the first.

    All that is shown of a run's steps beside each other is of these.
    """
    if run.phase is RunPhase.ENDED:
        return run.means
    recent_means = [rank.pace.means for rank in run.ranks]
    return join_means(recent_means, are_apart=run.trains_apart)


def live_means(run: RunState) -> Means:
    """Return the same as `step_means`, but nothing of ranks that have come to a halt, whose last
    steps say nothing of now."""
    return Means() if is_halted(run) else step_means(run)


def is_halted(run: RunState) -> bool:
    """Return True if a stall holds up a run that has not ended."""
    return run.stall is not None and run.phase is not RunPhase.ENDED


def describe_staleness(run: RunState) -> str:
    """Return of when the speed of a run is that has come to a halt or failed; "" of others."""
    if is_halted(run):
        return "before the stall"
    return "before the failure" if run.phase is RunPhase.ENDED and run.cause else ""


def rank_means(rank: RankState) -> Means:
    """Return the means over the last steps of a rank; of one that has ended, over all steps but the
    first."""
    return rank.timing.warm if rank.phase in FATES else rank.pace.means


def busy_seconds(rank: RankState) -> float:
    """Return how long a rank is busy in a step, without waits for others: the median of its last
    steps; of a rank that has ended, the mean of all but the first."""
    return rank_means(rank).ready if rank.phase in FATES else rank.pace.median("ready")
