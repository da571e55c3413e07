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

    def connection(self, host_index: int) -> Connection | None:
        """Return the connection to a host that is in use."""
        return self._in_use[host_index]

    def open(self, host_index: int) -> None:
        """Open another connection to a host."""
        run_state = self.controller.state
        plan = run_state.plan
        launcher = run_state.launcher
        host_state = run_state.hosts[host_index]
        agent_command = AgentCommand(
            plan.folder(host_index),
            plan.run,
            host_index,
            plan.hosts[0].address,
            self.cwd or plan.cwd(host_index),
            # The agent repeats its journal from there: what was lost with the last connection
            # comes again.
            after=host_state.seq,
            keep=launcher.keep,
            found=not (launcher.returned or host_state.left_out),
            needs=dumps(needs.needs_of_host(plan, host_index)),
            trains_job=plan.job is not None,
        )
        connection = Connection(host_index, plan.hosts[host_index], self.put, self.limits)
        self._opening[host_index] = connection
        connection.open(self.transport, agent_command)

    def send(self, host_index: int, command: Command) -> None:
        """Send a command over the connection in use, if there is one."""
        connection = self._in_use[host_index]
        if connection:
            connection.send(command)

    def close(self, host_index: int) -> None:
        """Close the connections to a host."""
        for connection in (self._in_use[host_index], self._opening[host_index]):
            if connection:
                self._let_go(connection)
        self._in_use[host_index] = None
        self._opening[host_index] = None
        link = self.controller.links[host_index]
        link.is_open = False
        link.is_opening = False

    def close_all(self) -> None:
        """Close all connections, in the background."""
        for link in self.controller.links:
            self.close(link.index)

    def wait(self) -> None:
        """Wait until all are closed; one that cannot be is left behind."""
        deadline = time.monotonic() + self.limits.flush + CLOSED
        for connection in self.closing:
            connection.wait(deadline)

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
        host_index = connection.index
        # It was given up while it was being opened.
        if connection is not self._opening[host_index]:
            return
        self._opening[host_index] = None
        previous = self._in_use[host_index]
        if previous:
            # What is queued there must not come after what is sent over the new one.
            self._let_go(previous, unsent=False)
        self._in_use[host_index] = connection
        self.controller.take_open(host_index, self.now())

    def _take_data(self, connection: Connection, data: bytes) -> None:
        connection.room.release()
        host_index = connection.index
        if connection is not self._in_use[host_index]:  # what came over two connections counts once
            return
        try:
            lines = connection.whole_lines(data)
        except LineTooLong as error:
            loss_reason = self.controller.give_up(host_index, str(error))
        else:
            loss_reason = self.controller.take_lines(host_index, lines, self.now())
        if loss_reason:
            self._in_use[host_index] = None
            self.controller.links[host_index].is_open = False
            self._let_go(connection)

    def _take_broken(self, connection: Connection, failure: Failure) -> None:
        host_index = connection.index
        for connections in (self._in_use, self._opening):
            if connection is connections[host_index]:
                connections[host_index] = None
                self._let_go(connection)
                in_use = connections is self._in_use
                self.controller.take_broken(
                    host_index, failure, self.now(), in_use=in_use, fed=connection.fed
                )

    def _let_go(self, connection: Connection, *, unsent: bool = True) -> None:
        connection.close(unsent=unsent)
        self.closing = [other for other in self.closing if other.is_closing]
        self.closing.append(connection)
