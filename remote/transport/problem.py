"""Errors of a transport, and how long a host has to answer."""

from __future__ import annotations

import copy
import time
from typing import Self

from remote.cluster.hosts import Host
from remote.transport.failure import Failure, FailureCause


class ReachError(Exception):
    """A `Failure` that is raised; its text is one or two lines, without the host's name."""

    def __init__(
        self, cause: FailureCause, what: str, advice: str = "", *, apart: bool = False
    ) -> None:
        """See `Failure`."""
        self.failure = Failure(cause, what, advice, apart)

    def __str__(self) -> str:
        return self.failure.text

    def of(self, whose: str) -> Self:
        """The same problem of another host on the way, such as a jump host."""
        other = copy.copy(self)
        other.failure = self.failure.of(whose)
        return other


class HungUp(ReachError):
    """The far end hung up before the login, as a busy sshd does at random. Try again."""


class Deadline:
    """How long a host has to answer. `doing` says in messages what it was doing."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.doing = "connecting"
        self.restart()

    def left(self) -> float:
        """Seconds left. Raises: TimeoutError, if none are."""
        left = self.end - time.monotonic()
        if left <= 0:
            raise TimeoutError
        return left

    @property
    def over(self) -> bool:
        """Whether the time is up."""
        return time.monotonic() >= self.end

    def restart(self) -> None:
        """Give the full time again, since something has moved."""
        self.end = time.monotonic() + self.seconds


def explain_failure(error: Exception, deadline: Deadline, host: Host) -> Failure:
    """Say why this host was not reached before the deadline."""
    if isinstance(error, ReachError):
        return error.failure
    if deadline.over or isinstance(error, TimeoutError):
        what = f"no answer within {deadline.seconds:g} s while {deadline.doing}"
        advice = f"is it up? If it is only slow, raise timeout in {host.hosts_file}"
        return Failure(FailureCause.TIMEOUT, what, advice)
    what = f"the connection broke while {deadline.doing}: {str(error) or 'end of file'}"
    return Failure(FailureCause.BROKEN, what)
