"""The link to one host's agent: the threads that move its bytes, and what the session knows of it.

A *wire* is one connection; when it breaks, or nothing comes over it, the link opens another one
beside it and goes on after the last record that it has. Nothing is decoded or decided here: wires
put messages on the session's one queue.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from queue import SimpleQueue

from remote.cluster.hosts import Host
from remote.format import size
from remote.limits import LIMITS, Limits
from remote.session.host_clock import HostClock
from remote.transport import Agent, Line, Transport, Unreachable
from remote.transport.deploy import last_line
from remote.transport.line_cutter import LineCutter
from training.wire.commands import Close, Command, Lease, encode
from training.wire.enums import Reach
from training.wire.events import Ended, Event, Exited, Hello, Launched, Reaching, Record, Said

ROOM = 256
"""Reads that wait to be taken, per wire; beyond, they wait on the host, whose journal is on
disk."""
LEASE = encode(Lease())
CLOSED = 5.0
"""Seconds within which a connection is closed once its last commands are out, whatever its host
does."""


@dataclass(frozen=True)
class Opened:
    """A wire to the host's agent is there."""

    wire: Wire


@dataclass(frozen=True)
class Arrived:
    """Bytes of the agent's journal."""

    wire: Wire
    data: bytes


@dataclass(frozen=True)
class Broken:
    """A wire has ended, or never came to be."""

    wire: Wire
    reason: str


@dataclass(frozen=True)
class Heard:
    """What there is to tell of the way to a host."""

    event: Event


@dataclass(frozen=True)
class Asked:
    """Somebody asks for something to be done by the thread that decides."""

    act: Callable[[], None]


Message = Opened | Arrived | Broken | Heard | Asked


@dataclass(eq=False)
class Wire:
    """One connection to a host's agent. `line` is None until it is open; `fed`: something has come
    over it.

    A thread of its own sends what `send` queues, so that a host that does not read holds up nobody
    else.
    """

    link: Link
    limits: Limits = LIMITS
    line: Line | None = None
    fed: bool = False
    room: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(ROOM))
    closer: threading.Thread | None = None
    _sender: threading.Thread | None = None
    _unsent: deque[bytes] = field(default_factory=deque)
    _unsent_size: int = 0
    _began: float = 0.0  # when the write under way began, 0 where none is
    _over: bool = False  # nothing more is taken to be sent
    _turn: threading.Condition = field(default_factory=threading.Condition)

    def __post_init__(self) -> None:
        self._cutter = LineCutter(self.limits.line)

    def move(self, transport: Transport, agent: Agent) -> None:
        """Open the line, then put what comes on the queue until it ends. The body of a thread."""
        put, name = self.link.queue.put, self.link.host.name
        try:
            line = transport.open(self.link.host, agent, self.link)
        except Unreachable as error:
            put(Broken(self, str(error)))
            return
        except Exception as error:  # noqa: BLE001 - a mistake of ours: told, as else this host would be waited for for ever
            put(Broken(self, f"{name}: rankboard itself failed: {error!r}"))
            return
        self._sender = threading.Thread(
            target=self._send, args=(line,), name=f"to host {self.link.index}", daemon=True
        )
        self._sender.start()
        self.line = line
        if self.link.done:  # the run ended while the host was being reached, or went on without it
            if self.link.left_out:
                put(
                    Heard(
                        Said(
                            self.link.index,
                            "is back, but the run has gone on without it: what is left there ends",
                        )
                    )
                )
                self.send(Close())
            self.link.left_out = False
            self._end(line)
            return
        put(Opened(self))
        while data := line.read():
            self.link.heard = time.monotonic()
            self.room.acquire()
            put(Arrived(self, data))
        put(Broken(self, f"{name}: {last_line(line.close()) or 'the line to its agent broke'}"))

    def whole_lines(self, data: bytes) -> list[bytes]:
        """The complete lines of what has arrived; a last one without its end waits for the rest.
        Raises: LineTooLong."""
        self.fed = True
        return self._cutter.feed(data)

    def send(self, command: Command) -> None:
        """Queue a command. Never waits: a connection that does not take them in time is broken."""
        data = encode(command)
        with self._turn:
            if self._over or (data == LEASE and LEASE in self._unsent and not self._is_overdue):
                return
            if self._is_overdue:
                problem = f"it took no command for {self.limits.write:g} s"
            elif self._unsent_size + len(data) > self.limits.unsent:
                problem = f"more than {size(self.limits.unsent)} of commands wait to be sent to it"
            else:
                self._unsent.append(data)
                self._unsent_size += len(data)
                self._turn.notify()
                return
            self._over = True
            self._unsent.clear()
        self.link.queue.put(
            Broken(self, f"{self.link.host.name}: {problem}, so the connection was closed")
        )

    @property
    def held_up(self) -> float:
        """For how many seconds the host has not taken the command that is being sent; 0 where none
        is."""
        began = self._began
        return time.monotonic() - began if began else 0.0

    @property
    def _is_overdue(self) -> bool:
        return self.held_up > self.limits.write

    def _send(self, line: Line) -> None:
        """Write what is queued, in order, until nothing more is to come. The body of a thread."""
        while data := self._next():
            try:
                line.write(data)
            except OSError:  # the reader of this line finds it broken and says why
                with self._turn:
                    self._over = True
                return

    def _next(self) -> bytes:
        """What is to be sent next; b"" where nothing more is."""
        with self._turn:
            self._began = 0.0
            while not self._unsent and not self._over:
                self._turn.wait()
            if not self._unsent:
                return b""
            data = self._unsent.popleft()
            self._unsent_size -= len(data)
            self._began = time.monotonic()
            return data

    def close(self, *, unsent: bool = True) -> None:
        """Nothing more is taken from it. Its line is closed in the background, since a wedged one
        takes seconds. `unsent`: what is queued is sent before."""
        if not unsent:
            with self._turn:
                self._over = True
                self._unsent.clear()
                self._turn.notify()
        self.room.release(ROOM)  # nobody takes what still comes: its mover must not wait
        if self.line and not self.closer:
            self.closer = threading.Thread(
                target=self._end, args=(self.line,), name=f"closing {self.link.index}", daemon=True
            )
            self.closer.start()

    def _end(self, line: Line) -> None:
        """Close the line once what is queued is sent, or the time for that is up."""
        with self._turn:
            broken, self._over = self._over, True
            self._turn.notify()
        if self._sender and not broken:
            self._sender.join(self.limits.flush)
        line.close()


