"""How fast the ranks of a run are, by their last steps. Pure."""

from __future__ import annotations

from remote.run.run_state import RunState
from remote.run.series.step_times import NAN, Means, join_means
from remote.run.state.phases import RunPhase
from remote.run.state.script_rank import unknown_if_zero


def step_means(run: RunState) -> Means:
    """Return the means over the last steps of all ranks; once the run has ended, over all steps
    but the first.

    All that is shown of a run's steps beside each other is of these.
    """
    if run.phase is RunPhase.ENDED:
        return run.means
    recent_means = [rank.pace.means for rank in run.ranks]
    return join_means(recent_means, are_apart=run.trains_apart)


def throughput(run: RunState) -> float:
    """Return the samples per second of all ranks; NaN if it is unknown.

    It is their mean if each trains a model of its own.
    """
    samples_per_second = _sum_rates(run, "samples")
    return samples_per_second / _count_rates(run) if run.trains_apart else samples_per_second


def sync_share(run: RunState) -> float:
    """Return the share of the last steps that ranks waited for others; NaN if it is unknown."""
    return _sum_rates(run, "sync") / _count_rates(run)


def bytes_per_second(run: RunState) -> float:
    """Return the bytes per second that the sync methods of all ranks send; NaN if unknown."""
    return _sum_rates(run, "bytes_sent")


def _sum_rates(run: RunState, figure: str) -> float:
    rank_rates = [rank.pace.per_second(figure) for rank in run.ranks if rank.pace]
    if not rank_rates:
        return NAN
    return sum(rank_rates) if run.plan.job else unknown_if_zero(sum(rank_rates))


def _count_rates(run: RunState) -> int:
    """Count the ranks that have made a step, at least 1."""
    return max(1, sum(bool(rank.pace) for rank in run.ranks))
