"""Checks hosts for a plan without a run: one errand on each host, all at once.

Threads move the bytes. One thread, which iterates `batches`, takes the answers, applies them to a
`RunState` and asks the next question. `remote.doctor` judges the answers.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any

from remote.cluster.hosts import Host
from remote.doctor import doctor
from remote.errands.reading import AnswerTooLong, Objects
from remote.limits import LIMITS, Limits
from remote.plan import needs
from remote.plan.plan import Plan
from remote.run.events import Checked, Clock, Closed, Lost, Reaching, Said, Stopping
from remote.run.state import RunState
from remote.transport import Channel, Errand, Transport, Unreachable
from remote.transport.failure import Cause, Failure
from remote.transport.talk import last_line
from training.wire.commands import Close, Command, Connect, Reserve, encode
from training.wire.enums import Reach
from training.wire.events import SESSION, Connected, Event, Hello, Record, Reserved, from_object
from training.wire.jsonl import dumps
from training.wire.line_cutter import LineTooLong

NEVER = float("inf")
LOOK = 1.0
"""Seconds between two batches at most, so that a caller can show who is waited for."""
CLOSING = 3.0
"""Seconds that the connections have to close at the end."""

Act = Callable[[], None]
"""What the deciding thread does next."""


@dataclass(eq=False)
class Subject:
    """One host under examination. `due` is when its next answer is overdue; `failure` is why it
    takes part no longer."""

    index: int
    host: Host
    channel: Channel | None = None
    listener: threading.Thread = field(default_factory=threading.Thread)
    hello: Hello | None = None
    offset: float = 0.0
    reserve: Reserve | None = None
    reserved: Reserved | None = None
    connect: Connect | None = None
    connected: list[Connected] = field(default_factory=list)
    due: float = NEVER
    failure: Failure | None = None


class Examination:
    """The checks of all hosts of a plan. Nothing is started, and nothing is kept anywhere.

    `state` is written only while `lock` is held, by the thread that iterates `batches`.
    """

    def __init__(self, plan: Plan, transport: Transport, limits: Limits = LIMITS) -> None:
        self.plan, self._transport, self._limits = plan, transport, limits
        self.state = RunState(plan, limits)
        self.lock = threading.Lock()
        self._subjects = [Subject(index, host) for index, host in enumerate(plan.hosts)]
        self._queue: SimpleQueue[Act] = SimpleQueue()
        self._batch: list[Record] = []
        self._over = False
        self._seq = 0

    def stop(self, reason: str = "stopped by the operator") -> None:
        """End the checks; returns at once. Any thread or signal handler may call this."""
        self._queue.put(lambda: self._stop(reason))

    def batches(self) -> Iterator[list[Record]]:
        """The records of the checks as they come, already applied to `state`; at least one batch
        a second, perhaps empty. One thread iterates this, once."""
        try:
            yield from self._round(self._reach, _has_facts)
            yield from self._round(self._reserve, _has_reserved)
            yield from self._round(self._connect, _has_tried_all)
            if not self._over:
                with self.lock:
                    self._report_connections()
        finally:
            self._close()
        with self.lock:
            self._say(Closed())
        yield self._taken()

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
        batch, self._batch = self._batch, []
        return batch

    # Round 1: facts

    def _reach(self) -> None:
        for one in self._subjects:
            name = f"checking {one.index}"
            one.listener = threading.Thread(
                target=self._listen, args=(one,), name=name, daemon=True
            )
            one.listener.start()

    def _listen(self, one: Subject) -> None:
        """Reach a host, and pass its answers on to the deciding thread. The body of a thread."""
        folder, route_to = self.plan.folder(one.index), self.plan.hosts[0].address
        errand = Errand(("check", folder, route_to, dumps(needs.of(self.plan.work))))
        try:
            channel = self._transport.open(one.host, errand, _Progress(one.index, self._put_event))
        except Unreachable as error:
            self._put_failure(one, error.failure)
        except Exception as error:  # noqa: BLE001 - our own mistake: without this the host is waited for forever
            what = f"rankboard itself failed: {error!r}"
            self._put_failure(one, Failure(Cause.OTHER, what))
        else:
            self._queue.put(lambda: self._opened(one, channel))
            self._put_failure(one, Failure(Cause.BROKEN, self._read(one, channel)))

    def _read(self, one: Subject, channel: Channel) -> str:
        """Pass on the answers up to the end of the connection; why it has ended."""
        objects = Objects(self._limits)
        try:
            while block := channel.read():
                self._queue.put(partial(self._take, one, objects.take(block)))
        except (AnswerTooLong, LineTooLong) as error:
            channel.close()
            return str(error)
        return last_line(channel.close()) or "the connection broke"

    def _put_event(self, event: Event) -> None:
        self._queue.put(lambda: self._say(event))

    def _put_failure(self, one: Subject, failure: Failure) -> None:
        self._queue.put(lambda: self._lose(one, failure))

    def _opened(self, one: Subject, channel: Channel) -> None:
        one.channel = channel
        self._expect(one)

    # Rounds 2 and 3: ports and connections

    def _reserve(self) -> None:
        """Report what the facts mean, and ask every host to reserve a port."""
        facts = self._facts
        offsets = [one.offset for one in self._subjects]
        failures = [one.failure for one in self._subjects]
        self._report(doctor.check_facts(self.plan, facts, offsets, failures))
        wanted = doctor.reservations(self.plan, facts)
        for one, reserve in zip(self._subjects, wanted, strict=True):
            if reserve:
                one.reserve = reserve
                self._ask(one, reserve)

    @property
    def _facts(self) -> list[Hello | None]:
        return [None if one.failure else one.hello for one in self._subjects]

    @property
    def _listening(self) -> list[Reserved | None]:
        return [one.reserved for one in self._subjects]

    def _connect(self) -> None:
        """Ask every host to connect to its peers."""
        for one, connect in zip(self._subjects, doctor.connects(self._listening), strict=True):
            if connect:
                one.connect = connect
                self._ask(one, connect)

    def _report_connections(self) -> None:
        connected = [one.connected for one in self._subjects]
        self._report(doctor.check_connections(self.plan, self._facts, self._listening, connected))

    # What hosts answer

    def _take(self, one: Subject, objects: Sequence[dict[str, Any]]) -> None:
        for found in objects:
            if one.failure or self._over:
                return
            if "event" not in found and "error" in found:
                what = str(found["error"])[: self._limits.shown]
                self._lose(one, Failure(Cause.OTHER, what))
                return
            if one.due == NEVER:  # nobody asked
                continue
            record = from_object(found | {"host": one.index, "attempt": 0, "seq": 1})
            if record is None:
                self._lose(one, Failure(Cause.OTHER, "it sent an answer that cannot be used"))
                return
            self._obey(one, record)

    def _obey(self, one: Subject, record: Record) -> None:
        """Take the answer to what was asked; anything else is ignored."""
        match record.event:
            case Hello() as hello if one.hello is None:
                self._learn(one, hello, record)
            case Reserved(address) as reserved if one.reserve and address == one.reserve.address:
                one.reserved, one.due = reserved, NEVER
            case Connected() as connected if _is_asked_for(one, connected):
                one.connected.append(connected)
                one.due = NEVER if _has_tried_all(one) else one.due

    def _learn(self, one: Subject, hello: Hello, record: Record) -> None:
        one.hello, one.due = hello, NEVER
        one.offset = record.time - time.time()
        self._apply(record)
        self._say(Clock(one.index, one.offset))
        self._say(Reaching(one.index, Reach.READY))

    def _lose(self, one: Subject, failure: Failure) -> None:
        """Go on without a host; once the facts are known there is nothing left to check."""
        if one.failure or self._over:
            return
        one.failure, one.due = failure, NEVER
        reason = self.plan.named(failure.text)
        reached = one.hello is not None
        unfit = not reached and doctor.is_unfit(failure.cause)
        self._say(Lost(one.index, f"{one.host.name}: {reason}", reached=reached, unfit=unfit))
        if reached and self.state.checks:
            self._say(doctor.lost(one.index, reason))
            self._over = True

    # Asking and waiting

    def _ask(self, one: Subject, command: Command) -> None:
        self._expect(one)
        self._send(one, command)

    @staticmethod
    def _send(one: Subject, command: Command) -> None:
        """Write a command in a thread of its own: a host that does not read holds up nobody."""
        if one.channel:
            thread = threading.Thread(target=_write, args=(one.channel, command), daemon=True)
            thread.start()

    def _expect(self, one: Subject) -> None:
        """An answer is due within the host's timeout, and the time that its connections have."""
        dialling = one.connect.seconds if one.connect else 0.0
        one.due = time.monotonic() + one.host.timeout + dialling

    def _expire(self, now: float) -> None:
        for one in self._subjects:
            if now >= one.due:
                silent = "no answer within" if one.hello else _STARTED
                advice = "if it is only slow, raise timeout in hosts.toml"
                what = f"{silent} {one.host.timeout:g} s"
                self._lose(one, Failure(Cause.TIMEOUT, what, advice))

    def _stop(self, reason: str) -> None:
        if not self._over:
            self._say(Stopping(reason, by_person=True))
            self._over = True

    def _close(self) -> None:
        """End all errands. A host that is still being reached is not waited for."""
        self._over = True
        reached = [one for one in self._subjects if one.channel]
        for one in reached:
            self._send(one, Close())
        _join([one.listener for one in reached])
        _join([_closing(one.channel) for one in reached if one.channel and one.listener.is_alive()])

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
        self.state.apply(record)
        self._batch.append(record)


