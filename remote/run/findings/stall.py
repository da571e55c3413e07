"""Ranks that make no steps any more: which those are, and by their stacks for whom the others wait.
Pure."""

from __future__ import annotations

from dataclasses import dataclass

from remote.events import Stalled
from remote.plan.plan import Plan
from remote.run.run_state import RunState
from remote.run.state.host_state import FRESH, HostState
from remote.run.state.phases import MEETINGS, HostPhase, RankPhase, RunPhase
from remote.run.state.rank_state import RankState


@dataclass(frozen=True)
class Times:
    """How long ranks may make no step, in seconds."""

    least: float = 30.0
    """Until a rank counts as stalled, however fast its steps are."""
    factor: float = 10.0
    """Of its median step's seconds, for slow ones."""
    compiling: float = 300.0
    """For a first step that compiles the model, an evaluation and a checkpoint."""
    near: float = 3.0
    """By which ranks that wait for each other may come to a halt one after the other."""


TIMES = Times()


# Which ranks --------------------------------------------------------------------------------------


def stalled(run: RunState, now: float, times: Times = TIMES) -> Stalled | None:
    """What is to be said where a rank has come to a halt of which nothing was said yet. `now` is
    the session's clock.

    A rank's silence is measured by what its own host said later: no step in that time, while the
    agent went on telling.
    """
    if run.phase is not RunPhase.TRAINING:  # it is being stopped
        return None
    if not _may_be_late(run, now, times):
        return None
    moved = max((_moved(rank) for rank in run.ranks), default=0.0)
    back = max((host.back for host in run.hosts), default=0.0)
    silences = {
        rank.rank: (silence(rank, host, moved, back), limit(rank, run.plan, times))
        for rank, host in ((rank, run.hosts[rank.host]) for rank in run.ranks)
        if _is_judged(rank, host, run.plan, now)
    }
    late = {rank for rank, (seconds, most) in silences.items() if seconds >= most}
    if not any(not run.ranks[rank].stalled for rank in late):
        return None
    ranks = tuple(
        rank for rank, (seconds, most) in silences.items() if seconds >= most - times.near
    )
    return Stalled(ranks, min(silences[rank][0] for rank in ranks))


def _may_be_late(run: RunState, now: float, times: Times) -> bool:
    """Whether any rank has been silent for as long as the least limit is. This is asked for every
    batch of records, and there may be 1,000 ranks, whose own limits take far longer to tell."""
    least = min(times.least, times.compiling)
    return any(
        host.heard - _moved(rank) >= least and _is_judged(rank, host, run.plan, now)
        for rank, host in ((rank, run.hosts[rank.host]) for rank in run.ranks)
    )


def silence(rank: RankState, host: HostState, moved: float, back: float) -> float:
    """Seconds of its host's telling in which the rank has made no step, nor gone on to another
    phase. One that may wait for the slowest at a meeting has come to a halt only where nobody has
    moved: `moved` is when any rank did last. `back` is when a host was last heard again: all wait
    for its ranks, and then for TCP, which takes up to as long again to go on."""
    since = moved if rank.phase in MEETINGS else _moved(rank)
    return host.heard - max(since, back)


def limit(rank: RankState, plan: Plan, times: Times = TIMES) -> float:
    """Seconds without a step after which the rank counts as stalled."""
    if rank.phase in MEETINGS:
        return max(times.compiling, times.factor * rank.between, _evaluation(rank, plan))
    if not rank.pace:
        return times.compiling if plan.job and plan.job.compile else times.least
    return max(times.least, times.factor * rank.between)


def _moved(rank: RankState) -> float:
    """When it made its last step, or went on to another phase."""
    return max(rank.stepped_at, rank.since)


def _evaluation(rank: RankState, plan: Plan) -> float:
    """Seconds of training on as many samples as the test set has: evaluating takes no backward, so
    it is done before."""
    if not rank.begun or not rank.begun.train_samples:
        return 0.0
    # Where each rank keeps something of its own, each tests that too.
    alone = rank.begun.world_size if _keeps_own_model(plan) else 0
    steps = rank.begun.test_samples / rank.begun.train_samples * rank.begun.steps_per_epoch
    return rank.pace.seconds * steps * (1 + alone)


def _keeps_own_model(plan: Plan) -> bool:
    """Whether each rank keeps a model, or parts of one, for itself."""
    job = plan.job
    return job is not None and (job.batch_norm == "local" or not job.traits().settles)


def _is_judged(rank: RankState, host: HostState, plan: Plan, now: float) -> bool:
    """Only what makes steps at all, where it makes them or meets the others in between, and only
    while its host is heard. A server makes none: where it comes to a halt, so do those that
    train."""
    if host.phase is not HostPhase.READY or now - host.heard > FRESH:
        return False
    if rank.phase is RankPhase.TRAINING:
        return bool(rank.pace) or plan.job is not None  # a script may print none
    return rank.phase in MEETINGS and bool(rank.pace)


def complete(run: RunState) -> bool:
    """Whether the stacks of all ranks that live have come since the stall began."""
    since = run.stall.since if run.stall else 0.0
    return all(rank.stack_time >= since for rank in run.ranks if rank.exited is None)
