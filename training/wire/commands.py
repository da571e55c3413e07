"""Commands of a launcher to the agent of a host: one JSON object per line."""

from __future__ import annotations

from dataclasses import dataclass
from typing import get_args

from training.wire.codec import Codec
from training.wire.jsonl import dumps, load

GRACE = 2.0
"""Seconds that ranks have to end after TERM, before they are killed."""


@dataclass(frozen=True, slots=True)
class Placement:
    """One rank on one host: the program to start, and its environment."""

    rank: int
    local_rank: int
    argv: tuple[str, ...]
    env: tuple[tuple[str, str], ...]
    """Variables to add to the environment of the agent."""
    secret: tuple[str, ...] = ()
    """The variables whose values only the rank may see."""
    defaults: tuple[tuple[str, str], ...] = ()
    """Variables to add if the environment has none of that name."""
    cwd: str = ""
    """The folder to work in; "" if it is that of all ranks of the host."""


def stand_in(name: str) -> str:
    """Return the text that replaces the value of a secret variable in all output."""
    return f"[{name}]"


@dataclass(frozen=True, slots=True)
class Reserve:
    """Bind a listening socket for the rendezvous on `address` and `port`; port 0 is any free
    one."""

    address: str
    port: int


@dataclass(frozen=True, slots=True)
class Keep:
    """Write this text to a file of this name in the run's folder: the plan, for launchers that
    attach to the run."""

    name: str
    text: str
    age: float = 0.0
    """Seconds since the run began, from which the agent counts on; 0 if not known."""


@dataclass(frozen=True, slots=True)
class Connect:
    """Try a TCP connection to each of these (address, port), for at most `seconds`, and report
    each result (`Connected`)."""

    targets: tuple[tuple[str, int], ...]
    seconds: float = 3.0


@dataclass(frozen=True, slots=True)
class Stacks:
    """Report the stack of each rank of this host (`Stack`)."""


@dataclass(frozen=True, slots=True)
class RunBefore:
    """Run the user's command that comes before the ranks, once on this host, and report its end
    (`BeforeEnded`). `placement` says how: its rank is the first one of the host."""

    wire_name = "before"
    placement: Placement


@dataclass(frozen=True, slots=True)
class StartAttempt:
    """Start the placements as this attempt."""

    wire_name = "start"
    attempt: int
    preload: bool
    """If True, each `argv` has the arguments of `python -m training`: one process imports torch and
    forks the ranks, and rank 0 inherits the reserved listening socket (RANKBOARD_LISTEN_FD is its
    number). Else each `argv` is a program, and the reserved socket is closed just before the start,
    because such a program binds MASTER_PORT itself."""
    placements: tuple[Placement, ...]
    hosts: tuple[int, ...] = ()
    """The indices of all hosts of the attempt, in the order of their ranks."""
    again: bool = False
    """If ranks fail, a launcher may start another attempt. The agent of a kept run waits for it."""
    follow: tuple[str, ...] = ()
    """Patterns of files below the folder that the ranks work in: new contents are reported."""
    attempts: int = 0
    """How many attempts this launcher allows in all; 0 if it does not say."""
    tell_written: bool = False
    """At the end, the agent names the files that the programs have written there."""


@dataclass(frozen=True, slots=True)
class Stop:
    """Send TERM to every rank and, after `grace` seconds, KILL. The agent keeps running."""

    grace: float = GRACE
    again: bool = False
    """As in `StartAttempt`: another attempt may still follow."""
    by_person: bool = False
    """A person stops the run, not a launcher that noticed a failure."""


@dataclass(frozen=True, slots=True)
class Close:
    """Stop all ranks, write `AgentEnded`, and exit."""


@dataclass(frozen=True, slots=True)
class OnDisconnect:
    """Keep the run, or stop it, when its launcher disconnects."""

    keep: bool


@dataclass(frozen=True, slots=True)
class Lease:
    """The launcher is alive. It sends this every second."""


Command = (
    Reserve
    | Keep
    | Connect
    | RunBefore
    | StartAttempt
    | Stacks
    | Stop
    | Close
    | OnDisconnect
    | Lease
)
_codec = Codec("command", get_args(Command))


def encode(command: Command) -> bytes:
    """Return the line of a command, with its newline."""
    # JSON escapes a lone surrogate as backslashreplace does.
    return dumps(_codec.object(command)).encode("utf-8", "backslashreplace") + b"\n"


def decode(line: bytes) -> Command | None:
    """Return the command of a line; None if it is not a command."""
    data = load(line)
    if data is None:
        return None
    command: Command | None = _codec.value(data)
    return command
