"""Why a host cannot be reached, and how long it has to answer."""

from __future__ import annotations

import time
from typing import Self


class Problem(Exception):
    """One or two lines for the user, without the host's name."""

    def of(self, whose: str) -> Self:
        """The same of another host on the way."""
        return type(self)(f"{whose}: {self}")


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
