"""Finds why ranks make no steps any more: by their stacks, for whom the others wait. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from remote.events import Stalled
from remote.format import duration, ranks_text
from remote.run.diagnosis.meeting_point import describe_failed_connections
from remote.run.diagnosis.stacks import ON_GPU, Presence, Whereabouts, locate_rank, split_threads
from remote.run.state.host_state import Hosts
from remote.run.state.phases import MEETINGS
from remote.run.state.rank_state import Ranks, RankState
from remote.run.state.script_rank import ScriptRank
from remote.run.state.types import Cause, Stall
from training.wire.host_events import Stack

FRAMES = 20
"""Lines of its stack that are kept of the rank for which a run was stopped."""
MOST_NAMED = 3
"""Ranks that are blamed one by one."""

ENDED = Whereabouts(Presence.ENDED, "")
Places = Mapping[int, Whereabouts]
"""By rank, what its stack says."""


def begin_stall(ranks: Ranks, event: Stalled, when: float) -> Stall:
    """Return the stall that was just found, of which nobody knows the cause yet."""
    names = ranks_text(event.ranks)
    is_single = len(event.ranks) == 1
    verb = "has" if is_single else "have"
    phases = {ranks[rank].phase for rank in event.ranks}
    phase_text = f" while {min(phases)}" if len(phases) == 1 and phases <= MEETINGS else ""
    stall_text = f"{names} {verb} made no step for {duration(event.seconds)}{phase_text}"
    fact = f"{names} {'makes' if is_single else 'make'} no steps{phase_text}"
    since = when - event.seconds
    return Stall(event.ranks, since, event.seconds, text=stall_text, facts=(fact,))


def explain_stall(stall: Stall, ranks: Ranks, hosts: Hosts) -> Stall:
    """Return the stall with what the stacks say that were taken since it began."""
    places = _locate_ranks(stall, ranks)
    if not places:
        return stall
    facts = list_stall_facts(
        places,
        _find_silent(ranks, places),
        _name_ranks(ranks, hosts),
        describe_failed_connections(ranks, hosts),
    )
    return replace(
        stall,
        culprits=find_culprits(places),
        stopped=_ranks_at(places, Presence.STOPPED),
        text="; ".join(facts),
        facts=tuple(facts),
    )


def lacks_stacks(stall: Stall, ranks: Ranks) -> bool:
    """Return True if ranks live of which no stack has come since the stall began."""
    return bool(_find_silent(ranks, _locate_ranks(stall, ranks)))


def _locate_ranks(stall: Stall, ranks: Ranks) -> Places:
    """Return where ranks are, by the stacks that were taken since the stall began."""
    places = {
        rank.rank: _locate(rank, rank.stack)
        for rank in _find_living(ranks)
        if rank.stack and rank.stack_time >= stall.since
    }
    if not places:
        return {}
    # Others may wait for a rank that has ended well before its first step. It has no stack.
    return places | {rank: ENDED for rank in stall.ranks if _has_ended_early(ranks[rank])}


def _find_living(ranks: Ranks) -> list[RankState]:
    # A rank that has exited leaves its last stack, which says nothing of the stall.
    return [rank for rank in ranks if rank.exited is None]


def _find_silent(ranks: Ranks, places: Places) -> list[int]:
    """Return the ranks of which no stack has come."""
    return [rank.rank for rank in _find_living(ranks) if rank.rank not in places]


def _name_ranks(ranks: Ranks, hosts: Hosts) -> dict[int, str]:
    return {rank.rank: f"rank {rank.rank} on {hosts[rank.host].name}" for rank in ranks}


def _has_ended_early(rank: RankState) -> bool:
    return isinstance(rank, ScriptRank) and rank.has_ended_well and not rank.pace


def _locate(rank: RankState, stack: Stack) -> Whereabouts:
    """Return where the rank is: by its own word if it has said so, else by its stack."""
    place = locate_rank(stack)
    if not isinstance(rank, ScriptRank) or not rank.meeting:
        return place
    # One that was stopped there keeps the others waiting, whatever it said before.
    if place.presence is Presence.STOPPED:
        return Whereabouts(Presence.STOPPED, place.where or rank.meeting)
    return Whereabouts(Presence.INSIDE, rank.meeting)


def as_death(
    stall: Stall,
    ranks: Ranks,
    hosts: Hosts,
    reason: str,
    when: float,
) -> Cause:
    """Return the stall as what a run ends of that is stopped for this reason because of it."""
    # Without a culprit, the first rank that has stalled stands for all.
    rank = ranks[(*stall.culprits, *stall.ranks)[0]]
    threads = split_threads(rank.stack.text)[1:] if rank.stack else []
    main_frames = threads[0] if threads else []
    problem = reason
    if stall.culprits and reason == stall.text:
        # The cause names this rank in fields of its own.
        rank_names = _name_ranks(ranks, hosts) | {rank.rank: ""}
        places = _locate_ranks(stall, ranks)
        problem = "; ".join(list_stall_facts(places, _find_silent(ranks, places), rank_names))
    return Cause(
        hosts[rank.host].name,
        rank.rank,
        f"stalled: {problem}",
        rank.step,
        may_be_later=rank.holds_steps_back,
        tail=tuple(main_frames[:FRAMES]),
        time=when,
    )


def find_culprits(places: Places) -> tuple[int, ...]:
    """Return the ranks that all others wait for.

    These are the ranks that are stopped or have ended, and those that are not inside a collective
    while others are; if there are none, those that could not tell.
    """
    blamed_ranks = _ranks_at(places, Presence.STOPPED) + _ranks_at(places, Presence.ENDED)
    if _ranks_at(places, Presence.INSIDE):
        # Only if others wait: ranks of which none is in a collective may just be slow.
        blamed_ranks += _ranks_at(places, Presence.ELSEWHERE)
        blamed_ranks = blamed_ranks or _ranks_at(places, Presence.UNKNOWN)
    return tuple(sorted(blamed_ranks))


def _ranks_at(places: Places, presence: Presence) -> tuple[int, ...]:
    return tuple(rank for rank, place in sorted(places.items()) if place.presence is presence)


def list_stall_facts(
    places: Places,
    missing: Iterable[int],
    names: Mapping[int, str],
    failed_connections: str = "",
) -> list[str]:
    """Return who is not inside a collective and where it is, then who waits for it.

    If nobody is to blame: what else the stacks come to. `missing` are ranks without a stack,
    `names` what each rank is called. A culprit that is called "" is not named.
    `failed_connections` says which hosts cannot connect to where the ranks meet.
    """
    without_stack = tuple(sorted(missing))
    waiting_ranks = _ranks_at(places, Presence.INSIDE)
    culprits = find_culprits(places)
    unheard = [f"no stack came from {ranks_text(without_stack)}"] if without_stack else []
    if culprits:
        facts = [_describe_culprits(places, culprits, names)]
        if waiting_ranks:
            pronoun = "it" if len(culprits) == 1 else "them"
            facts.append(_describe_waiting(places, waiting_ranks, f" for {pronoun}"))
        return facts + unheard
    if waiting_ranks and without_stack:
        first_missing = without_stack[0]
        subject = names[first_missing] if len(without_stack) == 1 else ranks_text(without_stack)
        waiting_text = _describe_waiting(places, waiting_ranks, "")
        return [waiting_text, f"no stack came from {subject}"]
    if waiting_ranks:
        return _describe_all_inside(places, waiting_ranks, failed_connections)
    place_texts = "; ".join(_group_by_place(places, tuple(sorted(places))))
    if without_stack:  # which may be inside one
        return [place_texts, *unheard]
    return [f"no rank is seen inside a collective: {place_texts}"]


def _describe_all_inside(
    places: Places, ranks: tuple[int, ...], failed_connections: str
) -> list[str]:
    place_texts = _group_by_place(places, ranks)
    if len(place_texts) > 1:
        return [f"all ranks are inside collectives, but not the same: {'; '.join(place_texts)}"]
    if all(places[rank].where == ON_GPU for rank in ranks):
        return [
            f"each rank waits for {ON_GPU}: do nvidia-smi and dmesg show a failure, and "
            "does the network still work?"
        ]
    return [
        f"all ranks are inside a collective, none is missing: {place_texts[0]}",
        failed_connections or "does the network between them still work?",
    ]


def _describe_culprits(places: Places, culprits: tuple[int, ...], names: Mapping[int, str]) -> str:
    if len(culprits) > MOST_NAMED:
        place_texts = "; ".join(_group_by_place(places, culprits))
        return f"{ranks_text(culprits)} are not inside a collective: {place_texts}"
    return "; ".join(_describe_culprit(places[rank], names[rank]) for rank in culprits)


def _describe_culprit(place: Whereabouts, name: str) -> str:
    verb, accusation = _accuse(place)
    return f"{name} {verb} {accusation}" if name else accusation


def _accuse(place: Whereabouts) -> tuple[str, str]:
    """Return the verb and the rest of a sentence about a rank that others wait for."""
    if place.presence is Presence.ENDED:
        return "has", "ended with exit code 0"
    if place.presence is Presence.STOPPED:
        accusation = "stopped, by SIGSTOP or a debugger"
        return "is", f"{accusation}, in {place.where}" if place.where else accusation
    if place.program:
        return "is", f"perhaps not inside a collective: it runs {place.program}"
    if place.presence is Presence.UNKNOWN:
        problem = f"it reports no Python stack ({place.where})"
        return "is", f"perhaps not inside a collective: {problem}"
    return "is", f"not inside a collective: it is in {place.where}"


def _describe_waiting(places: Places, waiting_ranks: tuple[int, ...], for_whom: str) -> str:
    collectives = " or ".join(dict.fromkeys(places[rank].where for rank in waiting_ranks))
    verb = "waits" if len(waiting_ranks) == 1 else "wait"
    return f"{ranks_text(waiting_ranks)} {verb}{for_whom} in {collectives}"


def _group_by_place(places: Places, ranks: tuple[int, ...]) -> list[str]:
    """Return ranks in the same place together, as "ranks 0 and 1 in all_reduce"."""
    ranks_of_place: dict[str, list[int]] = {}
    for rank in ranks:
        place_text = places[rank].where or places[rank].presence.value
        ranks_of_place.setdefault(place_text, []).append(rank)
    return [
        f"{ranks_text(group_ranks)} in {place_text}"
        for place_text, group_ranks in ranks_of_place.items()
    ]
