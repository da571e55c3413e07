"""Work that takes a while, in threads beside the screens."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any, Generic, TypeVar

from textual.message_pump import MessagePump

SHARE = 0.1
"""Share of the time that work which a screen repeats by itself takes at most."""
LONGEST_PAUSE = 60.0
"""Seconds for which such work pauses at most."""
ResultT = TypeVar("ResultT")
HandleError = Callable[[Exception], object]


def _raise(error: Exception) -> None:
    raise error


def run_in_background(
    owner: MessagePump,
    work: Callable[[], ResultT],
    take_result: Callable[[ResultT], object],
    handle_error: HandleError = _raise,
) -> None:
    """Do some work in a thread, which does not keep the process alive.

    `owner` then calls one of the other two in its own thread, unless it is being removed: its
    widgets may be gone by then, or refuse others.
    """

    def report(handle_outcome: Callable[[Any], object], outcome: object) -> None:
        if owner.is_attached:
            handle_outcome(outcome)

    def run() -> None:
        # Only `call_later` may be called from here: it puts a message into the owner's queue.
        # Widgets belong to the thread of the app.
        try:
            result = work()
        except Exception as error:  # noqa: BLE001 - `owner` reports it, or raises it again
            owner.call_later(report, handle_error, error)
        else:
            owner.call_later(report, take_result, result)

    threading.Thread(target=run, name="background", daemon=True).start()


class RepeatedTask(Generic[ResultT]):
    """Work that a screen asks for again and again.

    It is done once at a time: if it is asked for meanwhile, it is done once more after that.
    """

    def __init__(
        self,
        owner: MessagePump,
        take_result: Callable[[ResultT], object],
        handle_error: HandleError = _raise,
    ) -> None:
        """See `run_in_background`."""
        self.is_busy = False
        self._began_at = self._ended_at = time.monotonic()
        self._owner = owner
        self._take_result = take_result
        self._handle_error = handle_error
        self._next_work: Callable[[], ResultT] | None = None

    def begin(self, work: Callable[[], ResultT]) -> None:
        """Do this, or do it next."""
        # Only the newest is kept: what was asked for before it is out of date.
        if self.is_busy:
            self._next_work = work
            return
        self.is_busy = True
        self._began_at = time.monotonic()
        take_result = partial(self._end, self._take_result)
        handle_error = partial(self._end, self._handle_error)
        run_in_background(self._owner, work, take_result, handle_error)

    def is_due(self, pause: float) -> bool:
        """Return True if the work may be repeated by itself: `pause` seconds after its end, or
        later if it took long."""
        seconds_taken = self._ended_at - self._began_at
        pause = max(pause, min(seconds_taken / SHARE, LONGEST_PAUSE))
        return not self.is_busy and time.monotonic() - self._ended_at >= pause

    def _end(self, report: Callable[..., object], outcome: Any) -> None:
        self._ended_at = time.monotonic()
        self.is_busy = False
        next_work = self._next_work
        self._next_work = None
        if next_work:
            self.begin(next_work)
        # After the next one has begun, since `report` may raise, or ask for the work again.
        report(outcome)
