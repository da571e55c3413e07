"""The connections of followers to an agent, and the lines that they send."""

from __future__ import annotations

import selectors
import socket
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

from training.agent.ranks.pipes import CHUNK
from training.wire.line_cutter import LineCutter


@dataclass
class FollowerConnection:
    """The connection of a follower, and the cutter of its lines."""

    socket: socket.socket
    lines: LineCutter = field(default_factory=LineCutter)


class FollowerConnections:
    """Accepts followers, and calls `on_connect`, `on_disconnect` and, for each line, `on_line`. The
    selector gets functions that the agent's loop calls."""

    def __init__(
        self,
        selector: selectors.BaseSelector,
        listener: socket.socket,
        on_connect: Callable[[], None],
        on_disconnect: Callable[[], None],
        on_line: Callable[[bytes], None],
    ) -> None:
        self._selector = selector
        self._listener = listener
        self._on_connect = on_connect
        self._on_disconnect = on_disconnect
        self._on_line = on_line
        self._open: list[FollowerConnection] = []
        listener.setblocking(False)
        selector.register(listener, selectors.EVENT_READ, self._accept)

    def wake(self) -> None:
        """Make all followers read the journal."""
        for connection in self._open:
            _wake(connection)

    def _accept(self) -> None:
        connection = FollowerConnection(self._listener.accept()[0])
        connection.socket.setblocking(False)
        self._open.append(connection)
        self._on_connect()
        self._selector.register(
            connection.socket, selectors.EVENT_READ, lambda: self._receive(connection)
        )
        _wake(connection)  # for the records since its last read

    def _receive(self, connection: FollowerConnection) -> None:
        try:
            block = connection.socket.recv(CHUNK)
        except ConnectionError:
            block = b""
        if not block:
            self._selector.unregister(connection.socket)
            connection.socket.close()
            self._open.remove(connection)
            self._on_disconnect()
        for line in connection.lines.feed(block):
            self._on_line(line.removesuffix(b"\n"))


def _wake(connection: FollowerConnection) -> None:
    # If the socket is full the follower reads anyway; if it is gone the loop notices.
    with suppress(BlockingIOError, ConnectionError):
        connection.socket.send(b"\n")
