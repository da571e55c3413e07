"""Work that takes a while, in threads beside the screens."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Generic, TypeVar

from textual.message_pump import MessagePump

SHARE = 0.1
"""Of the time, what work that a screen repeats by itself takes at most."""
LONGEST = 60.0
"""Seconds for which such work pauses at most."""
T = TypeVar("T")
Failed = Callable[[Exception], object]


def _raise(error: Exception) -> None:
    raise error


def run_in_background(
    owner: MessagePump, act: Callable[[], T], take: Callable[[T], object], failed: Failed = _raise
) -> None:
    """Do this in a thread, which does not keep the process alive. `owner` then takes what has come
    of it, or the error."""

    def work() -> None:
        try:
            found = act()
        except Exception as error:  # noqa: BLE001 - `owner` tells it, or raises it again
            owner.call_later(failed, error)
        else:
            owner.call_later(take, found)

    threading.Thread(target=work, name="background", daemon=True).start()


class RepeatedTask(Generic[T]):
    """Work that a screen asks for again and again. It is done once at a time: if it is asked for
    meanwhile, it is done once more after that."""

    def __init__(
        self, owner: MessagePump, take: Callable[[T], object], failed: Failed = _raise
    ) -> None:
        """`take` and `failed`: see `run_in_background`."""
        self.is_busy = False
        self._began = self._ended = time.monotonic()
        self._owner = owner
        self._take = take
        self._failed = failed
        self._again: Callable[[], T] | None = None

    def begin(self, act: Callable[[], T]) -> None:
        """Do this, or do it next."""
        if self.is_busy:
            self._again = act
            return
        self.is_busy = True
        self._began = time.monotonic()
        run_in_background(
            self._owner,
            act,
            lambda found: self._end(self._take, found),
            lambda error: self._end(self._failed, error),
        )

    def is_due(self, pause: float) -> bool:
        """Whether it may be done by itself once more: it is not under way, and ended this many
        seconds ago, or longer ago where it took long."""
        took = self._ended - self._began
        pause = max(pause, min(took / SHARE, LONGEST))
        return not self.is_busy and time.monotonic() - self._ended >= pause

    def _end(self, tell: Callable[..., object], what: object) -> None:
        self._ended = time.monotonic()
        self.is_busy = False
        again = self._again
        self._again = None
        if again:
            self.begin(again)
        tell(what)
