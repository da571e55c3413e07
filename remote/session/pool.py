"""The connections to all hosts: for each the one in use, and one that is being opened beside it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from remote.limits import Limits
from remote.plan import needs
from remote.plan.plan import Plan
from remote.session.connection import CLOSED, Arrived, Broken, Connection, Message, Opened
from remote.session.controller import Controller
from remote.transport import AgentCommand, Transport
from training.wire.commands import Command
from training.wire.jsonl import dumps
from training.wire.line_cutter import LineTooLong


class Pool:
    """Opens and closes connections, and passes on to the controller what becomes of them. Used by
    the thread that decides alone, but for `in_use`."""

    def __init__(
        self,
        plan: Plan,
        transport: Transport,
        controller: Controller,
        put: Callable[[Message], None],
        now: Callable[[], float],
        cwd: str,
        limits: Limits,
    ) -> None:
        """`put`: takes the messages of connections. `now`: returns the session's time. `cwd`:
        where the ranks work; else where the plan says."""
        self._plan = plan
        self._transport = transport
        self._controller = controller
        self._put = put
        self._now = now
        self._cwd = cwd
        self._limits = limits
        self._in_use: list[Connection | None] = [None] * len(plan.hosts)
        self._opening: list[Connection | None] = [None] * len(plan.hosts)
        self._closing: list[Connection] = []

    def in_use(self) -> Iterator[Connection]:
        """Yield the connections in use. From any thread."""
        return (connection for connection in self._in_use if connection)

    def connection(self, host: int) -> Connection | None:
        """Return the connection to a host that is in use."""
        return self._in_use[host]

    def open(self, host: int) -> None:
        """Open another connection to a host."""
        plan = self._plan
        state = self._controller.state
        is_left_out = state.hosts[host].left_out
        agent = AgentCommand(
            plan.folder(host),
            plan.run,
            host,
            plan.hosts[0].address,
            self._cwd or plan.cwd(host),
            after=state.hosts[host].seq,
            keep=state.launcher.keep,
            found=not (state.launcher.returned or is_left_out),
            needs=dumps(needs.needs_of_host(plan, host)),
        )
        connection = Connection(host, plan.hosts[host], self._put, self._limits)
        self._opening[host] = connection
        connection.open(self._transport, agent)

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
        link = self._controller.links[host]
        link.is_open = False
        link.is_opening = False

    def close_all(self) -> None:
        """Close all connections, in the background."""
        for host in range(len(self._plan.hosts)):
            self.close(host)

    def wait(self) -> None:
        """Wait until all are closed; one that cannot be is left behind."""
        until = time.monotonic() + self._limits.flush + CLOSED
        for connection in self._closing:
            connection.wait(until)

    def observe(self, *, behind: float) -> None:
        """Note what no message says of the connections."""
        for link, connection in zip(self._controller.links, self._in_use, strict=True):
            link.behind = behind
            link.held_up = connection.held_up if connection else 0.0

    def take(self, message: Opened | Arrived | Broken) -> None:
        """Take in what has become of a connection."""
        match message:
            case Opened(connection):
                self._take_opened(connection)
            case Arrived(connection, data):
                self._take_data(connection, data)
            case Broken(connection):
                self._take_broken(connection, message)

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
        self._controller.take_open(host, self._now())

    def _take_data(self, connection: Connection, data: bytes) -> None:
        connection.room.release()
        host = connection.index
        if connection is not self._in_use[host]:  # what came over two connections counts once
            return
        try:
            lines = connection.whole_lines(data)
        except LineTooLong as error:
            why = self._controller.give_up(host, str(error))
        else:
            why = self._controller.take_lines(host, lines, self._now())
        if why:
            self._in_use[host] = None
            self._controller.links[host].is_open = False
            self._let_go(connection)

    def _take_broken(self, connection: Connection, broken: Broken) -> None:
        host = connection.index
        in_use = connection is self._in_use[host]
        if in_use:
            self._in_use[host] = None
        elif connection is self._opening[host]:
            self._opening[host] = None
        else:
            return
        self._let_go(connection)
        self._controller.take_broken(
            host, broken.failure, self._now(), in_use=in_use, fed=connection.fed
        )

    def _let_go(self, connection: Connection, *, unsent: bool = True) -> None:
        connection.close(unsent=unsent)
        self._closing = [other for other in self._closing if other.is_closing]
        self._closing.append(connection)
