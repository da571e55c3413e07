"""The connections to all hosts: for each the one in use, and one that is being opened beside it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from remote.limits import Limits
from remote.plan import needs
from remote.plan.plan import Plan
from remote.session.connection import CLOSED, Arrived, Broken, Connection, Message, Opened
from remote.session.controller import Controller
from remote.transport import Agent, Transport
from training.wire.commands import Command
from training.wire.jsonl import dumps
from training.wire.line_cutter import LineTooLong

Put = Callable[[Message], None]


class Pool:
    """Opens and closes connections, and passes on to the controller what becomes of them. Used by
    the thread that decides alone, but for `in_use`."""

    def __init__(
        self,
        plan: Plan,
        transport: Transport,
        controller: Controller,
        put: Put,
        now: Callable[[], float],
        cwd: str,
        limits: Limits,
    ) -> None:
        """`put`: where connections put messages. `now`: tells the session's time. `cwd`: where
        the ranks work; else where the plan says."""
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
        """The connections in use. From any thread."""
        return (connection for connection in self._in_use if connection)

    def connection(self, on: int) -> Connection | None:
        """The connection to a host that is in use."""
        return self._in_use[on]

    def open(self, on: int) -> None:
        """Open another connection to a host."""
        plan = self._plan
        state = self._controller.state
        agent = Agent(
            plan.folder(on),
            plan.run,
            on,
            plan.hosts[0].address,
            self._cwd or plan.cwd(on),
            after=state.hosts[on].seq,
            keep=state.course.keep,
            found=not (state.course.returned or state.hosts[on].left_out),
            needs=dumps(needs.on(plan, on)),
        )
        connection = Connection(on, plan.hosts[on], self._put, self._limits)
        self._opening[on] = connection
        connection.open(self._transport, agent)

    def send(self, on: int, command: Command) -> None:
        """Send a command over the connection in use, where there is one."""
        connection = self._in_use[on]
        if connection:
            connection.send(command)

    def close(self, on: int) -> None:
        """Close the connections to a host."""
        for connection in (self._in_use[on], self._opening[on]):
            if connection:
                self._let_go(connection)
        self._in_use[on] = self._opening[on] = None
        contact = self._controller.contacts[on]
        contact.is_open = contact.is_opening = False

    def close_all(self) -> None:
        """Close all connections, in the background."""
        for on in range(len(self._plan.hosts)):
            self.close(on)

    def wait(self) -> None:
        """Wait until all are closed; one that cannot be is left behind."""
        until = time.monotonic() + self._limits.flush + CLOSED
        for connection in self._closing:
            connection.wait(until)

    def observe(self, *, behind: float) -> None:
        """Note what no message says of the connections."""
        for contact, connection in zip(self._controller.contacts, self._in_use, strict=True):
            contact.behind = behind
            contact.held_up = connection.held_up if connection else 0.0

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
        on = connection.index
        if connection is not self._opening[on]:
            return
        self._opening[on] = None
        before = self._in_use[on]
        if before:
            # What is queued there must not come after what is sent over the new one.
            self._let_go(before, unsent=False)
        self._in_use[on] = connection
        self._controller.take_open(on, self._now())

    def _take_data(self, connection: Connection, data: bytes) -> None:
        """Take in what is new: what came over two connections counts once."""
        connection.room.release()
        on = connection.index
        if connection is not self._in_use[on]:
            return
        try:
            why = self._controller.take_lines(on, connection.whole_lines(data), self._now())
        except LineTooLong as error:
            why = self._controller.give_up(on, str(error))
        if why:
            self._in_use[on] = None
            self._controller.contacts[on].is_open = False
            self._let_go(connection)

    def _take_broken(self, connection: Connection, broken: Broken) -> None:
        on = connection.index
        in_use = connection is self._in_use[on]
        if in_use:
            self._in_use[on] = None
        elif connection is self._opening[on]:
            self._opening[on] = None
        else:
            return
        self._let_go(connection)
        fed = connection.fed
        reason = broken.reason
        cause = broken.failure.cause
        self._controller.take_broken(on, reason, self._now(), in_use=in_use, fed=fed, cause=cause)

    def _let_go(self, connection: Connection, *, unsent: bool = True) -> None:
        connection.close(unsent=unsent)
        self._closing = [one for one in self._closing if one.is_closing]
        self._closing.append(connection)
