"""What a session may do: the results of its decisions."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass

from training.wire.commands import Command
from training.wire.events import Event


@dataclass(frozen=True)
class Say:
    """Record an event of the session, and take it in."""

    event: Event


@dataclass(frozen=True)
class Send:
    """Send a command to a host, over the connection in use."""

    host: int
    command: Command
    key: Hashable
    """Tells the command from others that were sent over this connection."""


@dataclass(frozen=True)
class Open:
    """Open another connection to a host."""

    host: int


@dataclass(frozen=True)
class Release:
    """Close the connections to a host, from which nothing more is needed."""

    host: int


@dataclass(frozen=True)
class Upload:
    """Bring the operator's folders to all hosts."""


@dataclass(frozen=True)
class Fetch:
    """Bring results from these hosts."""

    hosts: tuple[int, ...]


@dataclass(frozen=True)
class StopTransfers:
    """End the transfers that are under way."""


Action = Say | Send | Open | Release | Upload | Fetch | StopTransfers
Actions = Iterator[Action]
"""What a rule decides: it yields nothing if there is nothing to do."""
