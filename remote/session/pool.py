"""The connections to all hosts: for each the one in use, and one that is being opened beside it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from remote.limits import Limits
from remote.plan import needs
from remote.session.connection import CLOSED, Arrived, Broken, Connection, Message, Opened
from remote.session.controller import Controller
from remote.transport import AgentCommand, Transport
from remote.transport.failure import Failure
from training.wire.commands import Command
from training.wire.jsonl import dumps
from training.wire.line_cutter import LineTooLong


@dataclass
class Pool:
    """Opens and closes connections, and passes on to the controller what becomes of them. Used by
    the thread that decides alone, but for `in_use`."""

    transport: Transport
    controller: Controller
    put: Callable[[Message], None]
    """Takes the messages of connections."""
    now: Callable[[], float]
    """Returns the session's time."""
    cwd: str
    """Where the ranks work; else where the plan says."""
    limits: Limits
    closing: list[Connection] = field(default_factory=list)

    def __post_init__(self) -> None:
        hosts = self.controller.state.hosts
        self._in_use: list[Connection | None] = [None for _ in hosts]
        self._opening: list[Connection | None] = [None for _ in hosts]

    def in_use(self) -> Iterator[Connection]:
        """Yield the connections in use. From any thread."""
        return (connection for connection in self._in_use if connection)

    def connection(self, host: int) -> Connection | None:
        """Return the connection to a host that is in use."""
        return self._in_use[host]

    def open(self, host: int) -> None:
        """Open another connection to a host."""
        state = self.controller.state
        plan = state.plan
        launcher = state.launcher
        target = state.hosts[host]
        agent = AgentCommand(
            plan.folder(host),
            plan.run,
            host,
            plan.hosts[0].address,
            self.cwd or plan.cwd(host),
            after=target.seq,
            keep=launcher.keep,
            found=not (launcher.returned or target.left_out),
            needs=dumps(needs.needs_of_host(plan, host)),
        )
        connection = Connection(host, plan.hosts[host], self.put, self.limits)
        self._opening[host] = connection
        connection.open(self.transport, agent)

    def send(self, host: int, command: Command) -> None:
        """Send a command over the connection in use, if there is one."""
        connection = self._in_use[host]
        if connection:
            connection.send(command)

    def close(self, host: int) -> None:
        """Close the connections to a host."""
        for connection in (self._in_use[host], self._opening[host]):
            if connection:
                self._let_go(connection)
        self._in_use[host] = None
        self._opening[host] = None
        link = self.controller.links[host]
        link.is_open = False
        link.is_opening = False

    def close_all(self) -> None:
        """Close all connections, in the background."""
        for link in self.controller.links:
            self.close(link.index)

    def wait(self) -> None:
        """Wait until all are closed; one that cannot be is left behind."""
        until = time.monotonic() + self.limits.flush + CLOSED
        for connection in self.closing:
            connection.wait(until)

    def observe(self, *, behind: float) -> None:
        """Note what no message says of the connections."""
        for link, connection in zip(self.controller.links, self._in_use, strict=True):
            link.behind = behind
            link.held_up = connection.held_up if connection else 0.0

    def take(self, message: Opened | Arrived | Broken) -> None:
        """Take in what has become of a connection."""
        match message:
            case Opened(connection):
                self._take_opened(connection)
            case Arrived(connection, data):
                self._take_data(connection, data)
            case Broken(connection, failure):
                self._take_broken(connection, failure)

    def _take_opened(self, connection: Connection) -> None:
        host = connection.index
        if connection is not self._opening[host]:
            return
        self._opening[host] = None
        previous = self._in_use[host]
        if previous:
            # What is queued there must not come after what is sent over the new one.
            self._let_go(previous, unsent=False)
        self._in_use[host] = connection
        self.controller.take_open(host, self.now())

    def _take_data(self, connection: Connection, data: bytes) -> None:
        connection.room.release()
        host = connection.index
        if connection is not self._in_use[host]:  # what came over two connections counts once
            return
        try:
            lines = connection.whole_lines(data)
        except LineTooLong as error:
            why = self.controller.give_up(host, str(error))
        else:
            why = self.controller.take_lines(host, lines, self.now())
        if why:
            self._in_use[host] = None
            self.controller.links[host].is_open = False
            self._let_go(connection)

    def _take_broken(self, connection: Connection, failure: Failure) -> None:
        host = connection.index
        for connections in (self._in_use, self._opening):
            if connection is connections[host]:
                connections[host] = None
                self._let_go(connection)
                in_use = connections is self._in_use
                self.controller.take_broken(
                    host, failure, self.now(), in_use=in_use, fed=connection.fed
                )

    def _let_go(self, connection: Connection, *, unsent: bool = True) -> None:
        connection.close(unsent=unsent)
        self.closing = [other for other in self.closing if other.is_closing]
        self.closing.append(connection)
