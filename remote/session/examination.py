"""Checks hosts for a plan without a run: the same questions as at a start, and no ranks.

Connections move the bytes, as those of a session do. One thread, which iterates `batches`, takes
the answers, applies them to a `RunState` and asks the next question. `remote.doctor` judges the
answers.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from typing import Any

from remote.cluster.hosts import Host
from remote.doctor import doctor
from remote.events import (
    CheckFinished,
    ClockMeasured,
    HostLost,
    HostPhaseChanged,
    SessionClosed,
    Stopping,
)
from remote.host_commands.answer_reader import AnswerReader, AnswerTooLong
from remote.limits import LIMITS, Limits
from remote.plan import needs
from remote.plan.plan import Plan
from remote.run.apply import apply_record
from remote.run.run_state import RunState
from remote.session.connection import (
    Arrived,
    Asked,
    Broken,
    Connection,
    Heard,
    Message,
    Opened,
)
from remote.transport import HostCommand, Transport
from remote.transport.failure import Failure, FailureCause
from training.wire.commands import Close, Command, Connect, Reserve
from training.wire.enums import Reach
from training.wire.events import SESSION, Connected, Event, Hello, Record, Reserved, from_object
from training.wire.jsonl import dumps
from training.wire.line_cutter import LineTooLong

LOOK = 1.0
"""Seconds between two batches at most, so that a caller can show who is waited for."""
CLOSING = 3.0
"""Seconds that the connections have to close at the end."""
NEVER = float("inf")


@dataclass(eq=False)
class ExaminedHost:
    """One host: its connection, what it was asked, and what it has answered."""

    index: int
    host: Host
    connection: Connection
    answers: AnswerReader
    hello: Hello | None = None
    offset: float = 0.0
    """Seconds that its clock is ahead of ours."""
    reserve: Reserve | None = None
    reserved: Reserved | None = None
    connect: Connect | None = None
    connected: list[Connected] = field(default_factory=list)
    due: float = NEVER
    """When its next answer is overdue, by the monotonic clock."""
    failure: Failure | None = None
    """Why it takes part no longer."""
    is_open: bool = False

    @property
    def has_reserved(self) -> bool:
        """Return True if it has answered about its port, or was not asked."""
        return self.reserve is None or self.reserved is not None

    @property
    def has_connected(self) -> bool:
        """Return True if it has tried all connections that it was asked for."""
        return self.connect is None or doctor.has_tried(self.connect, self.connected)

    def ask(self, command: Command) -> None:
        """Send a command that it has to answer."""
        self.expect_answer()
        self.connection.send(command)

    def expect_answer(self) -> None:
        """Give it the host's timeout to answer, and the time that its connections have."""
        dialling = self.connect.seconds if self.connect else 0.0
        self.due = time.monotonic() + self.host.timeout + dialling

    def is_awaited(self, answer: Reserved | Connected) -> bool:
        """Return True if it was asked for this and has not answered yet."""
        if isinstance(answer, Reserved):
            return self.reserve is not None and answer.address == self.reserve.address
        if self.connect is None or not doctor.answers_to(self.connect, [answer]):
            return False
        return not any(
            (other.address, other.port) == (answer.address, answer.port) for other in self.connected
        )


