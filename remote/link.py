"""The link to one host's agent: the thread that moves its bytes, and what the session knows of it.

Nothing is decoded or decided here: a link puts messages on the session's one queue.
"""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field
from queue import SimpleQueue

from remote.hosts import Host
from remote.transport import Agent, Line, Transport, Unreachable
from training.commands import Command, encode
from training.events import Event, Hello, Reaching, Said

ROOM = 256
"""Reads that wait to be taken, per host; beyond, they wait on the host, whose journal is on disk."""


@dataclass(frozen=True)
class Opened:
    """The line to the host's agent is there."""

    host: int
    line: Line


@dataclass(frozen=True)
class Arrived:
    """Bytes of the agent's journal."""

    host: int
    data: bytes


@dataclass(frozen=True)
class Broken:
    """The line has ended, or never came to be."""

    host: int
    reason: str


@dataclass(frozen=True)
class Heard:
    """What there is to tell of the way to a host."""

    event: Event


@dataclass(frozen=True)
class Asked:
    """A person, or a signal, asks for the end of the run."""

    reason: str


Message = Opened | Arrived | Broken | Heard | Asked


@dataclass
class Link:
    """One host. `heard` is the monotonic time of its last sign of life; `running` its ranks that have not ended.

    Commands may be sent from any thread.
    """

    index: int
    host: Host
    agent: Agent
    queue: SimpleQueue[Message]
    line: Line | None = None
    hello: Hello | None = None
    heard: float = 0.0
    silent: bool = False
    done: bool = False
    running: set[int] = field(default_factory=set)
    _rest: bytes = b""
    _room: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(ROOM))
    _sending: threading.Lock = field(default_factory=threading.Lock)
    _closer: threading.Thread | None = None

    def reach(self, transport: Transport) -> None:
        """Open the line in a thread of its own, which then moves bytes until the line ends."""
        threading.Thread(target=self._move, args=(transport,), name=f"host {self.index}", daemon=True).start()

    def _move(self, transport: Transport) -> None:
        try:
            line = transport.open(self.host, self.agent, self)
        except Unreachable as error:
            self.queue.put(Broken(self.index, str(error)))
            return
        except Exception as error:  # noqa: BLE001 - a mistake of ours: told, as else this host would be waited for for ever
            self.queue.put(Broken(self.index, f"{self.host.name}: rankboard itself failed: {error!r}"))
            return
        if self.done:  # the run ended while the host was being reached
            line.close()
            return
        self.queue.put(Opened(self.index, line))
        while data := line.read():
            self.heard = time.monotonic()
            self._room.acquire()
            self.queue.put(Arrived(self.index, data))
        self.queue.put(Broken(self.index, line.close() or f"{self.host.name}: the line to its agent broke"))

    def phase(self, name: str) -> None:
        """How far the transport is (see `Progress`)."""
        self.queue.put(Heard(Reaching(self.index, name)))

    def said(self, text: str) -> None:
        """What a login shell printed (see `Progress`)."""
        self.queue.put(Heard(Said(self.index, text)))

    def opened(self, line: Line) -> None:
        """Take the line over."""
        self.line, self.heard = line, time.monotonic()
        if self.done:
            self.finish()

    def whole_lines(self, data: bytes) -> bytes:
        """The complete lines of what has arrived; a last one without its end waits for the rest."""
        self.silent = False
        self._room.release()
        whole, newline, self._rest = (self._rest + data).rpartition(b"\n")
        return whole + newline

    def send(self, command: Command) -> None:
        """Tell the agent, where there is one to tell."""
        if self.line and not self.done:
            with self._sending, suppress(OSError):  # the reader of this line finds it broken and says why
                self.line.write(encode(command))

    def finish(self) -> None:
        """Nothing more comes from this host. Its line is closed in the background, since a wedged one takes seconds."""
        self.done = True
        self.running.clear()
        self._room.release(ROOM)  # nobody takes what still comes: its mover must not wait
        if self.line and not self._closer:
            self._closer = threading.Thread(target=self.line.close, name=f"closing {self.index}", daemon=True)
            self._closer.start()

    def wait(self) -> None:
        """Until the line is closed."""
        if self._closer:
            self._closer.join()
