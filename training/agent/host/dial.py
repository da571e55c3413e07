"""Tests TCP connections from this host to others, all at once, without blocking the agent."""

from __future__ import annotations

import errno
import math
import os
import selectors
import socket
import time
from collections.abc import Callable, Iterable

ReportResult = Callable[[str, int, float, str], None]
"""Called with the result of a connection: the fields of `Connected`."""


class PendingConnection:
    """One pending connection. Times are by the monotonic clock."""

    def __init__(self, address: str, port: int, seconds: float) -> None:
        self.address = address
        self.port = port
        self.since = time.monotonic()
        self.until = self.since + seconds
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self.socket.setblocking(False)


class Dialler:
    """Connects to each target, disconnects at once, and reports the result."""

    def __init__(self, selector: selectors.BaseSelector, report_result: ReportResult) -> None:
        self._selector = selector
        self._report_result = report_result
        self._pending: list[PendingConnection] = []

    @property
    def due(self) -> float:
        """Return the next time at which a connection times out."""
        return min((attempt.until for attempt in self._pending), default=math.inf)

    def dial(self, targets: Iterable[tuple[str, int]], seconds: float) -> None:
        """Begin to connect to all of these addresses and ports, each for at most `seconds`."""
        for address, port in targets:
            attempt = PendingConnection(address, port, seconds)
            self._pending.append(attempt)
            self._begin(attempt)

    def _begin(self, attempt: PendingConnection) -> None:
        try:
            # Only addresses: a name could take seconds to look up.
            socket.inet_pton(socket.AF_INET, attempt.address)
            code = attempt.socket.connect_ex((attempt.address, attempt.port))
        except (OSError, OverflowError) as error:
            self._end(attempt, f"not an address and a port: {error}")
            return
        if code in (errno.EINPROGRESS, errno.EWOULDBLOCK):
            self._selector.register(
                attempt.socket, selectors.EVENT_WRITE, lambda: self._settle(attempt)
            )
        else:
            self._end(attempt, os.strerror(code) if code else "")

    def _settle(self, attempt: PendingConnection) -> None:
        self._selector.unregister(attempt.socket)
        code = attempt.socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        self._end(attempt, os.strerror(code) if code else "")

    def expire(self, now: float) -> None:
        """Give up the connections that timed out."""
        for attempt in [pending for pending in self._pending if now >= pending.until]:
            self._selector.unregister(attempt.socket)
            self._end(attempt, f"timed out after {attempt.until - attempt.since:g} s")

    def _end(self, attempt: PendingConnection, error: str) -> None:
        self._pending.remove(attempt)
        attempt.socket.close()
        self._report_result(attempt.address, attempt.port, time.monotonic() - attempt.since, error)
