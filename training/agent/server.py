"""The agent's loop: one thread that hears ranks and followers, obeys commands, samples, and writes
all of it to the journal."""

from __future__ import annotations

import contextlib
import math
import os
import selectors
import signal
import socket
import time
from dataclasses import dataclass, field, replace

from training.agent import kept, layout
from training.agent.host import facts
from training.agent.host.dial import Dialler
from training.agent.host.redaction import Redaction
from training.agent.host.samples import sampler
from training.agent.host.stacks import Collector
from training.agent.journal import Journal
from training.agent.options import Options, Times
from training.agent.ranks import ports, processes
from training.agent.ranks.launch import CODE
from training.agent.ranks.pipes import CHUNK
from training.agent.ranks.ranks import Ranks
from training.agent.ranks.starts import Starter
from training.wire import commands
from training.wire.enums import EndReason
from training.wire.events import AGENT, Connected, Ended, Event, Hello, Reserved, StopHeard, Text
from training.wire.line_cutter import LineCutter

NICE = 10


@dataclass
class Connection:
    """A follower's connection, and the lines that come over it."""

    socket: socket.socket
    lines: LineCutter = field(default_factory=LineCutter)


class Agent:
    """Runs in the run's folder until it is told to close, nobody is there for whom to go on, or the
    disk is full."""

    def __init__(
        self,
        options: Options,
        listener: socket.socket,
        times: Times,
        preload: tuple[str, ...],
        guard: int,
    ) -> None:
        self._options, self._listener, self._times, self._guard = options, listener, times, guard
        self._selector = selectors.DefaultSelector()
        self._journal = Journal(".", options.host)
        self._said: list[Event] = [
            Hello(**facts.hello(options.folder, options.route_to, options.needs))
        ]
        self._redaction = Redaction()
        self._ranks = Ranks(self._selector, self._said.append, times.gather, self._redaction)
        self._starter = Starter(
            options, self._selector, self._said.append, self._ranks, preload, self._redaction
        )
        self._dialler = Dialler(self._selector, lambda *told: self._said.append(Connected(*told)))
        self._sampler = sampler()
        self._stacks = Collector(self._selector, self._said.append, options.folder)
        self._connections: list[Connection] = []
        self._reserved: socket.socket | None = None
        self._attempt, self._next_attempt, self._again, self._keep = 0, 0, False, options.keep
        self._asked: commands.Reserve | None = None
        self._end_with: Ended | None = None
        self._over = False
        self._alone_since = self._heard_at = time.monotonic()
        self._tick_at = self._alone_since + times.tick
        self._kill_at = self._give_up_at = math.inf

    def run(self) -> None:
        """Until the end. Raises: OSError, where the journal cannot be written any more."""
        processes.lower_priority(NICE)
        self._listen_to_signals()
        kept.write(layout.CODE, CODE)
        self._listener.setblocking(False)
        self._selector.register(self._listener, selectors.EVENT_READ, self._accept)
        while not self._over:
            self._flush()
            for key, _ in self._selector.select(self._timeout()):
                if (
                    self._selector.get_map().get(key.fd) is key
                ):  # else an earlier one of this turn has ended it
                    key.data()
            self._look_at_clock(time.monotonic())
        self._flush()
        self._journal.close()

    # Signals and connections

    def _listen_to_signals(self) -> None:
        self._signals, wakeup = os.pipe()
        for descriptor in (self._signals, wakeup):
            os.set_blocking(descriptor, False)
        signal.set_wakeup_fd(wakeup, warn_on_full_buffer=False)
        for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGHUP):
            signal.signal(
                number, lambda *_: None
            )  # a handler, as to ignore one would be inherited by the ranks
        self._selector.register(self._signals, selectors.EVENT_READ, self._on_signals)

    def _on_signals(self) -> None:
        numbers = os.read(self._signals, CHUNK)
        if signal.SIGTERM in numbers:
            self._look_for_guard()
            self._end(EndReason.TERMINATED, died=True)
        with contextlib.suppress(ChildProcessError):
            while (child := os.waitpid(-1, os.WNOHANG))[0]:
                self._starter.reaped(*child)

    def _accept(self) -> None:
        connection = Connection(self._listener.accept()[0])
        connection.socket.setblocking(False)
        self._connections.append(connection)
        self._heard_at = time.monotonic()
        self._selector.register(
            connection.socket, selectors.EVENT_READ, lambda: self._receive(connection)
        )
        self._wake(connection)  # for what was written since it last looked

    def _receive(self, connection: Connection) -> None:
        try:
            block = connection.socket.recv(CHUNK)
        except ConnectionError:
            block = b""
        if not block:
            self._selector.unregister(connection.socket)
            connection.socket.close()
            self._connections.remove(connection)
            self._alone_since = time.monotonic()
        for line in connection.lines.feed(block):
            self._obey(line.removesuffix(b"\n"))

    @staticmethod
    def _wake(connection: Connection) -> None:
        with contextlib.suppress(
            BlockingIOError, ConnectionError
        ):  # full: it will look anyway; gone: the loop will hear so
            connection.socket.send(b"\n")

    # Commands

    def _obey(self, line: bytes) -> None:
        self._heard_at = time.monotonic()
        match commands.decode(line):
            case commands.Reserve() as command:
                self._reserve(command)
            case commands.Connect() as command:
                self._dialler.dial(command.targets, command.seconds)
            case commands.Start() as command:
                self._start(command)
            case commands.Stacks():
                self._stacks.ask(
                    [(rank.number, rank.pid or self._starter.preload) for rank in self._ranks.live]
                )
            case commands.Keep(name=name, text=text):
                if why := kept.write(name, text):
                    self._complain(why)
            case commands.Stop() as command:
                self._said.append(StopHeard(command.by_person))
                self._again &= command.again
                self._stop(command.grace)
            case commands.Close():
                self._end(EndReason.CLOSED)
            case commands.OnDisconnect() as command:
                self._keep = command.keep
            case None:
                self._complain(
                    f"not a command: a line of {len(line)} bytes"
                )  # which may hold a secret

    def _complain(self, text: str) -> None:
        self._said.append(Text(AGENT, "stderr", text))

    def _reserve(self, command: commands.Reserve) -> None:
        if self._reserved and command == self._asked:  # once more, over a new connection
            self._said.append(Reserved(command.address, self._reserved.getsockname()[1]))
            return
        if self._reserved:
            self._reserved.close()
            self._reserved = None
        self._asked = command
        try:
            self._reserved = ports.reserve(command.address, command.port)
        except ports.PortError as error:
            self._said.append(Reserved(command.address, 0, str(error)))
        else:
            self._said.append(Reserved(command.address, self._reserved.getsockname()[1]))

    def _start(self, command: commands.Start) -> None:
        if command.attempt < self._next_attempt:  # once more, over a new connection
            return
        if self._ranks.live or self._end_with:
            why = "the agent is ending" if self._end_with else "ranks of the one before still run"
            self._complain(f"attempt {command.attempt} is not started: {why}")
            return
        if self._kill_at < math.inf:
            self._kill()
        self._flush()
        self._attempt, self._next_attempt, self._again = (
            command.attempt,
            command.attempt + 1,
            command.again,
        )
        self._redaction.learn(command.placements)
        self._starter.start(command, self._reserved)
        self._reserved = None

    def _stop(self, grace: float) -> None:
        self._starter.stop()
        self._kill_at, self._give_up_at = min(self._kill_at, time.monotonic() + grace), math.inf

    def _kill(self) -> None:
        self._kill_at = math.inf
        self._give_up_at = time.monotonic() + self._times.last
        self._ranks.sweep()

    def _end(self, reason: EndReason, detail: str = "", *, died: bool = False) -> None:
        if not self._end_with:
            self._end_with = Ended(reason, detail, died)
            self._stop(self._times.grace)

    # Time

    def _timeout(self) -> float:
        now, alone_until = time.monotonic(), self._alone_since + self._times.reconnect
        due = min(
            self._tick_at,
            self._kill_at,
            self._ranks.listen_at,
            self._dialler.due,
            alone_until if alone_until > now else math.inf,
        )
        return max(0.0, due - now)

    def _look_at_clock(self, now: float) -> None:
        if now >= self._ranks.listen_at:
            self._ranks.listen()
        self._dialler.expire(now)
        if now >= self._tick_at:
            self._tick_at = max(self._tick_at + self._times.tick, now)
            self._tick()
        if not self._end_with:
            self._look_for_operator(now)
        if now >= self._kill_at or (self._kill_at < math.inf and not self._ranks.live):
            self._kill()  # also what a stopped rank has left behind
        if self._end_with and (not self._ranks.live or now >= self._give_up_at):
            self._finish(self._end_with)

    def _look_for_operator(self, now: float) -> None:
        alone = not self._connections and now - self._alone_since >= self._times.reconnect
        if self._keep and not self._ranks.live:
            if alone and not self._may_start_again(now):
                self._end(EndReason.ALL_ENDED)
        elif self._keep:
            if alone and self._ranks.failed and self._kill_at == math.inf:
                self._stop(self._times.grace)  # nobody else is there to do it
        elif alone:
            self._end(EndReason.OPERATOR_GONE)
        elif now - self._heard_at >= self._times.lease:
            self._end(EndReason.LEASE_EXPIRED, f"{self._times.lease:g} s")

    def _may_start_again(self, now: float) -> bool:
        """Whether ranks have failed that somebody may still come to start again."""
        since = max(self._alone_since, self._ranks.exited_at)
        return self._again and self._ranks.incomplete and now - since < self._times.restart

    def _look_for_guard(self) -> None:
        if os.getppid() != self._guard:
            self._end(EndReason.GUARD_DIED, died=True)

    def _tick(self) -> None:
        self._ranks.out_of_memory.tick()
        self._look_for_guard()
        if self._sampler:
            samples = (
                self._sampler.rank(rank.number, rank.pid) for rank in self._ranks.live if rank.pid
            )
            self._said += [self._sampler.host(), *filter(None, samples)]

    # The journal

    def _flush(self) -> None:
        if self._journal.full:
            self._end(EndReason.DISK_FULL, died=True)
            self._said[:] = [event for event in self._said if not isinstance(event, Text)]
        if not self._said:
            return
        self._journal.write(self._attempt, self._redaction.clean(self._said))
        self._said.clear()
        for connection in self._connections:
            self._wake(connection)

    def _finish(self, end: Ended) -> None:
        left = processes.end_descendants(self._times.last)
        self._said.append(replace(end, left=tuple(left)))
        self._over = True
