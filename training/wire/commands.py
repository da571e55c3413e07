"""What a session tells a host's agent: typed commands, one JSON line each, on the agent's line
in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import get_args

from training.wire.codec import Codec
from training.wire.jsonl import dumps, load


@dataclass(frozen=True, slots=True)
class Placement:
    """One rank on one host: what to start and with which environment (added to the agent's own).

    `secret` are the names of those variables whose values only the rank may see.
    """

    rank: int
    local_rank: int
    argv: tuple[str, ...]
    env: tuple[tuple[str, str], ...]
    secret: tuple[str, ...] = ()


def stand_in(name: str) -> str:
    """What is shown in place of the value of a secret variable."""
    return f"[{name}]"


@dataclass(frozen=True, slots=True)
class Reserve:
    """Bind a listening socket for the rendezvous on `address`, at `port` or (0) any free one."""

    address: str
    port: int


@dataclass(frozen=True, slots=True)
class Keep:
    """Keep this text in the run's folder under this name, a plain file name: the plan, for whoever
    comes back to the run."""

    name: str
    text: str


@dataclass(frozen=True, slots=True)
class Connect:
    """Try a TCP connection to each of these (address, port), for `seconds` at most, and tell
    (`Connected`) what came of it."""

    targets: tuple[tuple[str, int], ...]
    seconds: float = 3.0


@dataclass(frozen=True, slots=True)
class Stacks:
    """Tell where each rank of this host is (`Stack`)."""


@dataclass(frozen=True, slots=True)
class Start:
    """Start the placements as this attempt.

    `preload`: the argv are arguments of `python -m training`; one process imports torch and forks
    the ranks, and rank 0 gets the reserved listening socket (its number in RANKBOARD_LISTEN_FD).
    Otherwise each argv is a program of its own, started plainly, and the reserved socket is closed
    just before, since such a program binds MASTER_PORT itself.

    `hosts` are the numbers of all hosts that take part, in the order of their ranks. `again`:
    should ranks fail, all may be started once more, and an agent that is kept waits for that where
    nobody is there.
    """

    attempt: int
    preload: bool
    placements: tuple[Placement, ...]
    hosts: tuple[int, ...] = ()
    again: bool = False


@dataclass(frozen=True, slots=True)
class Stop:
    """TERM to every rank, `grace` seconds, then KILL. The agent lives on. `again`: what `Start`
    said of it still holds; `by_person`: a person asks for it, and not a launcher that has seen a
    failure."""

    grace: float = 2.0
    again: bool = False
    by_person: bool = False


@dataclass(frozen=True, slots=True)
class Close:
    """Stop what still runs, write `Ended`, and end."""


@dataclass(frozen=True, slots=True)
class OnDisconnect:
    """What becomes of the run when its operator has gone from now on: it is kept, or stopped."""

    keep: bool


@dataclass(frozen=True, slots=True)
class Lease:
    """The operator is there: sent each second."""


Command = Reserve | Keep | Connect | Start | Stacks | Stop | Close | OnDisconnect | Lease
_codec = Codec("command", get_args(Command))


def encode(command: Command) -> bytes:
    """The line (with its newline) of a command."""
    return (
        dumps(_codec.object(command)).encode("utf-8", "backslashreplace") + b"\n"
    )  # so JSON escapes a lone surrogate


def decode(line: bytes) -> Command | None:
    """The command of a line, or None where it is none."""
    data = load(line)
    command: Command | None = _codec.value(data) if data is not None else None
    return command