@dataclass(eq=False)
class Link:
    """One host. `wire` is the connection in use, `opening` one that is being made.

    `last` is the number of its last record, `heard` the monotonic time of its last sign of life,
    `spared` when its silence was not held against it last, `tried_at` when the first try to reach
    it was over, `parted_at` when its wire broke, `clock` how far its clock is ahead, `problem` why
    it is lost, or where one has come back, not reached yet. `running` are its ranks that have not
    ended, `launched`: they have been started. `met`: a wire has led to it. `left_out`: the run has
    gone on without it, and its agent may not know. `awaited` is the last command that its agent has
    not answered yet: it is sent again over a new wire. `noise` is how many lines have come that are
    no records of its own. Commands may be sent from any thread.
    """

    index: int
    host: Host
    agent: Agent
    queue: SimpleQueue[Message]
    limits: Limits = LIMITS
    wire: Wire | None = None
    opening: Wire | None = None
    hello: Hello | None = None
    last: int = 0
    noise: int = 0
    heard: float = 0.0
    spared: float = 0.0
    retry_at: float = 0.0
    tried_at: float = 0.0
    parted_at: float = 0.0
    silent: bool = False
    done: bool = False
    problem: str = ""
    running: set[int] = field(default_factory=set)
    launched: bool = False
    left_out: bool = False
    met: bool = False
    awaited: Command | None = None
    _closing: list[Wire] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.clock = HostClock(self.limits.clock_step)

    def reach(self, transport: Transport) -> None:
        """Open a wire in a thread of its own, which then moves bytes until it ends."""
        self.opening = Wire(self, self.limits)
        agent = replace(self.agent, after=self.last)
        threading.Thread(
            target=self.opening.move,
            args=(transport, agent),
            name=f"host {self.index}",
            daemon=True,
        ).start()

    @property
    def comes_back(self) -> bool:
        """Whether what a broken line has led to goes on, so that another line may lead to it
        again."""
        return self.hello is not None or not self.agent.found

    @property
    def is_first(self) -> bool:
        """Whether it is being reached for the first time."""
        return self.opening is not None and not self.tried_at

    def phase(self, name: Reach) -> None:
        """How far the transport is (see `Progress`)."""
        if not self.done:  # else it stays a lost one
            self.queue.put(Heard(Reaching(self.index, name)))

    def said(self, text: str) -> None:
        """What a login shell printed (see `Progress`)."""
        self.queue.put(Heard(Said(self.index, text)))

    def take(self, wire: Wire) -> None:
        """Use this wire, in place of the one before."""
        if wire is self.opening:
            self.opening = None
        if self.wire:  # what is queued there must not come after what is sent over the new one
            self._let_go(self.wire, unsent=False)
        if self.done:
            self._let_go(wire)
            return
        self.wire, self.problem, self.met = wire, "", True
        if not (self.hello and self.tried_at):
            self.heard = time.monotonic()
        self.tried_at = self.tried_at or time.monotonic()
        if self.awaited:
            self.send(self.awaited)

    def note(self, record: Record) -> None:
        """What a record of its agent says of the link itself."""
        self.last, self.silent = max(self.last, record.seq), False
        match record.event:
            case Hello() as hello:
                self.hello = hello
            case Launched(ranks):
                self.launched = True
                self.running |= set(ranks)
            case Exited(rank):
                self.running.discard(rank)
            case Ended():
                self.running.clear()

    def ask(self, command: Command) -> None:
        """Send a command that the agent answers, again and again if need be."""
        self.awaited = command
        self.send(command)

    def send(self, command: Command) -> None:
        """Tell the agent, where there is one to tell. Never waits for it."""
        wire = self.wire
        if wire and not self.done:
            wire.send(command)

    def leave_out(self) -> None:
        """Go on without a host that was lost: should it come back, its agent is to end."""
        if self.hello:
            self.agent, self.opening, self.left_out = replace(self.agent, found=False), None, True

    def finish(self) -> None:
        """Nothing more comes from this host."""
        self.done = True
        self.running.clear()
        for wire in (self.wire, self.opening):
            if wire:
                self._let_go(wire)

    def part(self, wire: Wire) -> None:
        """Use this wire no more, as it has ended or is to end."""
        if wire is self.wire:
            self.wire = None
        self._let_go(wire)

    def _let_go(self, wire: Wire, *, unsent: bool = True) -> None:
        wire.close(unsent=unsent)
        self._closing = [one for one in self._closing if one.closer and one.closer.is_alive()]
        self._closing.append(wire)

    def wait(self) -> None:
        """Until all lines are closed; one that cannot be is left behind."""
        until = time.monotonic() + self.limits.flush + CLOSED
        for wire in self._closing:
            if wire.closer:
                wire.closer.join(max(0.0, until - time.monotonic()))
