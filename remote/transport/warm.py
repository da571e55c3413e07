"""Keep hosts warm from one run to the next of the same launcher: the connection to each stays
open, to a process there that starts the agents (`training.fork_server`) and has imported torch,
unless the runs are of a script.

If that process or its connection has ended, or does not answer, a run starts as any other.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial

from remote.cluster.hosts import Host
from remote.concurrently import map_concurrently
from remote.transport import AgentCommand, Channel, HostCommand, Program, ReachProgress, Transport
from remote.transport.registry import is_here
from training.agent import IDLE, MARKER
from training.wire.jsonl import dumps

SERVE = HostCommand(("serve",))
SERVE_SCRIPTS = HostCommand(("serve", "scripts"))
IMPORT_LIMIT = 60.0
"""Seconds that a host has to import torch and start its first agent."""
ANSWER = 10.0
"""Seconds that a warm host has to start an agent."""
ENDING = 4.0
"""Seconds that a follower has to end by itself once its run is over."""
NOISE = 4096
"""Bytes before a marker after which what answers is no fork server."""
ServerKey = tuple[Host, bool]
"""What one server is for: a host, and jobs or scripts."""


class WarmTransport:
    """A transport that reaches hosts through another one and keeps them warm, until it is
    closed."""

    def __init__(self, reach: Transport) -> None:
        self._reach = reach
        self._lock = threading.Lock()
        self._idle: dict[ServerKey, Channel] = {}
        self._taken: set[ServerKey] = set()
        self._is_closed = False

    def open(self, host: Host, program: Program, progress: ReachProgress) -> Channel:
        """Open a channel as `Transport.open` does. The first connection of a run to its host is
        kept for the next run; others are not. Raises: Unreachable."""
        # A later connection returns to an agent that is there already, for which nothing has to
        # be imported.
        if not isinstance(program, AgentCommand) or not program.found or program.after:
            return self._reach.open(host, program, progress)
        server_key = _server_key(host, program)
        if not self._take(server_key):
            return self._reach.open(host, program, progress)
        channel = None
        try:
            server = self._idle.pop(server_key, None)
            if server:
                channel = self._start(server, server_key, program, ANSWER)
            if not channel:
                serve = SERVE if program.trains_job else SERVE_SCRIPTS
                server = self._reach.open(host, serve, progress)
                # Before torch is imported there: some of its variables are read only once, at the
                # import.
                _send(server, dict(host.env))
                channel = self._start(server, server_key, program, IMPORT_LIMIT)
        finally:
            if not channel:
                self._give_back(server_key, None)
        return channel or self._reach.open(host, program, progress)

    def cool(self) -> None:
        """End what is kept for the next run. The one after it finds warm hosts again."""
        with self._lock:
            servers = list(self._idle.values())
            self._idle.clear()
        map_concurrently(lambda server: server.close(), servers)

    def close(self) -> None:
        """End what is kept, and keep nothing more."""
        with self._lock:
            self._is_closed = True
        self.cool()

    def _take(self, server_key: ServerKey) -> bool:
        """Take the host's server for this run. Return False if another run has it, or is starting
        it."""
        with self._lock:
            if server_key in self._taken or self._is_closed:
                return False
            self._taken.add(server_key)
            return True

    def _give_back(self, server_key: ServerKey, server: Channel | None) -> bool:
        """Leave the host, and its server if that can be kept. Return True if it is."""
        with self._lock:
            self._taken.discard(server_key)
            if not server or self._is_closed:
                return False
            self._idle[server_key] = server
            return True

    def _start(
        self, server: Channel, server_key: ServerKey, program: Program, seconds: float
    ) -> RunChannel | None:
        """Have the server start the program, and return the channel to it. If it does not, close
        the server and return None."""
        timeout_timer = threading.Timer(seconds, server.close)
        timeout_timer.daemon = True
        timeout_timer.start()
        output = b""
        if _send(server, {"run": program.argv()}):
            while MARKER not in output and len(output) < NOISE and (data := server.read()):
                output += data
        timeout_timer.cancel()
        if MARKER not in output:
            server.close()
            return None
        first_bytes = output.partition(MARKER)[2]
        return RunChannel(server, first_bytes, partial(self._give_back, server_key))


@dataclass
class RunChannel:
    """The channel to the follower of one run, over the one to its server. `read` belongs to one
    thread; any thread may write and close."""

    server: Channel
    rest: bytes
    give_back: Callable[[Channel | None], bool]
    _over: threading.Event = field(default_factory=threading.Event)
    _is_idle: bool = False
    _closing: threading.Lock = field(default_factory=threading.Lock)
    _closed: bool = False
    _why: str = ""

    def read(self) -> bytes:
        """Return some bytes of the journal; b"" once the follower has exited or the channel was
        closed."""
        if self._over.is_set():
            return b""
        data = self.rest or self.server.read()
        self.rest = b""
        data, idle_marker, later_bytes = data.partition(IDLE)
        if idle_marker or not data:
            # Bytes after the marker mean that the server is out of step with us: no run may
            # follow on it.
            self._is_idle = bool(idle_marker) and not later_bytes
            self._over.set()
        return data

    def write(self, data: bytes) -> None:
        """Send command lines. Raises: OSError, if the channel has ended."""
        if self._over.is_set():
            raise BrokenPipeError("the channel is closed")
        self.server.write(data)

    def close(self) -> str:
        """Let the next run have the server, if its follower has exited or does so soon; else end
        it. From any thread, any number of times."""
        with self._closing:
            if not self._closed:
                self._closed = True
                self._over.wait(ENDING)
                if not self._is_idle:
                    self._over.set()
                if not self.give_back(self.server if self._is_idle else None):
                    self._why = self.server.close()
        return self._why


def _send(server: Channel, request: object) -> bool:
    """Send a line. Return True if the connection takes it."""
    with suppress(OSError):
        server.write(dumps(request).encode(errors="backslashreplace") + b"\n")
        return True
    return False


def _server_key(host: Host, program: AgentCommand) -> ServerKey:
    """Return what matters of a host and a run for its server. On this machine each run has a
    workdir of its own."""
    workdir = "" if is_here((host,)) else host.workdir
    host = replace(host, slots=1, threads=0, interface="", master_port=0, workdir=workdir)
    return host, program.trains_job
