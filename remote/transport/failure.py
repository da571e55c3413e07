"""Why a host cannot be reached, as facts; its sentence is made here and nowhere else."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum

from remote.cluster.hosts import HOSTS_FILE, hosts_option


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


@dataclass(frozen=True)
class Failure:
    """`what` is wrong, and in `advice` what to do about it. `apart`: the advice is a line of its
    own, so that a command in it can be copied."""

    cause: FailureCause
    what: str
    advice: str = ""
    apart: bool = False

    @property
    def text(self) -> str:
        """One or two lines for the user, without the host's name."""
        separator = "\n" if self.apart else "; "
        return f"{self.what}{separator}{self.advice}" if self.advice else self.what

    def of(self, whose: str) -> Failure:
        """The same failure of another host on the way."""
        return replace(self, what=f"{whose}: {self.what}")


def explain_workdir_failure(
    workdir: str, error: str, reason: str, hosts_file: str = HOSTS_FILE
) -> Failure:
    """Return why a host cannot use its workdir. `error` is the name of its error number, such as
    ENOSPC, and `reason` what it says itself."""
    what = f"cannot use its workdir {workdir}: {reason}"
    if error in FULL:
        return Failure(FailureCause.NO_ROOM, what, advise_room(workdir, hosts_file))
    advice = f"make it accessible there, or set another workdir for it in {hosts_file}"
    return Failure(FailureCause.WORKDIR, what, advice)


def advise_room(workdir: str, hosts_file: str) -> str:
    """Say what to do about a disk that has too little room for runs."""
    return (
        f"make room there (rankboard prune{hosts_option(hosts_file)} removes old runs), or set "
        f"workdir in {hosts_file} to a larger disk than {workdir}'s"
    )
