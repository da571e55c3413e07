"""One connection to a host's agent: threads that move its bytes.

Nothing is decoded or decided here. What happens is put on the mailbox of the session.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from remote.cluster.hosts import Host
from remote.events import HostPhaseChanged, RemarkMade
from remote.format import size
from remote.limits import LIMITS, Limits
from remote.transport import Channel, Program, Transport, Unreachable
from remote.transport.failure import Failure, FailureCause
from remote.transport.start_dialog import last_line
from training.wire.commands import Command, Lease, encode
from training.wire.enums import Reach
from training.wire.events import Event
from training.wire.line_cutter import LineCutter

ROOM = 256
"""Reads of a connection that wait to be taken; more of them wait on the host, whose journal is on
disk."""
LEASE = encode(Lease())
CLOSED = 5.0
"""Seconds within which a connection is closed once its last commands are out, whatever its host
does."""


@dataclass(frozen=True)
class Opened:
    """A connection to the host's agent is there."""

    connection: Connection


@dataclass(frozen=True)
class Arrived:
    """Bytes of the agent's journal."""

    connection: Connection
    data: bytes


@dataclass(frozen=True)
class Broken:
    """A connection has ended, or could not be made."""

    connection: Connection
    failure: Failure


@dataclass(frozen=True)
class Heard:
    """How far the way to a host is."""

    event: Event


@dataclass(frozen=True)
class Asked:
    """Somebody asks for something to be done by the thread that decides."""

    act: Callable[[], None]


Message = Opened | Arrived | Broken | Heard | Asked
Put = Callable[[Message], None]


