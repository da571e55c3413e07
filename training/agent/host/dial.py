"""Tests TCP connections from this host to others, all at once, without blocking the agent."""

from __future__ import annotations

import errno
import math
import os
import selectors
import socket
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial

ReportResult = Callable[[str, int, float, str], None]
"""Called with the result of a connection: the fields of `Connected`."""


class PendingConnection:
    """One pending connection. Times are by the monotonic clock."""

    def __init__(self, address: str, port: int, seconds: float) -> None:
        self.address = address
        self.port = port
        self.began_at = time.monotonic()
        self.deadline = self.began_at + seconds
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self.socket.setblocking(False)

    def begin(self) -> str | None:
        """Begin to connect. Return why that failed, "" if it is connected; None if it is under
        way."""
        try:
            # Only addresses: a name could take seconds to look up.
            socket.inet_pton(socket.AF_INET, self.address)
            error_code = self.socket.connect_ex((self.address, self.port))
        except (OSError, OverflowError) as error:
            return f"not an address and a port: {error}"
        return (
            None
            if error_code in (errno.EINPROGRESS, errno.EWOULDBLOCK)
            else _describe_code(error_code)
        )

    def result(self) -> str:
        """Return why it failed, now that it is no longer under way; "" if it is connected."""
        return _describe_code(self.socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR))


def _describe_code(code: int) -> str:
    return os.strerror(code) if code else ""


class Dialler:
    """Connects to each target, disconnects at once, and reports the result."""

    def __init__(self, selector: selectors.BaseSelector, report_result: ReportResult) -> None:
        self._selector = selector
        self._report_result = report_result
        self._pending_connections: list[PendingConnection] = []

    @property
    def due(self) -> float:
        """Return the next time at which a connection times out; infinite if none is pending."""
        return min((attempt.deadline for attempt in self._pending_connections), default=math.inf)

    def dial(self, targets: Iterable[tuple[str, int]], seconds: float) -> None:
        """Begin to connect to all of these addresses and ports, each for at most `seconds`."""
        for address, port in targets:
            attempt = PendingConnection(address, port, seconds)
            error = attempt.begin()
            if error is None:
                self._pending_connections.append(attempt)
                settle_attempt = partial(self._settle_attempt, attempt)
                self._selector.register(attempt.socket, selectors.EVENT_WRITE, settle_attempt)
            else:
                self._report_end(attempt, error)

    def _settle_attempt(self, attempt: PendingConnection, error: str = "") -> None:
        self._pending_connections.remove(attempt)
        self._selector.unregister(attempt.socket)
        self._report_end(attempt, error or attempt.result())

    def expire(self, now: float) -> None:
        """Give up the connections that timed out."""
        for attempt in [
            pending for pending in self._pending_connections if now >= pending.deadline
        ]:
            self._settle_attempt(
                attempt, f"timed out after {attempt.deadline - attempt.began_at:g} s"
            )

    def _report_end(self, attempt: PendingConnection, error: str) -> None:
        attempt.socket.close()
        self._report_result(
            attempt.address, attempt.port, time.monotonic() - attempt.began_at, error
        )


def dial_all(
    targets: Iterable[tuple[str, int]], seconds: float
) -> Iterator[tuple[str, int, float, str]]:
    """Connect to all of these addresses and ports. Yield each result as soon as it is known, as
    `ReportResult` gets it."""
    results: list[tuple[str, int, float, str]] = []
    selector = selectors.DefaultSelector()
    dialler = Dialler(selector, lambda *result: results.append(result))
    dialler.dial(targets, seconds)
    while dialler.due < math.inf:
        for key, _ in selector.select(max(0.0, dialler.due - time.monotonic())):
            key.data()
        dialler.expire(time.monotonic())
        yield from results
        results.clear()
    yield from results
