"""The time by a run's own clock, even while no record arrives."""

from __future__ import annotations

import time
from collections.abc import Callable

from remote.run.run_state import RunState
from remote.run.state.phases import RunPhase


class SessionClock:
    """The time of the newest record, plus the time since it arrived. It stops with the run."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._newest = 0.0
        self._newest_seen = monotonic()

    def now(self, run: RunState) -> float:
        """Return the time in seconds by the session's clock, as `RunState`'s own times are."""
        if run.phase is RunPhase.ENDED:
            return run.ended
        # A replay that is paused, or a record that nobody writes.
        if run.is_held:
            return run.now
        if run.now != self._newest:
            self._newest = run.now
            self._newest_seen = self._monotonic()
        return run.now + self._monotonic() - self._newest_seen
