"""Commands of a launcher to the agent of a host: one JSON object per line."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, get_args

from training.wire.codec import Codec
from training.wire.jsonl import dumps, load


@dataclass(frozen=True, slots=True)
class Placement:
    """One rank on one host: the program to start, and the variables to add to the environment of
    the agent.

    `secret` names the variables whose values only the rank may see. `defaults` are variables to add
    where the environment has none of that name.
    """

    rank: int
    local_rank: int
    argv: tuple[str, ...]
    env: tuple[tuple[str, str], ...]
    secret: tuple[str, ...] = ()
    defaults: tuple[tuple[str, str], ...] = ()


def stand_in(name: str) -> str:
    """The text that replaces the value of a secret variable in all output."""
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
    attach to the run. `age`: the run began so many seconds ago, from which the agent counts on; 0
    if the launcher does not know."""

    name: str
    text: str
    age: float = 0.0


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
class StartAttempt:
    """Start the placements as this attempt.

    `preload`: each `argv` has the arguments of `python -m training`. One process imports torch and
    forks the ranks; rank 0 inherits the reserved listening socket (RANKBOARD_LISTEN_FD is its
    number). Without `preload`, each `argv` is a program. The reserved socket is closed just before
    the start, because such a program binds MASTER_PORT itself.

    `hosts` are the indices of all hosts of the attempt, in the order of their ranks. `again`: if
    ranks fail, a launcher may start another attempt. The agent of a kept run waits for it. `follow`
    are patterns of files, below the folder that the ranks work in, whose new contents are told.
    `attempts` is how many this launcher allows in all, 0 if it does not say. `tell_written`: at the
    end, the agent tells which files the programs have written there.
    """

    wire_name: ClassVar[str] = "start"

    attempt: int
    preload: bool
    placements: tuple[Placement, ...]
    hosts: tuple[int, ...] = ()
    again: bool = False
    follow: tuple[str, ...] = ()
    attempts: int = 0
    tell_written: bool = False


@dataclass(frozen=True, slots=True)
class Stop:
    """Send TERM to every rank and, after `grace` seconds, KILL. The agent keeps running.

    `again`: as in `StartAttempt`; another attempt may still follow. `by_person`: a person stops
    the run, not a launcher that noticed a failure.
    """

    grace: float = 2.0
    again: bool = False
    by_person: bool = False


@dataclass(frozen=True, slots=True)
class Close:
    """Stop all ranks, write `Ended`, and exit."""


@dataclass(frozen=True, slots=True)
class OnDisconnect:
    """Keep the run, or stop it, when its launcher disconnects."""

    keep: bool


@dataclass(frozen=True, slots=True)
class Lease:
    """The launcher is alive. It sends this every second."""


Command = Reserve | Keep | Connect | StartAttempt | Stacks | Stop | Close | OnDisconnect | Lease
_codec = Codec("command", get_args(Command))


def encode(command: Command) -> bytes:
    """The line (with its newline) of a command."""
    # JSON escapes a lone surrogate as backslashreplace does.
    return dumps(_codec.object(command)).encode("utf-8", "backslashreplace") + b"\n"


def decode(line: bytes) -> Command | None:
    """The command of a line; None if it is not a command."""
    data = load(line)
    command: Command | None = _codec.value(data) if data is not None else None
    return command
