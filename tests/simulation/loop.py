"""Virtual time: one queue of what happens, in order."""

from __future__ import annotations

import heapq
from collections.abc import Callable

START = 1_000_000.0
"""The virtual time at which a simulation begins."""


class Loop:
    """What happens, in order of virtual time. `now` is in seconds."""

    def __init__(self) -> None:
        self.now = START
        self._queue: list[tuple[float, int, Callable[[], None]]] = []
        self._count = 0

    def at(self, when: float, act: Callable[[], None]) -> None:
        """Have this happen at a time, or now where it is past."""
        self._count += 1
        heapq.heappush(self._queue, (max(when, self.now), self._count, act))

    def after(self, delay: float, act: Callable[[], None]) -> None:
        """Have this happen after some seconds."""
        self.at(self.now + delay, act)

    def run(self, until: float, is_over: Callable[[], bool]) -> None:
        """Let happen what is due, until this time or until all is over."""
        while self._queue and self._queue[0][0] <= until and not is_over():
            self.now, _, act = heapq.heappop(self._queue)
            act()
