"""The connections of followers to an agent, and the lines that they send."""

from __future__ import annotations

import selectors
import socket
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial

from training.agent.decide import FollowerCame, FollowerLeft
from training.agent.ranks.pipes import CHUNK
from training.wire.line_cutter import LineCutter


@dataclass
class FollowerConnection:
    """The connection of a follower, and the cutter of its lines."""

    socket: socket.socket
    lines: LineCutter = field(default_factory=LineCutter)


class FollowerConnections:
    """Accepts followers, and passes on what they do, and each line that they send. The selector
    gets functions that the agent's loop calls."""

    def __init__(
        self,
        selector: selectors.BaseSelector,
        listener: socket.socket,
        take_input: Callable[[FollowerCame | FollowerLeft], None],
        obey_line: Callable[[bytes], None],
    ) -> None:
        self._selector = selector
        self._listener = listener
        self._take_input = take_input
        self._obey_line = obey_line
        self._open_connections: list[FollowerConnection] = []
        listener.setblocking(False)
        selector.register(listener, selectors.EVENT_READ, self._accept)

    def wake(self) -> None:
        """Make all followers read the journal."""
        for connection in self._open_connections:
            _wake(connection)

    def _accept(self) -> None:
        connection = FollowerConnection(self._listener.accept()[0])
        connection.socket.setblocking(False)
        self._open_connections.append(connection)
        self._take_input(FollowerCame())
        receive_lines = partial(self._receive, connection)
        self._selector.register(connection.socket, selectors.EVENT_READ, receive_lines)
        _wake(connection)  # for the records since its last read

    def _receive(self, connection: FollowerConnection) -> None:
        try:
            block = connection.socket.recv(CHUNK)
        # A follower that is killed with unread wake-ups resets the connection instead of ending it.
        except ConnectionError:
            block = b""
        if not block:
            self._selector.unregister(connection.socket)
            connection.socket.close()
            self._open_connections.remove(connection)
            self._take_input(FollowerLeft())
        for line in connection.lines.feed(block):
            self._obey_line(line.removesuffix(b"\n"))


def _wake(connection: FollowerConnection) -> None:
    # If the socket is full the follower reads anyway; if it is gone the loop notices.
    with suppress(BlockingIOError, ConnectionError):
        connection.socket.send(b"\n")
