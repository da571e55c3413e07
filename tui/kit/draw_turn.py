"""When it is the turn of what costs too much to be drawn at each tick."""

from __future__ import annotations

from remote.run.run_state import RunState

RANKS = 256
"""Ranks for which a tick may look at each; of more, only one of several ticks does."""


class DrawTurn:
    """Comes at one of several ticks. Costly parts of the screen take turns, so that no frame has to
    draw all of them."""

    def __init__(self) -> None:
        self._tick = 0
        self._stage: tuple[object, ...] = ()

    def has_come(self, every: int, place: int = 0) -> bool:
        """Count a tick. Returns whether it is number `place` of `every` ticks."""
        self._tick += 1
        return self._tick % every == place % every

    def has_come_for(self, run: RunState, place: int = 0) -> bool:
        """The same for what looks at each rank of a run. It comes at once where the run is another
        one, or in another phase."""
        run_stage = run, run.phase
        # Asked first: `or` would skip counting the tick.
        is_other = run_stage != self._stage
        self._stage = run_stage
        return self.has_come(ticks(len(run.ranks)), place) or is_other


def ticks(ranks: int) -> int:
    """How many ticks there are to one that looks at so many ranks."""
    return max(1, ranks // RANKS)