class Examination:
    """The checks of all hosts of a plan. Nothing is started, and nothing is kept anywhere.

    `state` is written only while `lock` is held, by the thread that iterates `batches`.
    """

    def __init__(self, plan: Plan, transport: Transport, limits: Limits = LIMITS) -> None:
        self.plan = plan
        self.state = RunState(plan, limits)
        self.lock = threading.Lock()
        self._transport = transport
        self._limits = limits
        self._queue: SimpleQueue[Message] = SimpleQueue()
        self._hosts = [
            ExaminedHost(
                index, host, Connection(index, host, self._queue.put, limits), AnswerReader(limits)
            )
            for index, host in enumerate(plan.hosts)
        ]
        self._batch: list[Record] = []
        self._is_over = False
        self._seq = 0

    def stop(self, reason: str = "stopped by the user") -> None:
        """End the checks; returns at once. Any thread or signal handler may call this."""
        self._queue.put(Asked(lambda: self._stop(reason)))

    def batches(self) -> Iterator[list[Record]]:
        """Yield the records of the checks as they come, already applied to `state`; at least one
        batch a second, perhaps empty. One thread iterates this, once."""
        try:
            yield from self._round(self._reach, lambda host: host.hello is not None)
            yield from self._round(self._reserve, lambda host: host.has_reserved)
            yield from self._round(self._connect, lambda host: host.has_connected)
            if not self._is_over:
                with self.lock:
                    self._report_connections()
        finally:
            self._close()
        with self.lock:
            self._say(SessionClosed())
        yield self._take_batch()

    # Rounds

    def _round(
        self, ask: Callable[[], None], has_answered: Callable[[ExaminedHost], bool]
    ) -> Iterator[list[Record]]:
        """Ask all hosts, and wait until each has answered or is lost."""
        if self._is_over:
            return
        with self.lock:
            ask()
        while not self._is_over:
            if all(host.failure or has_answered(host) for host in self._hosts):
                return
            yield self._turn()

    def _turn(self) -> list[Record]:
        due = min(host.due for host in self._hosts)
        patience = min(LOOK, due - time.monotonic())
        messages: list[Message] = []
        with suppress(Empty):
            messages.append(self._queue.get(timeout=max(0.0, patience)))
            while True:
                messages.append(self._queue.get_nowait())
        with self.lock:
            for message in messages:
                self._take(message)
            self._expire(time.monotonic())
        return self._take_batch()

    def _take_batch(self) -> list[Record]:
        batch = self._batch
        self._batch = []
        return batch

    def _reach(self) -> None:
        """Ask every host for its facts."""
        route_to = self.plan.hosts[0].address
        for host in self._hosts:
            wanted = dumps(needs.needs_of_host(self.plan, host.index))
            folder = self.plan.folder(host.index)
            host.connection.open(self._transport, HostCommand(("check", folder, route_to, wanted)))

    def _reserve(self) -> None:
        """Report what the facts mean, and ask every host to reserve a port."""
        facts = self._facts
        offsets = [host.offset for host in self._hosts]
        failures = [host.failure for host in self._hosts]
        self._report(doctor.check_facts(self.plan, facts, offsets, failures))
        for host, reserve in zip(self._hosts, doctor.reservations(self.plan, facts), strict=True):
            if reserve:
                host.reserve = reserve
                host.ask(reserve)

    def _connect(self) -> None:
        """Ask every host to connect to its peers."""
        for host, connect in zip(self._hosts, doctor.connects(self._reserved), strict=True):
            if connect:
                host.connect = connect
                host.ask(connect)

    def _report_connections(self) -> None:
        connected = [host.connected for host in self._hosts]
        self._report(doctor.check_connections(self.plan, self._facts, self._reserved, connected))

    @property
    def _facts(self) -> list[Hello | None]:
        return [None if host.failure else host.hello for host in self._hosts]

    @property
    def _reserved(self) -> list[Reserved | None]:
        return [host.reserved for host in self._hosts]

    # What hosts answer

    def _take(self, message: Message) -> None:
        if isinstance(message, Asked):
            message.act()
            return
        if self._is_over:
            return
        if isinstance(message, Heard):
            self._say(message.event)
            return
        host = self._hosts[message.connection.index]
        if isinstance(message, Arrived):
            message.connection.room.release()
        if host.failure:
            return
        match message:
            case Opened():
                host.is_open = True
                host.expect_answer()
            case Arrived(_, data):
                self._take_data(host, data)
            case Broken(_, failure):
                self._lose(host, failure)

    def _take_data(self, host: ExaminedHost, data: bytes) -> None:
        try:
            answers = host.answers.take(data)
        except (AnswerTooLong, LineTooLong) as error:
            host.connection.close()
            self._lose(host, Failure(FailureCause.BROKEN, str(error)))
            return
        for answer in answers:
            self._take_answer(host, answer)

    def _take_answer(self, host: ExaminedHost, answer: dict[str, Any]) -> None:
        """Take one object of an answer. What nobody has asked for is ignored."""
        if host.failure or self._is_over:
            return
        if "event" not in answer and "error" in answer:
            self._lose(host, self._read_failure(host.host, answer))
        elif host.due < NEVER:
            record = from_object(answer | {"host": host.index, "attempt": 0, "seq": 1})
            if record:
                self._take_record(host, record)
            else:
                self._lose(
                    host, Failure(FailureCause.OTHER, "it sent an answer that cannot be used")
                )

    def _read_failure(self, host: Host, answer: dict[str, Any]) -> Failure:
        """Return what a host says that it cannot do."""
        is_workdir = answer.get("cause") == FailureCause.WORKDIR.value
        longest = self._limits.shown
        what = str(answer.get("error", ""))[:longest]
        advice = str(answer.get("advice", ""))[:longest]
        if not is_workdir:
            return Failure(FailureCause.OTHER, what, advice)
        setting = f"set another workdir for it in {host.hosts_file}"
        return Failure(FailureCause.WORKDIR, what, f"{advice}, or {setting}" if advice else setting)

    def _take_record(self, host: ExaminedHost, record: Record) -> None:
        match record.event:
            case Hello() as hello if host.hello is None:
                host.hello = hello
                host.due = NEVER
                host.offset = record.time - time.time()
                self._apply(record)
                self._say(ClockMeasured(host.index, host.offset))
                self._say(HostPhaseChanged(host.index, Reach.READY))
            case Reserved() as reserved if host.is_awaited(reserved):
                host.reserved = reserved
                host.due = NEVER
            case Connected() as connected if host.is_awaited(connected):
                host.connected.append(connected)
                if host.has_connected:
                    host.due = NEVER

    # What ends

    def _lose(self, host: ExaminedHost, failure: Failure) -> None:
        """Go on without a host; once the facts are known there is nothing left to check."""
        host.failure = failure
        host.due = NEVER
        reason = failure.text
        reached = host.hello is not None
        unfit = not reached and doctor.is_unfit(failure.cause)
        self._say(HostLost(host.index, f"{host.host.name}: {reason}", reached=reached, unfit=unfit))
        if reached and self.state.checks:
            self._say(doctor.lost(host.index, reason))
            self._is_over = True

    def _expire(self, now: float) -> None:
        """Lose the hosts whose answers are overdue."""
        for host in self._hosts:
            if now >= host.due and not self._is_over:
                self._lose(host, _overdue(host))

    def _stop(self, reason: str) -> None:
        if not self._is_over:
            self._say(Stopping(reason, by_person=True))
            self._is_over = True

    def _close(self) -> None:
        """End all errands. A host that is still being reached is not waited for."""
        self._is_over = True
        for host in self._hosts:
            host.connection.send(Close())
        until = time.monotonic() + CLOSING
        for host in self._hosts:
            if host.is_open:
                host.connection.wait_for_end(until)
        for host in self._hosts:
            host.connection.close()

    # Records

    def _report(self, checks: list[CheckFinished]) -> None:
        for check in doctor.grouped(checks):
            self._say(check)

    def _say(self, event: Event) -> None:
        self._seq += 1
        self._apply(Record(SESSION, 0, self._seq, time.time(), event))

    def _apply(self, record: Record) -> None:
        apply_record(self.state, record)
        self._batch.append(record)


def _overdue(host: ExaminedHost) -> Failure:
    began = "" if host.hello else "its Python has started and gave "
    what = f"{began}no answer within {host.host.timeout:g} s"
    advice = f"if it is only slow, raise timeout in {host.host.hosts_file}"
    return Failure(FailureCause.TIMEOUT, what, advice)
