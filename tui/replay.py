"""A recorded run as a session that plays: forwards at any speed, back, and to any time of it."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

from remote.fair_lock import FairLock
from remote.plan.plan import Plan
from remote.record import lock, tape
from remote.record.tape import Tape
from training.wire.events import Record

SPEEDS = (0.25, 0.5, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
"""How many seconds of the run a second shows."""
LINES = 500
"""Lines that are taken in at once while the lock is held."""
LOOK = 0.1
"""Seconds between two looks at the clock while it plays, or at a run that is still recorded."""
FIRST = 1.0
"""Seconds that a run with an overview has to be drawn, before all of it is read."""
END = float("inf")


class Replay:
    """A session over the records of a run, see `tui.view.Session`. It begins at their end, paused.

    The time of a replay, `position`, is in seconds since the first record. `is_live`: somebody else
    records the run now, and the replay is at the end, where it follows.
    """

    detached = cut_off = keep = False

    def __init__(
        self, folder: Path, plan: Plan, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        """Raises: OtherFormat, RunFolderError."""
        self.plan, self._folder, self._monotonic = plan, folder, monotonic
        self.lock = FairLock()
        self._began, end = tape.span(folder)
        self.duration = max(0.0, end - self._began)
        self._recorded = lock.launcher(folder) is not None
        self._position, self._since, self._playing = END, 0.0, False
        self._speed = SPEEDS.index(1)
        self._wake, self._closed = threading.Event(), threading.Event()
        self.reading: float | None = None
        """How much of the records has been read, from 0 to 1, while the state is not yet that of
        `position`; None once it is."""
        self._tape = Tape(folder, plan)
        if tape.is_large(folder):
            self.state, self.reading = tape.overview(folder, plan), 0.0
        else:
            self._tape.advance(END, sys.maxsize)
            self.state = self._tape.state
        self.state.hold(0.0)

    # The player, for the thread of the screen

    @property
    def position(self) -> float:
        """The time that is shown, in seconds since the first record."""
        return min(self._now(), self.duration)

    @property
    def speed(self) -> float:
        """Seconds of the run that a second shows while it plays."""
        return SPEEDS[self._speed]

    @property
    def is_playing(self) -> bool:
        """Whether time passes."""
        return self._playing and self._now() < self.duration

    @property
    def is_live(self) -> bool:
        """Whether this follows a run that somebody else records now."""
        return self._recorded and self._position == END

    def toggle(self) -> None:
        """Play, or pause; at the end, play from the beginning."""
        is_playing, at = self.is_playing, self.position
        self._set(0.0 if not is_playing and at >= self.duration else at, not is_playing)

    def change_speed(self, steps: int) -> None:
        """Play faster or (below 0) slower, by steps of two."""
        at = self._now()
        self._speed = max(0, min(self._speed + steps, len(SPEEDS) - 1))
        self._set(at, self._playing)

    def jump(self, seconds: float) -> None:
        """Go on or (below 0) back by seconds of the run."""
        self.go_to(self.position + seconds)

    def go_to(self, position: float) -> None:
        """Go to a time; beyond the last record is the end, which a replay of a live run follows."""
        self._set(max(0.0, position) if position < self.duration else END, self._playing)

    def _set(self, position: float, playing: bool) -> None:
        self._position, self._playing, self._since = position, playing, self._monotonic()
        self._wake.set()

    def _now(self) -> float:
        passed = (self._monotonic() - self._since) * self.speed if self._playing else 0.0
        return self._position + passed

    # The session

    def batches(self) -> Iterator[list[Record]]:
        """Bring `state` to what it was at the position, again and again, until `stop`."""
        with closing(self._tape):
            if self.reading is not None:  # the screen comes first
                self._wake.wait(FIRST)
            while not self._closed.is_set():
                self._wake.clear()
                is_there = self._follow()
                yield []
                if is_there:
                    self._wake.wait(LOOK if self._goes_on else None)

    @property
    def _goes_on(self) -> bool:
        """Whether there may be more to take in without a jump: a replay that plays has come to the
        end only once it has taken in the last record."""
        return self.is_live or (self._playing and self._position != END)

    def _follow(self) -> bool:
        """Take in the next lines. Returns whether the state is that of the position now."""
        at = self._now()
        until = self._began + at if at < self.duration else END
        if self._tape.state.now > until:
            self._tape.rewind(until)
        if self._tape.state is not self.state:  # it is shown once it has come as far
            if self._tape.advance(until, LINES):
                self.reading = self._tape.share
                return False
            with self.lock:
                self._show(at)
            return True
        with self.lock:
            is_more = self._tape.advance(until, LINES)
            self._show(at)
        return not is_more

    def _show(self, at: float) -> None:
        """Show the state of the tape, which has come to the position `at`, or near it."""
        self.state, self.reading = self._tape.state, None
        if at >= self.duration and self._now() >= self.duration:  # no jump came in between
            self._position = END
            self._recorded = self._recorded and lock.launcher(self._folder) is not None
            self.duration = max(self.duration, self.state.now - self._began)
        if self.is_live:
            self.state.is_held = False
        else:
            self.state.hold(self._began + min(at, self.duration))

    def stop(self, reason: str = "", *, now: bool = False) -> None:
        """End the replay; the run has nothing of it."""
        self._closed.set()
        self._wake.set()

    def detach(self) -> None:
        """End the replay."""
        self.stop()

    def ask_stacks(self) -> None:
        """Ask nobody: the stacks of the record are all that there are."""
