"""Which steps all ranks have reported, and how long each rank was busy up to one of these.

Ranks report steps in blocks of up to a second, so what has come of one rank may be a second ahead
of what has come of another. On a busy machine, times differ more from one second to the next than
from rank to rank: only the same steps of all ranks can be compared.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Sequence

from remote.run.series.step_times import RECENT, find_median
from remote.run.state.phases import FATES
from remote.run.state.rank_state import Ranks, RankState

MOST_AHEAD = 1000
"""Steps that are kept of a rank that is ahead of the others."""


class CommonSteps:
    """The last steps of each rank, as far as others have yet to report them, and `RECENT` more."""

    def __init__(self, ranks: Ranks) -> None:
        self._ranks = ranks
        self._histories: dict[int, _StepHistory] = {}
        self._awaited: RankState | None = None
        """A rank that was behind when one was last looked for."""
        self._newest = 0
        """The newest step that was returned as reported by all."""

    def append(
        self,
        rank: RankState,
        steps: Sequence[int],
        ready: Sequence[float],
        seconds: Sequence[float],
    ) -> None:
        """Take in further steps of a rank."""
        history = self._histories.setdefault(rank.rank, _StepHistory())
        if steps[0] < history.last_step:  # it has begun anew
            history.drop()
            self._newest = 0
        history.append(steps, ready, seconds)

    def find_new(self, steps: Sequence[int], rank: RankState) -> list[int]:
        """Return which of these steps, the next ones of a rank, all other ranks have reported."""
        if not steps or self._is_any_behind(steps[0], rank):
            return []
        last_steps = [
            self._histories[other.rank].last_step
            for other in self.compared_ranks
            if other is not rank
        ]
        common_step = min(last_steps, default=0)
        return [step for step in steps if self._newest < step <= common_step]

    @property
    def compared_ranks(self) -> list[RankState]:
        """Return the living ranks that have reported steps."""
        return [
            rank for rank in self._ranks if rank.phase not in FATES and rank.rank in self._histories
        ]

    def begin_check(self, step: int) -> None:
        """Take in that what follows asks for this step, and for none before it again."""
        self._newest = step
        for history in self._histories.values():
            history.forget_before(step)

    def count(self, rank: RankState, step: int) -> int:
        """Return how many steps of a rank up to this one are known, `RECENT` or more if all are."""
        return self._histories[rank.rank].count_until(step)

    def median_ready(self, rank: RankState, step: int) -> float:
        """Return the median seconds until the rank's last gradient was ready, of the last `RECENT`
        steps up to this one."""
        return find_median(self._histories[rank.rank].recent_ready(step))

    def mean_seconds(self, rank: RankState, step: int) -> float:
        """Return the mean seconds of these steps."""
        seconds = self._histories[rank.rank].recent_seconds(step)
        return sum(seconds) / len(seconds)

    def _is_any_behind(self, step: int, reporting_rank: RankState) -> bool:
        """Return True if a rank other than the one that reports has yet to report this step."""
        # Ranks report by turns, mostly in the same order. One look at the rank that was behind
        # spares looks at all.
        awaited = self._awaited
        if awaited and awaited is not reporting_rank and self._is_behind(awaited, step):
            return True
        others = (rank for rank in reversed(self._ranks) if rank is not reporting_rank)
        self._awaited = next((rank for rank in others if self._is_behind(rank, step)), None)
        return self._awaited is not None

    def _is_behind(self, rank: RankState, step: int) -> bool:
        if rank.phase in FATES or not rank.makes_steps:
            return False
        history = self._histories.get(rank.rank)
        return history is None or history.last_step < step


class _StepHistory:
    """The times of the last steps of a rank."""

    __slots__ = ("_ready", "_seconds", "_steps")

    def __init__(self) -> None:
        self._steps = array("q")
        self._ready = array("d")
        self._seconds = array("d")

    @property
    def last_step(self) -> int:
        return self._steps[-1] if self._steps else 0

    def append(
        self, steps: Sequence[int], ready: Sequence[float], seconds: Sequence[float]
    ) -> None:
        self._steps.extend(steps)
        self._ready.extend(ready)
        self._seconds.extend(seconds)
        self.drop(len(self._steps) - MOST_AHEAD - RECENT)

    def drop(self, number: int | None = None) -> None:
        """Drop the first steps; all, if no number is given."""
        if number is None or number > 0:
            del self._steps[:number]
            del self._ready[:number]
            del self._seconds[:number]

    def forget_before(self, step: int) -> None:
        """Drop what is needed neither for this step nor for later ones."""
        self.drop(self.count_until(step) - RECENT)

    def count_until(self, step: int) -> int:
        return bisect_right(self._steps, step)

    def recent_ready(self, step: int) -> array[float]:
        end = self.count_until(step)
        return self._ready[max(0, end - RECENT) : end]

    def recent_seconds(self, step: int) -> array[float]:
        end = self.count_until(step)
        return self._seconds[max(0, end - RECENT) : end]
