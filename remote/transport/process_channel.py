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


def _there(pipe: IO[bytes] | None) -> IO[bytes]:
    assert pipe is not None
    return pipe


def is_ready(pipe: IO[bytes], seconds: float = 0.0) -> bool:
    """Whether the pipe has bytes, or has ended, within so many seconds. `select.select` takes no
    descriptor above 1023."""
    poll = select.poll()
    poll.register(pipe, select.POLLIN)
    return bool(poll.poll(seconds * 1000))


class ProcessChannel:
    """The pipes of one process. `read` belongs to one thread; any thread may write and close."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self._in, self._out, self._err = map(
            _there, (process.stdin, process.stdout, process.stderr)
        )
        self._woken, self._wake = os.pipe()
        self._poll = select.poll()
        for fd in (self._out.fileno(), self._err.fileno(), self._woken):
            self._poll.register(fd, select.POLLIN)
        os.set_blocking(
            self._in.fileno(), False
        )  # so that `close` need not wait for a write to a process that does not read
        self._room = select.poll()
        self._room.register(self._in.fileno(), select.POLLOUT)
        self._reading, self._writing = threading.Lock(), threading.Lock()
        self._rest = self._tail = b""
        self._closing = self._closed = False

    def read(self) -> bytes:
        """Some bytes of the journal; b"" once the channel has ended or was closed."""
        data = self._rest
        self._rest = b""
        return data or self._next(None)

    def _next(self, deadline: float | None) -> bytes:
        """The next bytes of stdout; b"" at its end, at the deadline, or when `close` gives up."""
        with self._reading:
            while not self._out.closed:
                ready = dict(
                    self._poll.poll(
                        None if deadline is None else max(0.0, deadline - time.monotonic()) * 1000
                    )
                )
                if self._err.fileno() in ready:
                    self._hear()
                if self._out.fileno() in ready:
                    return os.read(self._out.fileno(), BLOCK)
                if not ready or self._woken in ready:
                    break
            return b""

    def _hear(self) -> None:
        data = os.read(self._err.fileno(), BLOCK)
        self._tail = (self._tail + data)[-TAIL:]
        if not data:
            self._poll.unregister(self._err.fileno())

    def write(self, data: bytes, until: float = math.inf) -> None:
        """Send command lines before the monotonic time `until`. Raises: OSError, where the channel
        has ended; TimeoutError."""
        with self._writing:
            while data:
                if self._closing:
                    raise BrokenPipeError("the channel is closed")
                if time.monotonic() >= until:
                    raise TimeoutError
                with suppress(BlockingIOError):
                    data = data[os.write(self._in.fileno(), data) :]
                    continue
                self._room.poll(LOOK * 1000)

    def close(self) -> str:
        """End the channel: within `CLOSING` seconds or little more, from any thread, any number of
        times."""
        self._closing = True
        with self._writing:
            if not self._closed:
                self._closed = True
                self._in.close()
                self._end()
        return self._last_words()

    def _last_words(self) -> str:
        return self._tail.decode(errors="replace").strip()

    def _leave(self) -> None:
        """Let the process end by itself first, so that what was written arrives; then kill it."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(CLOSING)
        self._kill()

    def _kill(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()

    def _end(self) -> None:
        self._leave()
        os.write(
            self._wake, b"x"
        )  # something that the follower left behind may hold its pipes open
        self._hear_all()
        with self._reading:
            self._out.close()
            self._err.close()
            os.close(self._wake)
            os.close(self._woken)

    def _hear_all(self) -> None:
        """Take what there is of stderr."""
        with self._reading:
            while is_ready(self._err) and (data := os.read(self._err.fileno(), BLOCK)):
                self._tail = (self._tail + data)[-TAIL:]
