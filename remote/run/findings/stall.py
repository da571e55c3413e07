"""Finds ranks that make no steps any more. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from remote.events import Stalled
from remote.plan.plan import Plan
from remote.run.diagnosis.stacks import Presence, locate_rank
from remote.run.findings.start_halt import StartHalt, find_start_halt
from remote.run.run_state import RunState
from remote.run.state.host_state import FRESH, Hosts, HostState
from remote.run.state.phases import FATES, MEETINGS, HostPhase, RankPhase, RunPhase
from remote.run.state.progress import steps_of_test
from remote.run.state.rank_state import RankState
from remote.run.state.script_rank import ScriptRank


@dataclass(frozen=True)
class StallLimits:
    """How long ranks may make no step, in seconds. `stall_limit` says which one counts."""

    least: float = 30.0
    """The limit of a rank whose steps are fast."""
    factor: float = 10.0
    """For slow steps, the limit as a multiple of the median step."""
    compiling: float = 300.0
    """For a first step that compiles the model, an evaluation and a checkpoint."""
    joining: float = 60.0
    """For ranks of a script that wait for others before the first step."""
    near: float = 3.0
    """Ranks that wait for each other come to a halt within so many seconds."""


STALL_LIMITS = StallLimits()


def find_stall(run: RunState, now: float, limits: StallLimits = STALL_LIMITS) -> Stalled | None:
    """Return the ranks that have stalled, or None if there are none that were not reported yet.

    `now` is by the session's clock. The silence of a rank is measured by what its own host
    reported later: no step in that time, while the agent went on reporting.
    """
    if run.phase is not RunPhase.TRAINING:  # it is being stopped
        return None
    halted_start = _find_halted_start(run, now, limits)
    if halted_start:
        return halted_start
    judged_ranks = [
        rank for rank in run.ranks if _is_judged(rank, run.hosts[rank.host], run.plan, now)
    ]
    exchanging_ranks = _list_exchanging(run, now)
    if any(map(_is_seen_waiting, exchanging_ranks)):
        judged_ranks += exchanging_ranks
    # This is asked for every batch of records. There may be 1,000 ranks, whose limits take far
    # longer to compute than it takes to see that one of them has just moved.
    if not any(_has_been_still(rank, run.hosts[rank.host], limits.near) for rank in judged_ranks):
        return None
    last_move = max(map(_moved_at, run.ranks))
    last_return = max(host.back for host in run.hosts)
    silence_of_rank: dict[int, float] = {}
    has_new = False
    for rank in judged_ranks:
        silence = measure_silence(rank, run.hosts[rank.host], last_move, last_return)
        limit = stall_limit(rank, run.plan, limits)
        # Ranks that were named before stay so: only a new one makes it news.
        has_new = has_new or (silence >= limit and not rank.stalled)
        # Ranks that wait for each other stop within moments: name all of them at once.
        if silence >= limit - limits.near:
            silence_of_rank[rank.rank] = silence
    return Stalled(tuple(silence_of_rank), min(silence_of_rank.values())) if has_new else None


def _find_halted_start(run: RunState, now: float, limits: StallLimits) -> Stalled | None:
    """Return the ranks of a script that have come to a halt before the first step.

    These are the ranks that wait for others, and those that they wait for.
    """
    halt = find_start_halt(run)
    if not halt or all(rank.stalled for rank in halt.ranks):
        return None
    halted_hosts = [run.hosts[rank.host] for rank in halt.ranks]
    if not all(_is_heard(host, now) for host in halted_hosts):
        return None
    heard = min(host.heard for host in halted_hosts)
    # A rank that a signal has stopped is not busy with anything.
    is_halted = bool(halt.find_stopped(limits.least))
    if not is_halted and not halt.may_compute:
        silence = heard - _find_last_activity(halt, halted_hosts)
        # Ranks that load their data for minutes may need some minutes more than the quickest one.
        seconds_of_quickest = min(_measure_start(run, rank) for rank in halt.waiting)
        is_halted = silence >= max(limits.joining, seconds_of_quickest)
    if not is_halted:
        return None
    return Stalled(tuple(rank.rank for rank in halt.ranks), heard - halt.since)


def _find_last_activity(halt: StartHalt, hosts: Hosts) -> float:
    """Return when ranks that wait before the first step were last seen doing something."""
    if halt.has_late:
        return halt.since
    # All are inside a function. It takes its time where it sends a large model over a slow network,
    # or imports a part of torch from a slow disk.
    last_traffic = max(max(host.traffic_at, host.back) for host in hosts)
    return max(halt.since, last_traffic, halt.find_last_import())


def _measure_start(run: RunState, rank: RankState) -> float:
    """Return how long a rank has taken from the start of its program to its phase."""
    process = run.processes[rank.process] if rank.process >= 0 else rank
    return rank.since - process.spawned_at if process.spawned_at else 0.0


def find_silent_exchange(
    run: RunState, now: float, limits: StallLimits = STALL_LIMITS
) -> float | None:
    """Return the time from which on a rank that makes no steps has exchanged nothing for too long;
    None if there is no such rank. Of several, it is that of the last one to fall silent.

    Only their stacks tell if they wait for each other: they may be computing.
    """
    silent_since = None
    for rank in _list_exchanging(run, now) if run.phase is RunPhase.TRAINING else ():
        host = run.hosts[rank.host]
        silence = host.heard - max(_moved_at(rank), host.back)
        if silence >= stall_limit(rank, run.plan, limits):
            silent_since = max(silent_since or 0.0, _moved_at(rank))
    return silent_since


def _list_exchanging(run: RunState, now: float) -> list[ScriptRank]:
    """Return the ranks that live and are heard, and of which only collectives are seen."""
    return [
        rank
        for rank in run.exchanging_ranks
        if rank.phase is RankPhase.TRAINING and _is_heard(run.hosts[rank.host], now)
    ]


def _is_seen_waiting(rank: RankState) -> bool:
    """Return True if a rank that makes no steps waits for others, by a stack of its silence."""
    if not rank.stack or rank.stack_time < _moved_at(rank):
        return False
    return locate_rank(rank.stack).presence is Presence.INSIDE


def measure_silence(
    rank: RankState, host: HostState, last_move: float, last_return: float
) -> float:
    """Return the seconds since the rank last made progress, by its host's clock.

    A rank that may wait for the slowest one in an evaluation or a checkpoint has come to a halt
    only if no rank has moved: `last_move` is when any did last. `last_return` is when a host was
    last heard again: all wait for its ranks, and then for TCP, which takes up to as long again.
    """
    moved_at = last_move if rank.phase in MEETINGS else _moved_at(rank)
    return host.heard - max(moved_at, last_return)


def stall_limit(rank: RankState, plan: Plan, limits: StallLimits = STALL_LIMITS) -> float:
    """Return the seconds without a step after which the rank counts as stalled."""
    if rank.phase in MEETINGS:
        expected_seconds = _estimate_evaluation(rank, plan)
        return max(limits.compiling, limits.factor * rank.between, expected_seconds)
    # Before its first step, nobody knows how long one takes.
    if not rank.pace:
        if rank.only_exchanges:
            return max(limits.least, limits.factor * rank.between)
        is_compiling = plan.job is not None and plan.job.compile
        return limits.compiling if is_compiling else limits.least
    return max(limits.least, limits.factor * rank.between)


def has_all_stacks(run: RunState) -> bool:
    """Return True if the stacks of all ranks that live have come since the stall began."""
    stall_began = run.stall.since if run.stall else 0.0
    return all(
        rank.stack_time >= stall_began
        for rank in run.ranks
        if rank.exited is None and not (rank.process >= 0 and not rank.pid)
    )


def waits_for_culprit(rank: RankState, run: RunState) -> bool:
    """Return True if the rank has stalled because it waits for others, which are known."""
    if not run.stall or not rank.stalled or rank.phase in FATES:
        return False
    return bool(run.stall.culprits) and rank.rank not in run.stall.culprits


def rank_word(rank: RankState, run: RunState) -> str:
    """Return what a rank does, in a word: of a stall, whether it holds others up or waits."""
    if waits_for_culprit(rank, run):
        return RankPhase.WAITING.value
    is_halted = rank.doing == "stalled" and run.stall and rank.rank in run.stall.stopped
    return "halted" if is_halted else rank.doing


def _moved_at(rank: RankState) -> float:
    """Return when the rank made its last step, or entered another phase."""
    return max(rank.stepped_at, rank.since)


def _has_been_still(rank: RankState, host: HostState, seconds: float) -> bool:
    return host.heard - _moved_at(rank) >= seconds


def _estimate_evaluation(rank: RankState, plan: Plan) -> float:
    """Return the seconds of training on as many samples as the test set has.

    Evaluating takes no backward pass, so it is done before.
    """
    job = plan.job
    num_tests = 1
    # Where each rank keeps a model or statistics of its own, each tests those as well.
    if job and (job.batch_norm == "local" or not job.traits().settles):
        num_tests += plan.world_size
    return rank.pace.seconds * steps_of_test(rank.begun) * num_tests


def _is_judged(rank: RankState, host: HostState, plan: Plan, now: float) -> bool:
    """Return True if the rank should be making steps now, and its host is heard.

    A parameter server makes none: if it comes to a halt, so do the ranks that train.
    """
    if not _is_heard(host, now):
        return False
    if rank.phase is RankPhase.TRAINING:
        return bool(rank.pace) or plan.job is not None  # a script may report no steps at all
    return rank.phase in MEETINGS and bool(rank.pace)


def _is_heard(host: HostState, now: float) -> bool:
    return host.phase is HostPhase.READY and now - host.heard <= FRESH
