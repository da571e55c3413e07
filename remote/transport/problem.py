"""What goes wrong on the way to a host, and how long the host has to answer."""

from __future__ import annotations

import copy
import time
from typing import Self

from remote.transport.failure import Cause, Failure


class Problem(Exception):
    """A `Failure` that is raised; its text is one or two lines, without the host's name."""

    def __init__(self, cause: Cause, what: str, advice: str = "", *, apart: bool = False) -> None:
        """See `Failure`."""
        self.failure = Failure(cause, what, advice, apart)

    def __str__(self) -> str:
        return self.failure.text

    def of(self, whose: str) -> Self:
        """The same of another host on the way."""
        other = copy.copy(self)
        other.failure = self.failure.of(whose)
        return other


class Dropped(Problem):
    """The far end hung up before the login, as a busy sshd does at random: worth another try."""


class Deadline:
    """How long a host has; `doing` is what it is doing meanwhile, for the message."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.doing = "connecting"
        self.restart()

    def left(self) -> float:
        """Seconds left. Raises: TimeoutError, where none are."""
        left = self.end - time.monotonic()
        if left <= 0:
            raise TimeoutError
        return left

    @property
    def over(self) -> bool:
        """Whether the time is up."""
        return time.monotonic() >= self.end

    def restart(self) -> None:
        """Something has moved: the full time again."""
        self.end = time.monotonic() + self.seconds
