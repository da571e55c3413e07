"""Say why a host cannot be reached: as facts, as errors, and as a sentence, which is made here and
nowhere else."""

from __future__ import annotations

import copy
import time
from enum import Enum
from typing import Self

from msgspec import Struct
from msgspec.structs import replace

from remote.cluster.hosts import HOSTS_FILE, Host, hosts_option


class FailureCause(Enum):
    """What kept a transport from the agent of a host."""

    ADDRESS = "address"
    """The address is no host's."""
    REFUSED = "refused"
    """Nobody listens there."""
    DROPPED = "dropped"
    """The far end hung up before the login."""
    TIMEOUT = "timeout"
    """No answer came in time."""
    BROKEN = "broken"
    """The connection broke."""
    HOST_KEY_UNKNOWN = "host key unknown"
    """The user has accepted no key of the host."""
    HOST_KEY_WRONG = "host key wrong"
    """The host shows another key than the accepted one, or a revoked one."""
    AUTHENTICATION = "authentication"
    """The host accepts none of the user's keys, or they cannot be used."""
    SHELL = "shell"
    """The login shell started nothing."""
    PYTHON = "python"
    """There is no Python that can run the agent."""
    CODE = "code"
    """The code there is not safe to run."""
    WORKDIR = "workdir"
    """The workdir cannot be used."""
    NO_ROOM = "no room"
    """The disk of the workdir is full."""
    AGENT = "agent"
    """The agent ended at its start."""
    GONE = "gone"
    """What the host belonged to is over, and nothing that ran there is left."""
    SETTINGS = "settings"
    """The hosts file is wrong."""
    OTHER = "other"


FULL = ("ENOSPC", "EDQUOT")
"""The names of the errors of a full disk."""


class Failure(Struct, frozen=True):
    """Why a host was not reached."""

    cause: FailureCause
    what: str
    """What is wrong."""
    advice: str = ""
    """What to do about it."""
    apart: bool = False
    """The advice is a line of its own, so that a command in it can be copied."""

    @property
    def text(self) -> str:
        """One or two lines for the user, without the host's name."""
        if not self.advice:
            return self.what
        separator = "\n" if self.apart else "; "
        return f"{self.what}{separator}{self.advice}"

    def of_other_host(self, host_name: str) -> Failure:
        """Return the same failure of another host on the way."""
        return replace(self, what=f"{host_name}: {self.what}")


def explain_workdir_failure(
    workdir: str, error_name: str, reason: str, hosts_file: str = HOSTS_FILE
) -> Failure:
    """Return why a host cannot use its workdir. `error_name` is the name of its error number, such
    as ENOSPC, and `reason` what it says itself."""
    failure_text = f"cannot use its workdir {workdir}: {reason}"
    if error_name in FULL:
        return Failure(FailureCause.NO_ROOM, failure_text, advise_room(workdir, hosts_file))
    advice = f"make it accessible there, or set another workdir for it in {hosts_file}"
    return Failure(FailureCause.WORKDIR, failure_text, advice)


def advise_room(workdir: str, hosts_file: str) -> str:
    """Say what to do about a disk that has too little room for runs."""
    return (
        f"make room there (rankboard prune{hosts_option(hosts_file)} removes old runs), or set "
        f"workdir in {hosts_file} to a larger disk than {workdir}'s"
    )


# Errors -------------------------------------------------------------------------------------------


class ReachError(Exception):
    """A `Failure` that is raised. Its text is one or two lines, without the host's name."""

    def __init__(
        self, cause: FailureCause, what: str, advice: str = "", *, apart: bool = False
    ) -> None:
        """Raise a failure of these fields."""
        self.failure = Failure(cause, what, advice, apart)

    def __str__(self) -> str:
        return self.failure.text

    def of_other_host(self, host_name: str) -> Self:
        """Return the same error of another host on the way, such as a jump host."""
        renamed_error = copy.copy(self)
        renamed_error.failure = self.failure.of_other_host(host_name)
        return renamed_error


class HungUp(ReachError):
    """The far end hung up before the login, as a busy sshd does at random. Try again."""


class Deadline:
    """The time that a host has to answer."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.doing = "connecting"  # what messages say that it was doing
        self.restart()

    def left(self) -> float:
        """Return the seconds left. Raises: TimeoutError, if none are."""
        seconds_left = self.end - time.monotonic()
        if seconds_left <= 0:
            raise TimeoutError
        return seconds_left

    @property
    def is_over(self) -> bool:
        """True if the time is up."""
        return time.monotonic() >= self.end

    def restart(self) -> None:
        """Give the full time again, since something has moved."""
        self.end = time.monotonic() + self.seconds


def explain_failure(error: Exception, deadline: Deadline, host: Host) -> Failure:
    """Say why this host was not reached before the deadline."""
    if isinstance(error, ReachError):
        return error.failure
    if deadline.is_over or isinstance(error, TimeoutError):
        failure_text = f"no answer within {deadline.seconds:g} s while {deadline.doing}"
        advice = f"is it up? If it is only slow, raise timeout in {host.hosts_file}"
        return Failure(FailureCause.TIMEOUT, failure_text, advice)
    failure_text = f"the connection broke while {deadline.doing}: {str(error) or 'end of file'}"
    return Failure(FailureCause.BROKEN, failure_text)
