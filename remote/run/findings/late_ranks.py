"""Finds the ranks of a script for which others wait before the first step. Pure."""

from __future__ import annotations

from msgspec import Struct

from remote.format import ranks_text
from remote.run.diagnosis.stacks import Presence, locate_rank
from remote.run.run_state import RunState
from remote.run.state.phases import RankPhase
from remote.run.state.script_rank import ScriptRank


class LateRanks(Struct, frozen=True):
    """Ranks of a script that have not come where others wait for them."""

    late: tuple[ScriptRank, ...]
    waiting: tuple[ScriptRank, ...]
    call: str
    """The function of torch in which the others wait."""
    since: float
    """When the wait began."""

    def describe_late(self) -> str:
        """Return who is late, and for what: "rank 1 had not called init_process_group"."""
        return f"{ranks_text([rank.rank for rank in self.late])} had not called {self.call}"

    def describe_activity(self, rank: ScriptRank) -> str:
        """Return what a late rank does, as a stack from during the wait shows; else "".

        Such as "is in train.py:41, load" or "runs bash -c …: sleep 600".
        """
        if rank.exited:
            return "has ended with exit code 0"
        if not rank.stack or rank.stack_time < self.since:
            return ""
        place = locate_rank(rank.stack)
        if place.program:
            return f"runs {place.program}"
        if place.presence is Presence.STOPPED:
            return "is stopped, by SIGSTOP or a debugger"
        return "" if place.presence is Presence.UNKNOWN else f"is in {place.where}"


def find_late_ranks(run: RunState) -> LateRanks | None:
    """Return the ranks that others wait for before their first step; None if there are none.

    Only ranks that are watched say that they wait. Without such a one nobody is late: a script may
    load its data for as long as it likes.
    """
    # This is asked for every batch of records, and there may be 1,000 ranks.
    if run.plan.job:
        return None
    waiting = [
        rank
        for rank in run.ranks
        if rank.phase is RankPhase.JOINING and isinstance(rank, ScriptRank) and not rank.pace
    ]
    if not waiting:
        return None
    most_meetings = max(rank.meetings for rank in waiting)
    late = [
        rank
        for rank in run.ranks
        if isinstance(rank, ScriptRank) and _is_late(run, rank, most_meetings)
    ]
    if not late:
        return None
    furthest = [rank for rank in waiting if rank.meetings == most_meetings]
    wait_began = min(rank.since for rank in furthest)
    # A rank that has just left the meeting before was not late until then.
    last_move = max(rank.since for rank in late)
    return LateRanks(tuple(late), tuple(furthest), furthest[0].meeting, max(wait_began, last_move))


def _is_late(run: RunState, rank: ScriptRank, most_meetings: int) -> bool:
    """Return True if a rank that has made no step has not come to a meeting of this number."""
    if run.has_workers and rank.process < 0:  # one that has not joined the group
        return most_meetings == 1
    has_ended_well = rank.exited is not None and rank.exited.code == 0
    # A rank that comes out of one meeting after the others is late for the next one.
    lives = rank.phase in (RankPhase.TRAINING, RankPhase.JOINING)
    if rank.pace or not (lives or has_ended_well):
        return False
    # A rank that is not watched never says that it has come. It must have come to the first
    # meeting if others are at the second.
    is_known = rank.meetings > 0 or most_meetings == 1
    return is_known and rank.meetings < most_meetings
