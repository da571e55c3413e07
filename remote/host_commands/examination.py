"""Checks hosts for a plan without a run: one errand on each host, all at once.

Threads move the bytes. One thread, which iterates `batches`, takes the answers, applies them to a
`RunState` and asks the next question. `remote.doctor` judges the answers.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from operator import attrgetter
from queue import Empty, SimpleQueue
from typing import Any

from remote.doctor import doctor
from remote.events import Checked, Clock, Closed, Lost, Reaching, Said, Stopping
from remote.host_commands.subject import NEVER, Answered, News, Opened, Subject
from remote.limits import LIMITS, Limits
from remote.plan import needs
from remote.plan.plan import Plan
from remote.run.apply import apply_record
from remote.run.run_state import RunState
from remote.transport import Errand, Transport
from remote.transport.failure import Cause, Failure
from training.wire.commands import Close
from training.wire.enums import Reach
from training.wire.events import SESSION, Connected, Event, Hello, Record, Reserved, from_object
from training.wire.jsonl import dumps

LOOK = 1.0
"""Seconds between two batches at most, so that a caller can show who is waited for."""
CLOSING = 3.0
"""Seconds that the connections have to close at the end."""

Act = Callable[[], None]
"""What the deciding thread does next."""


class Examination:
    """The checks of all hosts of a plan. Nothing is started, and nothing is kept anywhere.

    `state` is written only while `lock` is held, by the thread that iterates `batches`.
    """

    def __init__(self, plan: Plan, transport: Transport, limits: Limits = LIMITS) -> None:
        self.plan = plan
        self._transport = transport
        self._limits = limits
        self.state = RunState(plan, limits)
        self.lock = threading.Lock()
        self._subjects = [Subject(index, host) for index, host in enumerate(plan.hosts)]
        self._queue: SimpleQueue[Act] = SimpleQueue()
        self._batch: list[Record] = []
        self._over = False
        self._seq = 0

    def stop(self, reason: str = "stopped by the user") -> None:
        """End the checks; returns at once. Any thread or signal handler may call this."""
        self._queue.put(lambda: self._stop(reason))

    def batches(self) -> Iterator[list[Record]]:
        """The records of the checks as they come, already applied to `state`; at least one batch
        a second, perhaps empty. One thread iterates this, once."""
        try:
            yield from self._round(self._reach, attrgetter("has_facts"))
            yield from self._round(self._reserve, attrgetter("has_reserved"))
            yield from self._round(self._connect, attrgetter("has_connected"))
            if not self._over:
                with self.lock:
                    self._report_connections()
        finally:
            self._close()
        with self.lock:
            self._say(Closed())
        yield self._taken()

    # Rounds

    def _round(
        self, ask: Callable[[], None], answered: Callable[[Subject], bool]
    ) -> Iterator[list[Record]]:
        """Ask all hosts, and wait until each has answered or is lost."""
        if self._over:
            return
        with self.lock:
            ask()
        while not self._over and not all(one.failure or answered(one) for one in self._subjects):
            yield self._turn()

    def _turn(self) -> list[Record]:
        due = min(one.due for one in self._subjects)
        acts: list[Act] = []
        with suppress(Empty):
            acts.append(self._queue.get(timeout=max(0.0, min(LOOK, due - time.monotonic()))))
            while True:
                acts.append(self._queue.get_nowait())
        with self.lock:
            for act in acts:
                act()
            self._expire(time.monotonic())
        return self._taken()

    def _taken(self) -> list[Record]:
        batch = self._batch
        self._batch = []
        return batch

    def _reach(self) -> None:
        """Ask every host for its facts."""
        route_to = self.plan.hosts[0].address
        for one in self._subjects:
            wanted = dumps(needs.on(self.plan, one.index))
            errand = Errand(("check", self.plan.folder(one.index), route_to, wanted))
            one.reach(self._transport, errand, self._limits, self._put)

    def _reserve(self) -> None:
        """Report what the facts mean, and ask every host to reserve a port."""
        facts = self._facts
        offsets = [one.offset for one in self._subjects]
        failures = [one.failure for one in self._subjects]
        self._report(doctor.check_facts(self.plan, facts, offsets, failures))
        for one, reserve in zip(self._subjects, doctor.reservations(self.plan, facts), strict=True):
            if reserve:
                one.reserve = reserve
                one.ask(reserve)

    def _connect(self) -> None:
        """Ask every host to connect to its peers."""
        for one, connect in zip(self._subjects, doctor.connects(self._listening), strict=True):
            if connect:
                one.connect = connect
                one.ask(connect)

    def _report_connections(self) -> None:
        connected = [one.connected for one in self._subjects]
        self._report(doctor.check_connections(self.plan, self._facts, self._listening, connected))

    @property
    def _facts(self) -> list[Hello | None]:
        return [None if one.failure else one.hello for one in self._subjects]

    @property
    def _listening(self) -> list[Reserved | None]:
        return [one.reserved for one in self._subjects]

    # What hosts answer

    def _put(self, one: Subject, news: News) -> None:
        self._queue.put(lambda: self._take(one, news))

    def _take(self, one: Subject, news: News) -> None:
        if one.failure or self._over:
            return
        match news:
            case Opened(channel):
                one.channel = channel
                one.expect()
            case Answered(objects):
                for found in objects:
                    self._hear(one, found)
            case Failure():
                self._lose(one, news)
            case Reaching() | Said():
                self._say(news)

    def _hear(self, one: Subject, found: dict[str, Any]) -> None:
        """Take one object of an answer. What nobody has asked for is ignored."""
        if one.failure or self._over:
            return
        if "event" not in found and "error" in found:
            self._lose(one, self._failure(found))
        elif one.due < NEVER:
            record = from_object(found | {"host": one.index, "attempt": 0, "seq": 1})
            if record:
                self._obey(one, record)
            else:
                self._lose(one, Failure(Cause.OTHER, "it sent an answer that cannot be used"))

    def _failure(self, found: dict[str, Any]) -> Failure:
        """What a host says that it cannot do."""
        cause = Cause.WORKDIR if found.get("cause") == Cause.WORKDIR.value else Cause.OTHER
        what, advice = (
            str(found.get(key, ""))[: self._limits.shown] for key in ("error", "advice")
        )
        return Failure(cause, what, advice)

    def _obey(self, one: Subject, record: Record) -> None:
        match record.event:
            case Hello() as hello if one.hello is None:
                one.hello = hello
                one.due = NEVER
                one.offset = record.time - time.time()
                self._apply(record)
                self._say(Clock(one.index, one.offset))
                self._say(Reaching(one.index, Reach.READY))
            case Reserved() as reserved if one.is_asked_for(reserved):
                one.reserved = reserved
                one.due = NEVER
            case Connected() as connected if one.is_asked_for(connected):
                one.connected.append(connected)
                one.due = NEVER if one.has_connected else one.due

    # What ends

    def _lose(self, one: Subject, failure: Failure) -> None:
        """Go on without a host; once the facts are known there is nothing left to check."""
        one.failure = failure
        one.due = NEVER
        reason = self.plan.named(failure.text)
        reached = one.hello is not None
        unfit = not reached and doctor.is_unfit(failure.cause)
        self._say(Lost(one.index, f"{one.host.name}: {reason}", reached=reached, unfit=unfit))
        if reached and self.state.checks:
            self._say(doctor.lost(one.index, reason))
            self._over = True

    def _expire(self, now: float) -> None:
        """Lose the hosts whose answers are overdue."""
        for one in self._subjects:
            if now >= one.due and not self._over:
                began = "" if one.hello else "its Python has started and gave "
                what = f"{began}no answer within {one.host.timeout:g} s"
                advice = "if it is only slow, raise timeout in hosts.toml"
                self._lose(one, Failure(Cause.TIMEOUT, what, advice))

    def _stop(self, reason: str) -> None:
        if not self._over:
            self._say(Stopping(reason, by_person=True))
            self._over = True

    def _close(self) -> None:
        """End all errands. A host that is still being reached is not waited for."""
        self._over = True
        for one in self._subjects:
            one.end(Close())
        until = time.monotonic() + CLOSING
        for one in self._subjects:
            one.wait(until)

    # Records

    def _report(self, checks: Sequence[Checked]) -> None:
        named = self.plan.named
        texts = [replace(one, text=named(one.text), advice=named(one.advice)) for one in checks]
        for check in doctor.grouped(texts):
            self._say(check)

    def _say(self, event: Event) -> None:
        self._seq += 1
        self._apply(Record(SESSION, 0, self._seq, time.time(), event))

    def _apply(self, record: Record) -> None:
        apply_record(self.state, record)
        self._batch.append(record)
