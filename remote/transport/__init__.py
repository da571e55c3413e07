"""How a host's agent is reached: the contract of a transport.

A transport is one module or package of this folder. It assigns `TRANSPORT`, a `TransportKind`, at
its top level, and importing it is cheap: what takes time to import is imported by its `make`.
Its name is what a host's `transport` says in hosts.toml. `remote.transport.registry` finds it;
nothing else names it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from remote.cluster.hosts import Host
from remote.transport.failure import Failure
from remote.transport.host_keys import HostKeys
from training.wire.enums import Reach


class Unreachable(Exception):
    """A host's agent could not be reached; the text says why and what to do, in one or two
    lines."""

    def __init__(self, host: str, failure: Failure) -> None:
        """`host` is its name."""
        super().__init__(f"{host}: {failure.text}")
        self.failure = failure


class Program(Protocol):
    """What is to run on a host: `python -m training.agent` with these arguments."""

    def argv(self) -> tuple[str, ...]:
        """The arguments, the first of which is a verb."""


@dataclass(frozen=True)
class HostCommand:
    """A short program on a host: see `training.agent.host_commands.command_table`."""

    words: tuple[str, ...]

    def argv(self) -> tuple[str, ...]:
        """The verb and its arguments."""
        return self.words


@dataclass(frozen=True)
class AgentCommand:
    """Starts the agent of one host for one run, or returns to it.

    `after` is the last sequence number that is known. `keep`: the run continues without its
    launcher. The host reports its route to the address `route_to`. `cwd` is where its ranks work.
    `found`: start an agent if there is none. `needs` is what its `Hello` has to report, see
    `remote.plan.needs`.
    """

    folder: str
    run: str
    host: int
    route_to: str
    cwd: str
    after: int = 0
    keep: bool = False
    found: bool = True
    needs: str = ""

    def argv(self) -> tuple[str, ...]:
        """The verb `follow` and its arguments."""
        said = {"folder": self.folder, "run": self.run, "host": self.host, "after": self.after}
        said |= {
            "policy": "keep" if self.keep else "stop",
            "route-to": self.route_to,
            "cwd": self.cwd,
        }
        said |= {"needs": self.needs}
        more = () if self.found else ("--no-found",)
        return (
            "follow",
            *more,
            *(word for key, value in said.items() for word in (f"--{key}", str(value))),
        )


class Channel(Protocol):
    """The byte channel to the program on one host: stdin and stdout of a follower or an errand."""

    def read(self) -> bytes:
        """Some bytes of the journal or an errand's answer. Waits until some come; b"" once the
        channel has ended or was closed."""

    def write(self, data: bytes) -> None:
        """Send command lines. Raises: OSError, where the channel has ended."""

    def close(self) -> str:
        """End the channel. Returns what the far end said on stderr, where that explains an early
        end."""


class ReachProgress(Protocol):
    """Takes the progress of a transport: how far it is, and what a login shell printed."""

    def phase(self, name: Reach) -> None: ...

    def said(self, text: str) -> None: ...


class NoProgress:
    """Ignores the progress of a transport, as nobody waits to see it."""

    def phase(self, name: Reach) -> None:
        pass

    def said(self, text: str) -> None:
        pass


class Transport(Protocol):
    """Reaches hosts. `open` is called for several hosts at once, each in a thread of its own."""

    def open(self, host: Host, program: Program, progress: ReachProgress) -> Channel:
        """Reach the host, run the program there, and return the channel once its marker has come.

        Raises: Unreachable, within the host's timeout.
        """


Enter = Callable[[str], Sequence[str]]
"""Gives what to put before a command so that it runs on the host of this name; a lab has hosts that
are entered so."""


@dataclass(frozen=True)
class TransportKind:
    """What is known of a transport before it is made.

    `make` makes it. `is_here`: its hosts are this machine, so that they see its files.
    `shares_environment`: its ranks have the variables of the shell that starts rankboard. `reached`
    is what messages say of a host that is reached, such as "ssh ok". `by_hand` gives the command
    with which a person reaches a host, or "". `host_keys` is for a transport whose hosts prove who
    they are by keys that the user has to accept.
    """

    make: Callable[[Enter], Transport]
    is_here: bool = False
    shares_environment: bool = False
    reached: str = ""
    by_hand: Callable[[Host], str] = lambda _: ""
    host_keys: Callable[[], HostKeys] | None = None
