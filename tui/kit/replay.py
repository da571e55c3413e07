"""A recorded run as a session that plays: forwards at any speed, back, and to any time of it."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import ClassVar

from remote.plan.plan import Plan
from remote.record.events_file import LOOK, RunFolderError
from remote.record.layout import EVENTS
from remote.record.watch import END, WatchedRun
from remote.run.findings.flaws import outcome_word
from tui.kit.run_session import RunSession

SPEEDS = (0.25, 0.5, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
"""How many seconds of the run a second shows."""


class Replay(WatchedRun):
    """A watched run that also shows other times than the end of its record. It begins at the end,
    paused.

    The time of a replay, `position`, is in seconds since the run began. `is_live`: somebody else
    records the run now, and the replay is at the end, where it follows.
    """

    rewinds: ClassVar[bool] = True

    def __init__(
        self, folder: Path, plan: Plan, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        """Raises: OtherFormat; RunFolderError, also where nothing is recorded."""
        self._monotonic = monotonic
        self._position = END
        self._since = 0.0
        self._playing = False
        self._speed = SPEEDS.index(1)
        self._began = self.duration = 0.0
        self.is_used = False
        """Whether somebody has played it, or has gone to another time."""
        self.outcome = ""
        """How the run has ended, in a word or two; "" if it has not, or if that is not read yet."""
        self.slow_spells: list[tuple[float, float]] = []
        """When ranks were slow, each from and to, in seconds of the run; as `outcome`."""
        # Last, as it begins to read, which asks for the position.
        super().__init__(folder, plan)

    def _begin(self) -> None:
        super()._begin()
        if not self.state.started:
            raise RunFolderError(f"{self.folder} holds no run: {EVENTS} has no records")

    @property
    def position(self) -> float:
        """Return the time that is shown, in seconds since the run began."""
        return min(self._now(), self.duration)

    @property
    def speed(self) -> float:
        """Seconds of the run that a second shows while it plays."""
        return SPEEDS[self._speed]

    @property
    def is_playing(self) -> bool:
        """Return True if time passes."""
        return self._playing and self._now() < self.duration

    @property
    def is_live(self) -> bool:
        """Return True if this follows a run that somebody else records now."""
        return self.launcher is not None and self._position == END

    @property
    def news(self) -> str:
        """As of a watched run, where its end is shown. Of what is read and why not, the slider
        tells."""
        tells_news = self.is_at_end and self.reading is None and not self.problem
        return super().news if tells_news else ""

    def toggle(self) -> bool:
        """Play, or pause; at the end, play from the beginning where the run has ended. Returns
        False where there is nothing to play: the run goes on."""
        if self.is_at_end and not self.has_ended:
            return False
        is_playing = self.is_playing
        position = self.position
        self._set_position(
            0.0 if not is_playing and position >= self.duration else position, not is_playing
        )
        return True

    def pause(self) -> None:
        """Stay at this time; at the end, follow it."""
        if self._playing:
            self._set_position(self._now(), False)

    def change_speed(self, steps: int) -> None:
        """Play faster or (below 0) slower, by steps of two."""
        position = self._now()
        self._speed = max(0, min(self._speed + steps, len(SPEEDS) - 1))
        self._set_position(position, self._playing)

    def jump(self, seconds: float) -> None:
        """Go on or (below 0) back by seconds of the run."""
        self.go_to(self.position + seconds)

    def go_to(self, position: float) -> None:
        """Go to a time; beyond the last record is the end, which a replay follows."""
        self._set_position(max(0.0, position) if position < self.duration else END, self._playing)

    def _set_position(self, position: float, playing: bool) -> None:
        self._position, self._playing, self._since = position, playing, self._monotonic()
        self.is_used = True
        # The thread that reads may wait for records that are far off.
        self._wake.set()

    def _now(self) -> float:
        seconds_passed = (self._monotonic() - self._since) * self.speed if self._playing else 0.0
        return self._position + seconds_passed

    # What it shows

    @property
    def is_at_end(self) -> bool:
        """Return True if `state` is that of the end of the record."""
        return self._until == END and self.state.elapsed >= self.duration

    @property
    def _until(self) -> float:
        position = self._now()
        return self._began + position if position < self.duration else END

    @property
    def _pause(self) -> float | None:
        # None waits without an end: at a past time, paused, nothing changes until somebody moves
        # it.
        return LOOK if self._playing or self._position == END else None

    def _hold(self, until: float, *, is_there: bool) -> None:
        """Hold the run at this time, but where it goes on at the end."""
        if not is_there:
            self.state.hold(self.state.now)
            return
        if until == self._until == END:  # no jump came in between
            self._position = END
            self._began = self.state.started
            self.duration = self.state.elapsed
            self.outcome = outcome_word(self.state)
            self.slow_spells = [
                (episode.since - self._began, (episode.over or self.state.now) - self._began)
                for episode in self.state.stragglers.episodes
            ]
        if self.is_live:
            super()._hold(until, is_there=True)
        else:
            self.state.hold(min(until, self._began + self.duration))


def is_playing(session: RunSession) -> bool:
    """Return True if a session is a replay that plays."""
    return isinstance(session, Replay) and session.is_playing
