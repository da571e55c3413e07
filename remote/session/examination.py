"""Checks hosts for a plan without a run: the same questions as at a start, and no ranks.

Connections move the bytes, as those of a session do. One thread, which iterates `batches`, takes
the answers, applies them to a `RunState` and asks the next question. `remote.doctor` judges the
answers.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
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
from training.wire.events import SESSION, Event, Record, from_object
from training.wire.host_events import Connected, Hello, Reserved
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
    asked: Command | None = None
    """What it was asked after its facts."""
    reserved: Reserved | None = None
    connected: list[Connected] = field(default_factory=list)
    is_awaited: bool = True
    """It has to answer what it was asked."""
    due: float = NEVER
    """When its answer is overdue, by the monotonic clock."""
    failure: Failure | None = None
    """Why it takes part no longer."""
    is_open: bool = False

    def ask(self, command: Command | None) -> None:
        """Send a command that it has to answer, if there is one for it."""
        if command:
            self.asked = command
            self.is_awaited = True
            self.expect_answer()
            self.connection.send(command)

    def expect_answer(self) -> None:
        """Give it the host's timeout to answer, and the time that its connections have."""
        dial_seconds = self.asked.seconds if isinstance(self.asked, Connect) else 0.0
        self.due = time.monotonic() + self.host.timeout + dial_seconds

    def settle(self) -> None:
        """Expect nothing more from it for now."""
        self.is_awaited = False
        self.due = NEVER


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
                index,
                planned_host,
                Connection(index, planned_host, self._queue.put, limits),
                AnswerReader(limits),
            )
            for index, planned_host in enumerate(plan.hosts)
        ]
        self._batch: list[Record] = []
        self._is_over = False

    def stop(self, stop_reason: str = "stopped by the user") -> None:
        """End the checks; returns at once. Any thread or signal handler may call this."""
        self._queue.put(Asked(lambda: self._stop(stop_reason)))

    def batches(self) -> Iterator[list[Record]]:
        """Yield the records of the checks as they come, already applied to `state`; at least one
        batch a second, perhaps empty. One thread iterates this, once."""
        try:
            for ask_round in (self._reach, self._reserve, self._connect, self._report_connections):
                if not self._is_over:
                    with self.lock:
                        ask_round()
                while not self._is_over and any(host.is_awaited for host in self._hosts):
                    yield self._turn()
        finally:
            self._close()
        with self.lock:
            self._say(SessionClosed())
        yield self._take_batch()

    # Rounds: all hosts are asked, and each answers or is lost

    def _turn(self) -> list[Record]:
        next_deadline = min(host.due for host in self._hosts)
        until_deadline = next_deadline - time.monotonic()
        wait_seconds = max(0.0, min(LOOK, until_deadline))
        messages: list[Message] = []
        with suppress(Empty):
            # All that waits is taken under one lock, so that a viewer does not compete for it
            # with every message.
            messages.append(self._queue.get(timeout=wait_seconds))
            while True:
                messages.append(self._queue.get_nowait())
        with self.lock:
            for message in messages:
                self._take(message)
            now = time.monotonic()
            for host in self._hosts:
                if now >= host.due and not self._is_over:
                    self._lose(host, _overdue(host))
        return self._take_batch()

    def _take_batch(self) -> list[Record]:
        finished_batch = self._batch
        self._batch = []
        return finished_batch

    def _reach(self) -> None:
        """Ask every host for its facts."""
        plan = self.plan
        route_to = plan.hosts[0].address
        for host in self._hosts:
            needed_facts = dumps(needs.needs_of_host(plan, host.index))
            check_command = HostCommand(("check", plan.folder(host.index), route_to, needed_facts))
            host.connection.open(self._transport, check_command)

    def _reserve(self) -> None:
        """Report what the facts mean, and ask every host to reserve a port."""
        host_facts = self._facts
        clock_offsets = [host.offset for host in self._hosts]
        host_failures = [host.failure for host in self._hosts]
        self._report(doctor.check_facts(self.plan, host_facts, clock_offsets, host_failures))
        for host, reserve_command in zip(
            self._hosts, doctor.reservations(self.plan, host_facts), strict=True
        ):
            host.ask(reserve_command)

    def _connect(self) -> None:
        """Ask every host to connect to its peers."""
        for host, connect_command in zip(self._hosts, doctor.connects(self._reserved), strict=True):
            host.ask(connect_command)

    def _report_connections(self) -> None:
        connected_answers = [host.connected for host in self._hosts]
        self._report(
            doctor.check_connections(self.plan, self._facts, self._reserved, connected_answers)
        )

    @property
    def _facts(self) -> list[Hello | None]:
        return [None if host.failure else host.hello for host in self._hosts]

    @property
    def _reserved(self) -> list[Reserved | None]:
        return [host.reserved for host in self._hosts]

    # What hosts answer

    def _take(self, message: Message) -> None:
        match message:
            case Asked(act):
                act()
            case Heard(event) if not self._is_over:
                self._say(event)
            case Opened(connection):
                host = self._hosts[connection.index]
                host.is_open = True
                if not host.failure:
                    host.expect_answer()
            case Arrived(connection, data):
                connection.room.release()
                self._take_data(self._hosts[connection.index], data)
            case Broken(connection, failure):
                self._lose(self._hosts[connection.index], failure)

    def _take_data(self, host: ExaminedHost, data: bytes) -> None:
        try:
            for answer in host.answers.take(data):
                self._take_answer(host, answer)
        except (AnswerTooLong, LineTooLong) as error:
            host.connection.close()
            self._lose(host, Failure(FailureCause.BROKEN, str(error)))

    def _take_answer(self, host: ExaminedHost, answer: dict[str, Any]) -> None:
        """Take one object of an answer. What nobody has asked for is ignored."""
        if "event" not in answer and "error" in answer:
            self._lose(host, self._read_failure(host.host, answer))
        elif host.is_awaited:
            # A check command knows neither its host's number nor a run, which a record has to
            # name.
            record = from_object(answer | {"host": host.index, "attempt": 0, "seq": 1})
            if record:
                self._take_record(host, record)
            else:
                failure_text = "it sent an answer that cannot be used"
                self._lose(host, Failure(FailureCause.OTHER, failure_text))

    def _read_failure(self, planned_host: Host, answer: dict[str, Any]) -> Failure:
        """Return what a host says that it cannot do."""
        shown_length = self._limits.shown
        problem_text = str(answer.get("error", ""))[:shown_length]
        advice = str(answer.get("advice", ""))[:shown_length]
        if answer.get("cause") != FailureCause.WORKDIR.value:
            return Failure(FailureCause.OTHER, problem_text, advice)
        workdir_advice = f"set another workdir for it in {planned_host.hosts_file}"
        return Failure(
            FailureCause.WORKDIR,
            problem_text,
            f"{advice}, or {workdir_advice}" if advice else workdir_advice,
        )

    def _take_record(self, host: ExaminedHost, record: Record) -> None:
        match record.event, host.asked:
            case Hello() as hello, None:
                host.hello = hello
                host.settle()
                host.offset = record.time - time.time()
                self._apply(record)
                self._say(ClockMeasured(host.index, host.offset))
                self._say(HostPhaseChanged(host.index, Reach.READY))
            case Reserved(address) as reserved, Reserve(asked_address) if address == asked_address:
                host.reserved = reserved
                host.settle()
            case Connected() as connected, Connect() as connect_command:
                connected_answers = [*host.connected, connected]
                host.connected = doctor.answers_to(connect_command, connected_answers)
                if doctor.has_tried(connect_command, connected_answers):
                    host.settle()

    # What ends

    def _lose(self, host: ExaminedHost, failure: Failure) -> None:
        """Go on without a host; once the facts are known there is nothing left to check."""
        if host.failure or self._is_over:
            return
        host.failure = failure
        host.settle()
        failure_text = failure.text
        has_answered = host.hello is not None
        is_unfit = not has_answered and doctor.is_unfit(failure.cause)
        self._say(
            HostLost(
                host.index,
                f"{host.host.name}: {failure_text}",
                reached=has_answered,
                unfit=is_unfit,
            )
        )
        if has_answered and self.state.checks:
            # The later rounds ask all hosts about each other, so that no result would be
            # complete.
            self._say(doctor.lost(host.index, failure_text))
            self._is_over = True

    def _stop(self, stop_reason: str) -> None:
        if not self._is_over:
            self._say(Stopping(stop_reason, by_person=True))
            self._is_over = True

    def _close(self) -> None:
        """End all errands. A host that is still being reached is not waited for."""
        self._is_over = True
        for host in self._hosts:
            host.connection.send(Close())
        close_deadline = time.monotonic() + CLOSING
        for host in self._hosts:
            if host.is_open:
                host.connection.wait_for_end(close_deadline)
        for host in self._hosts:
            host.connection.close()

    # Records

    def _report(self, checks: list[CheckFinished]) -> None:
        for check in doctor.grouped(checks):
            self._say(check)

    def _say(self, event: Event) -> None:
        self._apply(Record(SESSION, 0, self.state.seq + 1, time.time(), event))

    def _apply(self, record: Record) -> None:
        apply_record(self.state, record)
        self._batch.append(record)


def _overdue(host: ExaminedHost) -> Failure:
    start_prefix = "" if host.hello else "its Python has started and gave "
    failure_text = f"{start_prefix}no answer within {host.host.timeout:g} s"
    advice = f"if it is only slow, raise timeout in {host.host.hosts_file}"
    return Failure(FailureCause.TIMEOUT, failure_text, advice)
