"""Reach the agents of hosts: the contract of a transport.

A transport is one module or package of this folder. It assigns `TRANSPORT`, a `TransportKind`, at
its top level, and importing it is cheap: what takes time to import is imported by its `make`.
Its name is what a host's `transport` says in hosts.toml. `remote.transport.registry` finds it;
nothing else names it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from msgspec import Struct

from remote.cluster.hosts import Host
from remote.transport.failure import Failure
from remote.transport.host_keys import HostKeys
from training.wire.enums import Reach


class Unreachable(Exception):
    """A host's agent could not be reached. The text says why and what to do, in one or two
    lines."""

    def __init__(self, host: str, failure: Failure) -> None:
        """Name the host in the text."""
        super().__init__(f"{host}: {failure.text}")
        self.failure = failure


class Program(Protocol):
    """A program to run on a host: `python -m training.agent` with these arguments."""

    def argv(self) -> tuple[str, ...]:
        """Return the arguments, the first of which is a verb."""


class HostCommand(Struct, frozen=True):
    """A short program on a host: see `training.agent.host_commands.command_table`."""

    words: tuple[str, ...]

    def argv(self) -> tuple[str, ...]:
        """Return the verb and its arguments."""
        return self.words


class AgentCommand(Struct, frozen=True):
    """Starts the agent of one host for one run, or returns to it."""

    folder: str
    """The run's folder on the host."""
    run: str
    host: int
    """The index of the host in the run."""
    route_to: str
    """The address to which the host reports its route."""
    cwd: str
    """Where its ranks work."""
    after: int = 0
    """The last record number that is known."""
    keep: bool = False
    """The run continues without its launcher."""
    found: bool = True
    """Start an agent if there is none."""
    needs: str = ""
    """What its `Hello` has to report, see `remote.plan.needs`."""
    trains_job: bool = False
    """Its ranks are forks of a process that has imported torch; those of a script are not."""

    def argv(self) -> tuple[str, ...]:
        """Return the verb `follow` and its arguments."""
        options = {
            "folder": self.folder,
            "run": self.run,
            "host": self.host,
            "after": self.after,
            "policy": "keep" if self.keep else "stop",
            "route-to": self.route_to,
            "cwd": self.cwd,
            "needs": self.needs,
        }
        argument_words = ["follow"]
        if not self.found:
            argument_words.append("--no-found")
        for option_name, option_value in options.items():
            argument_words += [f"--{option_name}", str(option_value)]
        return tuple(argument_words)


class Channel(Protocol):
    """The byte channel to the program on one host: its stdin and stdout."""

    def read(self) -> bytes:
        """Wait for bytes of the journal or of an answer, and return them; b"" once the channel has
        ended or was closed."""

    def write(self, data: bytes) -> None:
        """Send command lines. Raises: OSError, if the channel has ended."""

    def close(self) -> str:
        """End the channel. Return what the far end said on stderr, if that explains an early
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
"""Returns what to put before a command so that it runs on the host of this name; hosts of a lab are
entered so."""


class TransportKind(Struct, frozen=True):
    """What is known of a transport before it is made."""

    make: Callable[[Enter], Transport]
    is_here: bool = False
    """Its hosts are this machine, so that they see its files."""
    shares_environment: bool = False
    """Its ranks have the variables of the shell that starts rankboard."""
    reached: str = ""
    """What messages say of a host that is reached, such as "ssh ok"."""
    by_hand: Callable[[Host, Sequence[str]], str] = lambda _, words: ""
    """Returns the command with which a person runs these words on a host; "" for a host
    that is this machine."""
    host_keys: Callable[[], HostKeys] | None = None
    """Makes the keeper of host keys, if hosts prove who they are by keys that the user has to
    accept."""
