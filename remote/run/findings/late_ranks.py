"""Finds the ranks of a script for which others wait before the first step. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from remote.format import ranks_text
from remote.run.diagnosis.stacks import Whereabouts, locate_rank
from remote.run.run_state import RunState
from remote.run.state.phases import RankPhase
from remote.run.state.script_rank import ScriptRank


@dataclass(frozen=True)
class LateRanks:
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

    def describe_place(self) -> str:
        """Return where the first late rank is, if that is known: "it is in train.py:41, load"."""
        place = self.locate(self.late[0])
        if place is None:
            return ""
        subject = "it" if len(self.late) == 1 else f"rank {self.late[0].rank}"
        return (
            f"{subject} runs {place.program}" if place.program else f"{subject} is in {place.where}"
        )

    def locate(self, rank: ScriptRank) -> Whereabouts | None:
        """Return where this rank is, by a stack that was taken during the wait; else None."""
        if not rank.stack or rank.stack_time < self.since:
            return None
        return locate_rank(rank.stack)


def find_late_ranks(run: RunState) -> LateRanks | None:
    """Return the ranks that others wait for before their first step; None if there are none.

    Only ranks that are watched say that they wait. Without such a one nobody is late: a script may
    load its data for as long as it likes.
    """
    ranks = [rank for rank in run.ranks if isinstance(rank, ScriptRank) and not rank.pace]
    waiting = [rank for rank in ranks if rank.phase is RankPhase.JOINING]
    if not waiting:
        return None
    most_meetings = max(rank.meetings for rank in waiting)
    late = [
        rank for rank in ranks if rank.phase is RankPhase.TRAINING and _is_late(rank, most_meetings)
    ]
    if not late:
        return None
    furthest = [rank for rank in waiting if rank.meetings == most_meetings]
    # Ranks that have just left the meeting before are not late since others have left it.
    since = max(min(rank.since for rank in furthest), _last_start(late))
    return LateRanks(tuple(late), tuple(furthest), furthest[0].meeting, since)


def _is_late(rank: ScriptRank, most_meetings: int) -> bool:
    # A rank that is not watched never says that it has come. It must have come to the first
    # meeting if others are at the second.
    is_known = rank.meetings > 0 or most_meetings == 1
    return is_known and rank.meetings < most_meetings


def _last_start(ranks: Sequence[ScriptRank]) -> float:
    return max(rank.since for rank in ranks)
