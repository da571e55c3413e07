"""Finds the ranks of a script that have come to a halt before the first step, or may have. Pure."""

from __future__ import annotations

from msgspec import Struct

from remote.run.diagnosis.stacks import is_importing, is_stopped
from remote.run.findings.late_ranks import find_late_ranks
from remote.run.run_state import RunState
from remote.run.state.phases import RankPhase
from remote.run.state.script_rank import ScriptRank


class StartHalt(Struct, frozen=True):
    """Ranks of a script of which none has moved for a while, before the first step."""

    ranks: tuple[ScriptRank, ...]
    """All that stand still, in order."""
    waiting: tuple[ScriptRank, ...]
    """Those of them that wait for others in a function of torch."""
    since: float
    """When the last of them has moved."""
    has_late: bool
    """Some have not come where the others wait."""
    may_compute: bool
    """Some may be doing something of their own, for which no other waits."""

    def find_stopped(self, seconds: float = 0.0) -> list[ScriptRank]:
        """Return the ranks that a signal or a debugger has stopped, by stacks that were taken so
        many seconds after the ranks had come to a halt, or later."""
        # A stack from before may show a rank that somebody has let go on since.
        return [
            rank
            for rank in self.ranks
            if rank.stack and rank.stack_time - self.since >= seconds and is_stopped(rank.stack)
        ]

    def find_last_import(self) -> float:
        """Return when a stack has last shown that a rank imports a module, as some functions of
        torch do when they are called first; 0 if none has."""
        return max(
            (rank.stack_time for rank in self.ranks if rank.stack and is_importing(rank.stack)),
            default=0.0,
        )


def find_start_halt(run: RunState) -> StartHalt | None:
    """Return the ranks of a script that stand still before the first step; None if there are none.

    Of a script whose ranks have not met yet nothing is known: it may load its data for as long as
    it likes.
    """
    if run.plan.job:
        return None
    late_ranks = find_late_ranks(run)
    if late_ranks:
        halted = sorted((*late_ranks.waiting, *late_ranks.late), key=lambda rank: rank.rank)
        return StartHalt(
            tuple(halted), late_ranks.waiting, late_ranks.since, has_late=True, may_compute=False
        )
    # This is asked for every batch of records, and there may be 1,000 ranks: once they make steps,
    # the first one is enough.
    if any(rank.pace for rank in run.ranks):
        return None
    ranks = [rank for rank in run.script_ranks if rank.meetings and not rank.exited]
    if not ranks:
        return None
    waiting = tuple(rank for rank in ranks if rank.phase is RankPhase.JOINING)
    last_move = max(max(rank.since, rank.stepped_at) for rank in ranks)
    # Of some functions, such as `broadcast`, a rank returns before the others.
    may_compute = len(waiting) < len(run.ranks)
    return StartHalt(tuple(ranks), waiting, last_move, has_late=False, may_compute=may_compute)
