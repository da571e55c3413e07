"""In which order the table of ranks stands, and which ranks are marked. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

from msgspec import Struct

from remote.run.findings.rates import busy_seconds, rank_means
from remote.run.findings.stall import waits_for_culprit
from remote.run.run_state import RunState
from remote.run.state.phases import FATES, RankPhase
from remote.run.state.rank_state import RankState

FAILED = 0
LOST = 1
STALLED = 2
_ENDS = {RankPhase.FAILED: FAILED, RankPhase.LOST: LOST, RankPhase.VICTIM: 3}
SLOW = 4
UNMARKED = 5


def severity(rank: RankState, run: RunState) -> int:
    """How severe the mark of a rank is, from 0, the worst; `UNMARKED` where it has none."""
    if rank.phase in _ENDS:
        return _ENDS[rank.phase]
    if rank.stalled and rank.phase not in FATES:
        return UNMARKED if waits_for_culprit(rank, run) else STALLED
    # A process that has started ranks makes no steps: the straggler of its number is another one.
    straggler = run.stragglers.current(rank.rank) if run.trains(rank) else None
    # One that is only suspected has no mark: nothing on the screen would say what it means.
    return SLOW if straggler and straggler.is_slow else UNMARKED


def holds_up(rank: RankState, run: RunState) -> bool:
    """Return True if the rank is slow: the others wait for it."""
    return severity(rank, run) == SLOW


class RankOrder(Struct, frozen=True):
    """An order by a figure, the greatest value first unless `ascending`."""

    name: str
    value: Callable[[RankState], float]
    ascending: bool = False
    marked_first: bool = False
    """Ranks with a mark always come first, the most severe of all."""

    @property
    def title(self) -> str:
        """Return what the border of the table says."""
        return self.name if self.marked_first else f"by {self.name}"

    def key(self, rank: RankState) -> tuple[float, int]:
        """By what ranks are sorted; those without the figure come last."""
        rank_value = self.value(rank)
        # NaN compares with nothing, so that sorting by it would leave any order.
        if math.isnan(rank_value):
            return math.inf, rank.rank
        return (rank_value if self.ascending else -rank_value), rank.rank


def _busy_seconds(rank: RankState) -> float:
    """Return how long the rank is busy in a step, without waits for others, as the table shows."""
    # In a script that does not tell when gradients are ready, 0 is not known.
    return busy_seconds(rank) or math.nan


def _recent_loss(rank: RankState) -> float:
    return math.nan if rank.recent_loss is None else rank.recent_loss


MARKED_FIRST = RankOrder("", lambda rank: rank.rank, ascending=True, marked_first=True)
"""The usual order: ranks that are alike stand by number."""
RANK_ORDERS = (
    MARKED_FIRST,
    RankOrder("rank", lambda rank: rank.rank, ascending=True),
    RankOrder("busy", _busy_seconds),
    RankOrder("step", lambda rank: rank.step, ascending=True),
    RankOrder("loss", _recent_loss),
    RankOrder("per step", lambda rank: rank_means(rank).seconds),
    RankOrder("CPU", lambda rank: rank.cpu),
    RankOrder("memory", lambda rank: rank.memory),
)
"""The orders of the table, as one key goes through them: the slowest, the furthest behind or the
largest first."""


def describe_first(first_rank: RankState, run: RunState, order: RankOrder) -> str:
    """Return which ranks come first in an order that begins with the marked ones; "" if none."""
    words = {FAILED: "failed", LOST: "lost", STALLED: "stalled", SLOW: "slow"}
    word = words.get(severity(first_rank, run))
    return f"{word} first" if word else order.title


def sort_ranks(
    ranks: Iterable[RankState], run: RunState, order: RankOrder, room: int
) -> list[RankState]:
    """The ranks in this order. Where more are there than rows have room, the marked ones come
    first."""
    sorted_ranks = sorted(ranks, key=order.key)
    if order.marked_first or len(sorted_ranks) > room:
        # Sorting is stable, so ranks of one severity stay in the order above.
        sorted_ranks.sort(key=lambda rank: severity(rank, run))
    return sorted_ranks