@dataclass(eq=False)
class Connection:
    """A connection to the agent of a host.

    A thread of its own sends what `send` queues, so that a host that does not read holds up nobody
    else.
    """

    index: int
    host: Host
    put: Put
    limits: Limits = LIMITS
    fed: bool = False
    """Something has come over it."""
    room: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(ROOM))
    _channel: Channel | None = None
    _closer: threading.Thread | None = None
    _mover: threading.Thread | None = None
    _sender: threading.Thread | None = None
    _unsent: deque[bytes] = field(default_factory=deque)
    _unsent_size: int = 0
    _write_began: float = 0.0  # when the write under way began; 0 if there is none
    _is_over: bool = False  # nothing more is taken to be sent
    _is_unwanted: bool = False  # it is to be closed as soon as it is there
    _turn: threading.Condition = field(default_factory=threading.Condition)

    def __post_init__(self) -> None:
        self._cutter = LineCutter(self.limits.line)

    def open(self, transport: Transport, program: Program) -> None:
        """Start the program there in a thread of its own, which then moves bytes until it ends."""
        self._mover = self._start(f"host {self.index}", self._move, transport, program)

    def _start(
        self, thread_name: str, thread_body: Callable[..., None], *body_args: object
    ) -> threading.Thread:
        thread = threading.Thread(target=thread_body, args=body_args, name=thread_name, daemon=True)
        thread.start()
        return thread

    def phase(self, reach_phase: Reach) -> None:
        """Report how far the transport is (see `Progress`)."""
        self.put(Heard(HostPhaseChanged(self.index, reach_phase)))

    def said(self, text: str) -> None:
        """Report what a login shell printed (see `Progress`)."""
        self.put(Heard(RemarkMade(self.index, text)))

    def whole_lines(self, data: bytes) -> list[bytes]:
        """Return the complete lines of what has arrived; a last one without its end waits for the
        rest. Raises: LineTooLong."""
        self.fed = True
        return self._cutter.feed(data)

    def send(self, command: Command) -> None:
        """Queue a command. Never waits: a connection that does not take them in time is broken."""
        encoded_command = encode(command)
        with self._turn:
            is_repeated = encoded_command == LEASE and LEASE in self._unsent
            if self._is_over or (is_repeated and not self._is_overdue):
                return
            if self._is_overdue:
                send_problem = f"it took no command for {self.limits.write:g} s"
            elif self._unsent_size + len(encoded_command) > self.limits.unsent:
                send_problem = f"more than {size(self.limits.unsent)} of commands wait to be sent"
            else:
                self._unsent.append(encoded_command)
                self._unsent_size += len(encoded_command)
                self._turn.notify()
                return
            self._is_over = True
            self._unsent.clear()
        failure_text = f"{send_problem}, so the connection was closed"
        self.put(Broken(self, Failure(FailureCause.BROKEN, failure_text)))

    @property
    def held_up(self) -> float:
        """Return for how many seconds the host has not taken the command that is being sent."""
        write_began = self._write_began  # another thread may change it
        return time.monotonic() - write_began if write_began else 0.0

    def close(self, *, unsent: bool = True) -> None:
        """Take nothing more from it. It is closed in the background, since a wedged one takes
        seconds. `unsent`: what is queued is sent before."""
        with self._turn:
            self._is_unwanted = True
            if not unsent:
                self._is_over = True
                self._unsent.clear()
                self._turn.notify()
            open_channel = self._channel
        self.room.release(ROOM)  # nobody takes what still comes: its mover must not wait
        if open_channel and not self._closer:
            self._closer = self._start(f"closing {self.index}", self._end, open_channel)

    @property
    def is_closing(self) -> bool:
        """Return True while it is being closed."""
        return self._closer is not None and self._closer.is_alive()

    def wait(self, deadline: float) -> None:
        """Wait until it is closed, or until this monotonic time."""
        if self._closer:
            self._closer.join(max(0.0, deadline - time.monotonic()))

    def wait_for_end(self, deadline: float) -> None:
        """Wait until the host ends it, or until this monotonic time. What still comes is lost."""
        self.room.release(ROOM)
        if self._mover:
            self._mover.join(max(0.0, deadline - time.monotonic()))

    def _move(self, transport: Transport, program: Program) -> None:
        try:
            channel = transport.open(self.host, program, self)
        except Unreachable as open_error:
            self.put(Broken(self, open_error.failure))
            return
        except Exception as open_error:  # noqa: BLE001 - a mistake of ours: else nobody would wait in vain
            failure_text = f"rankboard itself failed: {open_error!r}"
            self.put(Broken(self, Failure(FailureCause.OTHER, failure_text)))
            return
        # Writes have a thread of their own: a host that does not read blocks them, and what it
        # has sent must still be taken meanwhile.
        self._sender = self._start(f"to host {self.index}", self._send, channel)
        with self._turn:
            self._channel = channel
            is_unwanted = self._is_unwanted
        if is_unwanted:  # the run ended, or went on without the host, while it was being reached
            self._end(channel)
            return
        self.put(Opened(self))
        while data := channel.read():
            # Without this bound, a host that talks faster than records are applied would fill our
            # memory.
            self.room.acquire()
            self.put(Arrived(self, data))
        last_words = last_line(channel.close())
        failure_text = last_words or "the connection broke"
        self.put(Broken(self, Failure(FailureCause.BROKEN, failure_text)))

    @property
    def _is_overdue(self) -> bool:
        return self.held_up > self.limits.write

    def _send(self, channel: Channel) -> None:
        """Write what is queued, in order, until nothing more is to come. The body of a thread."""
        while next_command := self._next():
            try:
                channel.write(next_command)
            except OSError:  # the reader of this channel finds it broken and says why
                with self._turn:
                    self._is_over = True
                return

    def _next(self) -> bytes:
        """Wait for what is to be sent next; b"" if nothing more is."""
        with self._turn:
            self._write_began = 0.0
            while not self._unsent and not self._is_over:
                self._turn.wait()
            if not self._unsent:
                return b""
            next_command = self._unsent.popleft()
            self._unsent_size -= len(next_command)
            self._write_began = time.monotonic()
            return next_command

    def _end(self, channel: Channel) -> None:
        """Close the channel once what is queued is sent, or the time for that is up."""
        with self._turn:
            was_over = self._is_over
            self._is_over = True
            self._turn.notify()
        # Otherwise the sender has been told to stop, or hangs in a write that only the close
        # below ends.
        if self._sender and not was_over:
            self._sender.join(self.limits.flush)
        channel.close()