_STARTED = "its Python has started and gave no answer within"


def _write(channel: Channel, command: Command) -> None:
    with suppress(OSError):  # the reader of this connection says why
        channel.write(encode(command))


def _closing(channel: Channel) -> threading.Thread:
    """A thread that closes the channel, which can take seconds where its host hangs."""
    thread = threading.Thread(target=channel.close, name="closing", daemon=True)
    thread.start()
    return thread


def _join(threads: Sequence[threading.Thread]) -> None:
    until = time.monotonic() + CLOSING
    for thread in threads:
        thread.join(max(0.0, until - time.monotonic()))


def _has_facts(one: Subject) -> bool:
    return one.hello is not None


def _has_reserved(one: Subject) -> bool:
    return one.reserve is None or one.reserved is not None


def _has_tried_all(one: Subject) -> bool:
    return len(one.connected) == len(one.connect.targets if one.connect else ())


def _is_asked_for(one: Subject, connected: Connected) -> bool:
    """Whether the host was asked for this connection, and has not answered yet."""
    where = (connected.address, connected.port)
    tried = {(other.address, other.port) for other in one.connected}
    return one.connect is not None and where in one.connect.targets and where not in tried


class _Progress:
    """Turns what a transport reports into records."""

    def __init__(self, index: int, say: Callable[[Event], None]) -> None:
        self._index, self._say = index, say

    def phase(self, name: Reach) -> None:
        self._say(Reaching(self._index, name))

    def said(self, text: str) -> None:
        self._say(Said(self._index, text))
