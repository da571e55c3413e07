"""The channel to a program over the pipes of a process of this machine."""

from __future__ import annotations

import math
import os
import select
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import IO

CLOSING = 1.0
"""Seconds that a follower has to end after its stdin is closed."""
TAIL = 4096
"""Bytes of stderr that are kept for an explanation."""
BLOCK = 65536
LOOK = 0.1
"""Seconds between two checks, during a write, whether the channel was closed."""


def start_process(
    argv: Sequence[str], env: Mapping[str, str] | None = None
) -> subprocess.Popen[bytes]:
    """Start a process with pipes, in a session of its own. Raises: OSError."""
    pipe = subprocess.PIPE
    return subprocess.Popen(
        argv, stdin=pipe, stdout=pipe, stderr=pipe, bufsize=0, start_new_session=True, env=env
    )


def _pipe(pipe: IO[bytes] | None) -> IO[bytes]:
    assert pipe is not None
    return pipe


def is_ready(pipe: IO[bytes], seconds: float = 0.0) -> bool:
    """Return True if the pipe has bytes, or has ended, within so many seconds."""
    poll = select.poll()  # `select.select` takes no descriptor above 1023
    poll.register(pipe, select.POLLIN)
    return bool(poll.poll(seconds * 1000))


class ProcessChannel:
    """The pipes of one process. `read` belongs to one thread; any thread may write and close."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self._in = _pipe(process.stdin)
        self._out = _pipe(process.stdout)
        self._err = _pipe(process.stderr)
        self._woken, self._wake = os.pipe()
        self._poll = select.poll()
        for descriptor in (self._out.fileno(), self._err.fileno(), self._woken):
            self._poll.register(descriptor, select.POLLIN)
        # so that `close` need not wait for a write to a process that does not read
        os.set_blocking(self._in.fileno(), False)
        self._writable = select.poll()
        self._writable.register(self._in.fileno(), select.POLLOUT)
        self._reading = threading.Lock()
        self._writing = threading.Lock()
        self._rest = b""
        self._tail = b""
        self._is_closing = False
        self._is_closed = False

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
                timeout = None
                if deadline is not None:
                    timeout = max(0.0, deadline - time.monotonic()) * 1000
                ready = dict(self._poll.poll(timeout))
                if self._err.fileno() in ready:
                    data = self._read_error()
                    if not data:
                        self._poll.unregister(self._err.fileno())
                if self._out.fileno() in ready:
                    return os.read(self._out.fileno(), BLOCK)
                if not ready or self._woken in ready:
                    break
            return b""

    def _read_error(self) -> bytes:
        data = os.read(self._err.fileno(), BLOCK)
        self._tail = (self._tail + data)[-TAIL:]
        return data

    def write(self, data: bytes, until: float = math.inf) -> None:
        """Send command lines before the monotonic time `until`. Raises: OSError, if the channel has
        ended; TimeoutError."""
        with self._writing:
            while data:
                if self._is_closing:
                    raise BrokenPipeError("the channel is closed")
                if time.monotonic() >= until:
                    raise TimeoutError
                try:
                    written = os.write(self._in.fileno(), data)
                    data = data[written:]
                except BlockingIOError:
                    self._writable.poll(LOOK * 1000)

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
            while is_ready(self._err) and self._read_error():
                continue
