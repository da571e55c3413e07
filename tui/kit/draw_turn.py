"""When it is the turn of what costs too much to be drawn at each tick."""

from __future__ import annotations

import math

from remote.run.run_state import RunState
from remote.run.state.phases import RunPhase

RANKS = 256
"""Ranks for which a tick may look at each; of more, only one of several ticks does."""


class DrawTurn:
    """Comes at one of several ticks. Costly parts of the screen take turns, so that no frame has to
    draw all of them."""

    def __init__(self) -> None:
        self._tick = 0
        self._due_at = math.inf
        self._run: RunState | None = None
        self._phase: RunPhase | None = None

    def has_come(self, every: int, place: int = 0) -> bool:
        """Count a tick. Returns whether it is number `place` of `every` ticks."""
        self._tick += 1
        return self._tick % every == place % every

    def has_come_for(self, run: RunState, place: int = 0) -> bool:
        """The same for what looks at each rank of a run. It comes at once where the run is another
        one. In another phase, places 0 and 1 come at once, and each further one a tick later."""
        every = ticks(len(run.ranks))
        has_come = self.has_come(every, place)
        if run is not self._run:
            self._due_at = self._tick
        elif run.phase is not self._phase:
            self._due_at = self._tick + (max(0, place - 1) if every > 1 else 0)
        self._run = run
        self._phase = run.phase
        has_come = has_come or self._tick >= self._due_at
        if has_come:
            self._due_at = math.inf
        return has_come


def ticks(ranks: int) -> int:
    """How many ticks there are to one that looks at so many ranks."""
    return max(1, ranks // RANKS)
