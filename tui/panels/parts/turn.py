"""When it is the turn of what costs too much to be drawn at each tick."""

from __future__ import annotations

RANKS = 256
"""Ranks for which a tick may look at each; of more, only one of several ticks does."""


class Turn:
    """Comes at one of several ticks. Costly parts of the screen take turns, so that no frame has to
    draw all of them."""

    def __init__(self) -> None:
        self._tick = 0

    def has_come(self, every: int, place: int = 0) -> bool:
        """Count a tick. Returns whether it is number `place` of `every` ticks."""
        self._tick += 1
        return self._tick % every == place % every


def ticks(ranks: int) -> int:
    """How many ticks there are to one that looks at so many ranks."""
    return max(1, ranks // RANKS)
