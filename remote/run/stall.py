"""Ranks that make no steps any more: which those are, and by their stacks for whom the others wait.
Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from remote.events import Stalled
from remote.format import duration, ranks_text
from remote.plan.plan import Plan
from remote.run.cause import Death, Evidence
from remote.run.host import HostState
from remote.run.phases import HostPhase, RankPhase, RunPhase
from remote.run.progress import Stall
from remote.run.rank import RankState
from remote.run.run import Run
from remote.run.stacks import ON_GPU, Presence, Whereabouts, threads, whereabouts
from training.wire.events import Stack

MEETINGS = frozenset({RankPhase.EVALUATING, RankPhase.SAVING})
"""The phases between steps, which end for all ranks together."""
FRESH = 5.0
"""Seconds since a host was heard up to which its ranks are judged: a live agent samples its host
each second."""
FRAMES = 20
"""Lines of its stack that are told of the rank for which a run was stopped."""


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


def stalled(run: Run, now: float, times: Times = TIMES) -> Stalled | None:
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


def _may_be_late(run: Run, now: float, times: Times) -> bool:
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


# For whom they wait -------------------------------------------------------------------------------


def culprits(stacks: Mapping[int, Stack]) -> tuple[int, ...]:
    """The ranks that are not inside a collective while others are; those that are stopped; where
    there are neither, those that could not tell."""
    return _culprits({rank: whereabouts(stack) for rank, stack in stacks.items()})


def _culprits(found: Mapping[int, Whereabouts]) -> tuple[int, ...]:
    some = bool(_of(found, Presence.INSIDE))
    away = (*_of(found, Presence.STOPPED), *(_of(found, Presence.ELSEWHERE) if some else ()))
    return tuple(sorted(away or (_of(found, Presence.UNKNOWN) if some else ())))


def _of(found: Mapping[int, Whereabouts], presence: Presence) -> tuple[int, ...]:
    return tuple(rank for rank, one in sorted(found.items()) if one.presence is presence)


def begin(run: Run, said: Stalled, when: float) -> Stall:
    """The stall that was just found; nobody knows why yet."""
    verb = "has" if len(said.ranks) == 1 else "have"
    phases = {run.ranks[rank].phase for rank in said.ranks}
    during = f" while {min(phases)}" if len(phases) == 1 and phases <= MEETINGS else ""
    text = f"{ranks_text(said.ranks)} {verb} made no step for {duration(said.seconds)}{during}"
    return Stall(said.ranks, when - said.seconds, said.seconds, text=text)


def explained(run: Run, stall: Stall) -> Stall:
    """The stall with what the stacks say that were taken since it began."""
    alive = [rank for rank in run.ranks if rank.exited is None]
    stacks = {
        rank.rank: rank.stack for rank in alive if rank.stack and rank.stack_time >= stall.since
    }
    if not stacks:
        return stall
    missing = [rank.rank for rank in alive if rank.rank not in stacks]
    found = {rank: whereabouts(stack) for rank, stack in stacks.items()}
    where = {rank.rank: f"rank {rank.rank} on {run.hosts[rank.host].name}" for rank in run.ranks}
    why = in_words(found, missing, where)
    return replace(stall, culprits=_culprits(found), text=why)


def complete(run: Run) -> bool:
    """Whether the stacks of all ranks that live have come since the stall began."""
    since = run.stall.since if run.stall else 0.0
    return all(rank.stack_time >= since for rank in run.ranks if rank.exited is None)


def death(run: Run, reason: str, when: float) -> Death | None:
    """The stall as what a run ends of that is stopped because of it; None where there is none."""
    if not run.stall:
        return None
    rank = run.ranks[(*run.stall.culprits, *run.stall.ranks)[0]]
    last = (
        tuple(line for thread in threads(rank.stack.text)[1:2] for line in thread)
        if rank.stack
        else ()
    )
    what = f"stalled: {reason.removeprefix(f'rank {rank.rank} on {run.host_name(rank.host)} is ')}"
    return Death(
        run.host_name(rank.host), rank.rank, when, Evidence.OWN, what, rank.step, last[:FRAMES]
    )


def in_words(
    found: Mapping[int, Whereabouts], missing: Iterable[int], names: Mapping[int, str]
) -> str:
    """Who is not inside a collective, where it is, and who waits for it; or what else the stacks
    come to."""
    silent = tuple(sorted(missing))
    inside = _of(found, Presence.INSIDE)
    blamed = _culprits(found)
    waits = f"; {_waiting(found, inside, 'it' if len(blamed) == 1 else 'them')}" if inside else ""
    unheard = f"; no stack came from {ranks_text(silent)}" if silent else ""
    if blamed:
        return f"{_blamed(found, blamed, names)}{waits}{unheard}"
    if inside and silent:
        who = names[silent[0]] if len(silent) == 1 else ranks_text(silent)
        return f"{_waiting(found, inside, '')}; no stack came from {who}"
    if inside:
        places = _grouped(found, inside)
        if len(places) > 1:
            return f"all ranks are inside collectives, but not the same: {'; '.join(places)}"
        if all(found[rank].where == ON_GPU for rank in inside):
            return (
                f"each rank waits for {ON_GPU}: do nvidia-smi and dmesg show a failure, and "
                "does the network still work?"
            )
        return (
            f"all ranks are inside a collective, none is missing: {places[0]}; does the network "
            "between them still work?"
        )
    return (
        "no rank is seen inside a collective: "
        f"{'; '.join(_grouped(found, tuple(sorted(found))))}{unheard}"
    )


def _blamed(
    found: Mapping[int, Whereabouts], blamed: tuple[int, ...], names: Mapping[int, str]
) -> str:
    if len(blamed) > 3:
        return (
            f"{ranks_text(blamed)} are not inside a collective: "
            f"{'; '.join(_grouped(found, blamed))}"
        )
    return "; ".join(_accusation(found[rank], names[rank]) for rank in blamed)


def _accusation(one: Whereabouts, name: str) -> str:
    match one.presence:
        case Presence.STOPPED:
            return f"{name} is stopped, by SIGSTOP or a debugger" + (
                f", in {one.where}" if one.where else ""
            )
        case Presence.UNKNOWN:
            return (
                f"{name} is perhaps not inside a collective: it reports no Python stack "
                f"({one.where})"
            )
    return f"{name} is not inside a collective: it is in {one.where}"


def _waiting(found: Mapping[int, Whereabouts], inside: tuple[int, ...], whom: str) -> str:
    places = " or ".join(dict.fromkeys(found[rank].where for rank in inside))
    verb = "waits" if len(inside) == 1 else "wait"
    return f"{ranks_text(inside)} {verb}{' for ' if whom else ''}{whom} in {places}"


def _grouped(found: Mapping[int, Whereabouts], ranks: tuple[int, ...]) -> list[str]:
    """Ranks in the same place together, as "ranks 0 and 1 in all_reduce"."""
    places: dict[str, list[int]] = {}
    for rank in ranks:
        places.setdefault(found[rank].where or found[rank].presence.value, []).append(rank)
    return [f"{ranks_text(group)} in {place}" for place, group in places.items()]
