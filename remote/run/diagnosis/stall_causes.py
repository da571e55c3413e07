"""Why ranks make no steps any more: by their stacks, for whom the others wait. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from remote.events import Stalled
from remote.format import duration, ranks_text
from remote.run.diagnosis.stacks import ON_GPU, Presence, Whereabouts, threads, whereabouts
from remote.run.state.host_state import HostState
from remote.run.state.phases import MEETINGS
from remote.run.state.rank_state import RankState
from remote.run.state.types import Death, Evidence, Stall
from training.wire.events import Stack

FRAMES = 20
"""Lines of its stack that are told of the rank for which a run was stopped."""


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


def begin(ranks: Sequence[RankState], said: Stalled, when: float) -> Stall:
    """The stall that was just found; nobody knows why yet."""
    verb = "has" if len(said.ranks) == 1 else "have"
    phases = {ranks[rank].phase for rank in said.ranks}
    during = f" while {min(phases)}" if len(phases) == 1 and phases <= MEETINGS else ""
    text = f"{ranks_text(said.ranks)} {verb} made no step for {duration(said.seconds)}{during}"
    return Stall(said.ranks, when - said.seconds, said.seconds, text=text)


def explained(stall: Stall, ranks: Sequence[RankState], hosts: Sequence[HostState]) -> Stall:
    """The stall with what the stacks say that were taken since it began."""
    alive = [rank for rank in ranks if rank.exited is None]
    stacks = {
        rank.rank: rank.stack for rank in alive if rank.stack and rank.stack_time >= stall.since
    }
    if not stacks:
        return stall
    missing = [rank.rank for rank in alive if rank.rank not in stacks]
    found = {rank: whereabouts(stack) for rank, stack in stacks.items()}
    where = {rank.rank: f"rank {rank.rank} on {hosts[rank.host].name}" for rank in ranks}
    why = in_words(found, missing, where)
    return replace(stall, culprits=_culprits(found), text=why)


def death(
    stall: Stall,
    ranks: Sequence[RankState],
    hosts: Sequence[HostState],
    reason: str,
    when: float,
) -> Death:
    """The stall as what a run ends of that is stopped because of it."""
    rank = ranks[(*stall.culprits, *stall.ranks)[0]]
    last = (
        tuple(line for thread in threads(rank.stack.text)[1:2] for line in thread)
        if rank.stack
        else ()
    )
    what = f"stalled: {reason.removeprefix(f'rank {rank.rank} on {hosts[rank.host].name} is ')}"
    return Death(
        hosts[rank.host].name, rank.rank, when, Evidence.OWN, what, rank.step, last[:FRAMES]
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
