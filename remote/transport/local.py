"""Starts a host's agent as a process of this machine: the transport of `--local N`. Deploys
nothing."""

from __future__ import annotations

import os
import select
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import IO

from remote.cluster.hosts import Host
from remote.transport import Enter, Kind, Program, Progress, Unreachable
from remote.transport.bootstrap.archive import PACKAGE
from remote.transport.failure import Cause, Failure
from remote.transport.talk import Failed, Noise, Ready, Talk, last_line, quoted
from training.wire.enums import Reach

CLOSING = 1.0
"""Seconds that a follower has to end after its stdin is closed."""
TAIL = 4096
"""Bytes of stderr that are kept for an explanation."""
BLOCK = 65536
LOOK = 0.1
"""Seconds between two checks, during a write, whether the channel was closed."""
START = (
    "import sys; sys.path[:] = [{code!r}] + [path for path in sys.path if path]; "
    "from training.agent.__main__ import main; sys.exit(main(sys.argv[1:]))"
)


class LocalTransport:
    """Reaches agents on this machine.

    On Linux, a new process has the niceness of the thread that forks it, and only root can lower
    it. So one thread, started here, forks all agents: ranks keep the niceness that the launcher has
    now, even if the launcher raises its own later.
    """

    def __init__(self, package: Path = PACKAGE, enter: Enter = lambda _: ()) -> None:
        """`package`: the folder of the package `training` that the agents run. `enter`: see
        `Enter`."""
        self._code, self._enter = str(package.parent), enter
        self._spawner = ThreadPoolExecutor(1, thread_name_prefix="spawner")
        self._spawner.submit(threading.get_native_id).result()

    def open(self, host: Host, program: Program, progress: Progress) -> LocalChannel:
        """Start a follower here, and return the channel to it once its marker has come. Raises:
        Unreachable."""
        progress.phase(Reach.STARTING)
        python = host.python or sys.executable
        argv = [
            *self._enter(host.name),
            os.path.expanduser(python),
            "-c",
            START.format(code=self._code),
            *program.argv(),
        ]
        try:
            channel = LocalChannel(self._spawner.submit(_popen, argv).result())
        except OSError as error:
            what = f"cannot start {python}: {error.strerror}"
            advice = "set python to one that works"
            raise Unreachable(host.name, Failure(Cause.PYTHON, what, advice)) from error
        if failure := channel.greet(host.timeout, progress):
            why = quoted(last_line(channel.close())) or "no reason given"
            what = f"its agent {failure.what}: {why}"
            raise Unreachable(host.name, replace(failure, what=what))
        return channel


TRANSPORT = Kind(make=lambda enter: LocalTransport(enter=enter), is_here=True)


def _popen(argv: Sequence[str]) -> subprocess.Popen[bytes]:
    pipe = subprocess.PIPE
    return subprocess.Popen(
        argv, stdin=pipe, stdout=pipe, stderr=pipe, bufsize=0, start_new_session=True
    )


def _there(pipe: IO[bytes] | None) -> IO[bytes]:
    assert pipe is not None
    return pipe


class LocalChannel:
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

    def greet(self, timeout: float, progress: Progress) -> Failure | None:
        """Read up to the agent's marker. Returns None, or why it did not come within `timeout`
        seconds."""
        deadline, talk = time.monotonic() + timeout, Talk()
        while data := self._next(deadline):
            for step in talk.feed(data):
                match step:
                    case Noise(text):
                        progress.said(text)
                    case Failed(failure):
                        return replace(failure, what=f"was not started: {failure.what}")
                    case Ready(rest):
                        self._rest = rest
                        return None
        if time.monotonic() < deadline:
            return Failure(Cause.AGENT, "ended at its start")
        return Failure(Cause.TIMEOUT, f"said nothing for {timeout:g} s")

    def read(self) -> bytes:
        """Some bytes of the journal; b"" once the channel has ended or was closed."""
        data, self._rest = self._rest, b""
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

    def write(self, data: bytes) -> None:
        """Send command lines. Raises: OSError, where the channel has ended."""
        with self._writing:
            while data:
                if self._closing:
                    raise BrokenPipeError("the channel is closed")
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
        return self._tail.decode(errors="replace").strip()

    def _end(self) -> None:
        """Let the process end by itself first, so that what was written arrives; then kill it."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(CLOSING)
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()
        os.write(
            self._wake, b"x"
        )  # something that the follower left behind may hold its pipes open
        with self._reading:
            while select.select([self._err], [], [], 0)[0] and (
                data := os.read(self._err.fileno(), BLOCK)
            ):
                self._tail = (self._tail + data)[-TAIL:]
            self._out.close()
            self._err.close()
            os.close(self._wake)
            os.close(self._woken)
