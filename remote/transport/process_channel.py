"""The channel to a program over the pipes of a process of this machine."""

from __future__ import annotations

import math
import os
import select
import subprocess
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress

from remote.transport.failure import Deadline

CLOSING = 1.0
"""Seconds that a follower has to end after its stdin is closed."""
STATUS = 2.0
"""Seconds to wait for the exit status of a process that has ended its output."""
TAIL = 4096
"""Bytes of stderr that are kept for an explanation."""
BLOCK = 65536
LOOK = 0.1
"""Seconds between two checks, during a write, whether the channel was closed."""


def start_process(
    argv: Sequence[str], variables: Mapping[str, str] | None = None
) -> subprocess.Popen[bytes]:
    """Start a process with pipes, in a session of its own. Raises: OSError."""
    pipe = subprocess.PIPE
    return subprocess.Popen(
        argv, stdin=pipe, stdout=pipe, stderr=pipe, bufsize=0, start_new_session=True, env=variables
    )


def wait_ready(
    descriptors: Iterable[int], seconds: float | None = 0.0, poll_events: int = select.POLLIN
) -> set[int]:
    """Return which of these pipes have bytes, or have ended, within so many seconds; None: wait
    until one has."""
    poll = select.poll()  # `select.select` takes no descriptor above 1023
    for descriptor in descriptors:
        poll.register(descriptor, poll_events)
    return set(dict(poll.poll(None if seconds is None else seconds * 1000)))


class ProcessChannel:
    """The pipes of one process. `read` belongs to one thread; any thread may write and close."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdin
        assert process.stdout
        assert process.stderr
        self._process = process
        self._in = process.stdin
        self._out = process.stdout
        self._err = process.stderr
        self._woken, self._wake = os.pipe()
        self._sources = {self._out.fileno(), self._err.fileno(), self._woken}
        # so that `close` need not wait for a write to a process that does not read
        os.set_blocking(self._in.fileno(), False)
        self._reading = threading.Lock()
        self._writing = threading.Lock()
        self._rest = b""
        self._tail = b""
        self._is_closing = False
        self._is_closed = False

    def receive(self, deadline: Deadline) -> bytes:
        """Return the next bytes before the deadline; b"" at their end. Raises: TimeoutError."""
        data = self._next(deadline.end)
        if not data and deadline.is_over:
            raise TimeoutError
        return data

    def send(self, data: bytes, deadline: Deadline) -> None:
        """Send much. The deadline starts again with each part. Raises: TimeoutError, OSError."""
        for part_start in range(0, len(data), BLOCK):
            self.write(data[part_start : part_start + BLOCK], deadline.end)
            deadline.restart()

    def begin(self, first_bytes: bytes) -> None:
        """Note that the program speaks, with these bytes first."""
        self._rest = first_bytes
        self._tail = b""

    def ended(self) -> tuple[int, str]:
        """Return the exit status (-1: none came) and the end of stderr, once the output has
        ended."""
        exit_status = -1
        with suppress(subprocess.TimeoutExpired):
            exit_status = self._process.wait(STATUS)
        self._drain_errors()
        return exit_status, self._last_words()

    def read(self) -> bytes:
        """Return some bytes of the journal; b"" once the channel has ended or was closed."""
        data = self._rest
        self._rest = b""
        return data or self._next(None)

    def _next(self, deadline: float | None) -> bytes:
        """Return the next bytes of stdout; b"" at its end, at the deadline, or when `close` gives
        up."""
        with self._reading:
            while not self._out.closed:
                timeout = None if deadline is None else max(0.0, deadline - time.monotonic())
                ready_descriptors = wait_ready(self._sources, timeout)
                if self._err.fileno() in ready_descriptors and not self._read_error():
                    self._sources.discard(self._err.fileno())
                if self._out.fileno() in ready_descriptors:
                    return os.read(self._out.fileno(), BLOCK)
                # Output is taken first, so that none is lost when `close` wakes this thread.
                if not ready_descriptors or self._woken in ready_descriptors:
                    break
            return b""

    def _read_error(self) -> bytes:
        data = os.read(self._err.fileno(), BLOCK)
        self._tail = (self._tail + data)[-TAIL:]
        return data

    def write(self, data: bytes, deadline: float = math.inf) -> None:
        """Send command lines before the monotonic time `deadline`. Raises: OSError, if the channel
        has ended; TimeoutError."""
        with self._writing:
            while data:
                if self._is_closing:
                    raise BrokenPipeError("the channel is closed")
                if time.monotonic() >= deadline:
                    raise TimeoutError
                try:
                    data = data[os.write(self._in.fileno(), data) :]
                except BlockingIOError:
                    wait_ready([self._in.fileno()], LOOK, select.POLLOUT)

    def close(self) -> str:
        """End the channel: within `CLOSING` seconds or little more, from any thread, any number of
        times. Return the end of stderr."""
        self._is_closing = True
        with self._writing:
            if not self._is_closed:
                self._is_closed = True
                self._in.close()
                self._end()
        return self._last_words()

    def _last_words(self) -> str:
        return self._tail.decode(errors="replace").strip()

    def _end(self) -> None:
        self._leave()
        # something that the follower left behind may hold its pipes open
        os.write(self._wake, b"x")
        self._drain_errors()
        with self._reading:
            self._out.close()
            self._err.close()
            os.close(self._wake)
            os.close(self._woken)

    def _leave(self) -> None:
        """Let the process end by itself first, so that what was written arrives; then kill it."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(CLOSING)
        self._kill()

    def _kill(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()

    def _drain_errors(self) -> None:
        """Take what there is of stderr."""
        with self._reading:
            while wait_ready([self._err.fileno()]) and self._read_error():
                continue
