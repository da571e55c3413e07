"""Acting out a plan: a mailbox around the controller.

Threads move bytes; whoever iterates `batches` takes a message, has the controller record it and
decide, and acts. Nothing is decided or drawn here.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import cached_property, partial
from queue import Empty, SimpleQueue
from types import MappingProxyType
from typing import TYPE_CHECKING

from remote.limits import LIMITS, Limits
from remote.plan import needs
from remote.plan.plan import Plan
from remote.record.write import Recorder
from remote.run.course import FETCH, UPLOAD
from remote.session import actions
from remote.session.actions import Action
from remote.session.connection import (
    CLOSED,
    Arrived,
    Asked,
    Broken,
    Connection,
    Heard,
    Message,
    Opened,
)
from remote.session.controller import Controller
from remote.session.times import TIMES, Times
from remote.transport import Agent, Transport
from remote.transport.line_cutter import LineTooLong
from training.job import Job
from training.wire.commands import Lease
from training.wire.events import SESSION, Record, Said
from training.wire.jsonl import dumps

if TYPE_CHECKING:
    from remote.upload.files import Files

BATCH = 1 << 16
"""Bytes of journals after which a batch takes no more, so that `lock` is never held for long."""


class Session:
    """One live run. `state` is written only while `lock` is held, by the thread that iterates
    `batches`."""

    def __init__(
        self,
        plan: Plan,
        transport: Transport,
        recorder: Recorder,
        cwd: str = "",
        forwarded: Mapping[str, str] = MappingProxyType({}),
        *,
        times: Times = TIMES,
        limits: Limits = LIMITS,
    ) -> None:
        """`cwd`: where the ranks work; else where the plan says. `forwarded`: variables for the
        ranks, see `remote.plan.environment`."""
        self.plan = plan
        self.lock = threading.Lock()
        self._transport, self._recorder = transport, recorder
        self._cwd, self._times, self._limits = cwd, times, limits
        self._controller = Controller(plan, recorder, forwarded, times, limits)
        self.state = self._controller.state
        self._queue: SimpleQueue[Message] = SimpleQueue()
        self._in_use: list[Connection | None] = [None] * len(plan.hosts)
        self._opening: list[Connection | None] = [None] * len(plan.hosts)
        self._closing: list[Connection] = []
        self._returns = False
        self._clock_offset = time.time() - time.monotonic()
        self._over = threading.Event()

    # What others may ask, from any thread or signal handler ---------------------------------------

    def stop(self, reason: str = "stopped by the operator", *, now: bool = False) -> None:
        """Ask for the end of the run; returns at once. `now`: without the time that ranks have to
        end by themselves."""
        self._ask(lambda when: self._controller.stop(reason, when, at_once=now))

    def detach(self) -> None:
        """Ask to leave the run to its agents, which go on with it, once the ranks run; returns at
        once."""
        self._ask(self._controller.detach)

    def ask_stacks(self) -> None:
        """Ask where each rank is, which its host then tells; returns at once."""
        self._ask(self._controller.ask_stacks)

    @property
    def begun(self) -> bool:
        """Whether all ranks have made a step in this attempt; those of a user's own script: whether
        they have been started."""
        return self._controller.has_stepped

    @property
    def detached(self) -> bool:
        """Whether the run was left to its agents."""
        return self.state.course.detached

    @property
    def cut_off(self) -> bool:
        """Whether the run was left to its agents as none of them was heard any more, or it could
        not be restarted here."""
        return self.state.course.cut_off

    @property
    def keep(self) -> bool:
        """Whether the agents go on with the run when this session is gone."""
        return self.state.course.keep

    @property
    def has_ended(self) -> bool:
        """Whether nothing of the run is left to be ended."""
        return self._controller.has_ended

    # ----------------------------------------------------------------------------------------------

    def catch_up(self, records: Iterable[Record]) -> None:
        """Return to a run: take in what of it is recorded here, expanded. To be called before
        `batches`."""
        self._returns = True
        self._controller.recall(records)

    def batches(self) -> Iterator[list[Record]]:
        """The run's records, expanded, in order of arrival, already recorded and applied to
        `state`; ends with the run.

        To be iterated once, by one thread. Leaving it early closes the connections, and the agents'
        policy decides what follows.
        """
        yield from self._recalled()
        if self.has_ended:  # and that is recorded
            self._recorder.release()
            return
        lease = threading.Thread(target=self._renew, name="lease", daemon=True)
        lease.start()
        try:
            with self.lock:
                (self._controller.attach if self._returns else self._controller.begin)(self._now())
                self._settle()
            while not self._controller.is_over:
                yield self._turn()
            yield self._taken()
        finally:
            for index in range(len(self.plan.hosts)):
                self._close(index)
            self._recorder.close(self.state)
            until = time.monotonic() + self._limits.flush + CLOSED
            for connection in self._closing:
                connection.wait(until)
            self._over.set()
            lease.join()

    def _recalled(self) -> Iterator[list[Record]]:
        """Batches of what is to be taken in before the hosts are reached."""
        yield from ()

    def _now(self) -> float:
        """The session's clock: the wall clock's time at its start, which no step of it changes."""
        return time.monotonic() + self._clock_offset

    def _ask(self, act: Callable[[float], list[Action]]) -> None:
        self._queue.put(Asked(lambda: self._carry_out(act(self._now()))))

    def _renew(self) -> None:
        """Signs of life, from a thread of its own: who iterates `batches` may be held up, as by a
        pager, and is there still."""
        while not self._over.wait(self._times.lease):
            for connection in self._in_use:
                if connection:
                    connection.send(Lease())

    # The mailbox ----------------------------------------------------------------------------------

    def _turn(self) -> list[Record]:
        """One batch: what has arrived, or nothing where the next look at the clock comes first."""
        messages: list[Message] = []
        with suppress(Empty):
            messages.append(self._queue.get(timeout=self._times.tick))
            size = _size(messages[0])
            while size < BATCH:
                messages.append(self._queue.get_nowait())
                size += _size(messages[-1])
        with self.lock:
            self._observe()
            for message in messages:
                self._take(message)
            self._settle()
            if problem := self._recorder.flush():
                self._controller.take_event(Said(SESSION, problem), self._now())
        return self._taken()

    def _taken(self) -> list[Record]:
        batch, self._controller.batch = self._controller.batch, []
        return batch

    def _take(self, message: Message) -> None:
        match message:
            case Opened(connection):
                self._take_opened(connection)
            case Arrived(connection, data):
                self._take_data(connection, data)
            case Broken(connection, reason):
                self._take_broken(connection, reason)
            case Heard(event):
                self._controller.take_event(event, self._now())
            case Asked(act):
                act()

    def _take_opened(self, connection: Connection) -> None:
        index = connection.index
        if connection is not self._opening[index]:
            return
        self._opening[index] = None
        if before := self._in_use[index]:
            # What is queued there must not come after what is sent over the new one.
            self._let_go(before, unsent=False)
        self._in_use[index] = connection
        self._controller.take_open(index, self._now())

    def _take_data(self, connection: Connection, data: bytes) -> None:
        """Take in what is new: what came over two connections counts once."""
        connection.room.release()
        if connection is not self._in_use[connection.index]:
            return
        index = connection.index
        try:
            why = self._controller.take_lines(index, connection.whole_lines(data), self._now())
        except LineTooLong as error:
            why = self._controller.give_up(index, str(error))
        if why:
            self._in_use[index] = None
            self._controller.contacts[index].is_open = False
            self._let_go(connection)

    def _take_broken(self, connection: Connection, reason: str) -> None:
        index = connection.index
        in_use = connection is self._in_use[index]
        if in_use:
            self._in_use[index] = None
        elif connection is self._opening[index]:
            self._opening[index] = None
        else:
            return
        self._let_go(connection)
        fed = connection.fed
        self._controller.take_broken(index, reason, self._now(), in_use=in_use, fed=fed)

    # Acting ---------------------------------------------------------------------------------------

    def _observe(self) -> None:
        """Note what no message says of the connections."""
        unread = not self._queue.empty()
        for contact, connection in zip(self._controller.contacts, self._in_use, strict=True):
            contact.unread = unread
            contact.held_up = connection.held_up if connection else 0.0

    def _settle(self) -> None:
        """Have the controller decide, and act."""
        self._observe()
        self._carry_out(self._controller.settle(self._now()))
        for host, contact in zip(self.state.hosts, self._controller.contacts, strict=True):
            is_left = host.left_out and not host.ended and not contact.released
            if (host.done or contact.released) and not is_left:
                self._close(host.index)

    def _carry_out(self, chosen: Iterable[Action]) -> None:
        for action in chosen:
            match action:
                case actions.Send(on, command):
                    if connection := self._in_use[on]:
                        connection.send(command)
                case actions.Open(on):
                    self._open(on)
                case actions.Release(on):
                    self._close(on)
                case actions.Upload():
                    self._transfer(UPLOAD, self._files.upload)
                case actions.Fetch(hosts):
                    folder, expected = self._recorder.folder, self._expected
                    self._transfer(FETCH, partial(self._files.fetch, folder, hosts, expected))
                case actions.StopTransfers():
                    self._files.stop()

    def _open(self, on: int) -> None:
        plan, course = self.plan, self.state.course
        agent = Agent(
            plan.folder(on),
            plan.run,
            on,
            plan.hosts[0].address,
            self._cwd or plan.cwd(on),
            after=self.state.hosts[on].seq,
            keep=course.keep,
            found=not (course.returned or self.state.hosts[on].left_out),
            needs=dumps(needs.of(plan.work)),
        )
        connection = Connection(on, plan.hosts[on], self._queue.put, self._limits)
        self._opening[on] = connection
        connection.open(self._transport, agent)

    def _close(self, on: int) -> None:
        """Close the connections to a host."""
        for connection in (self._in_use[on], self._opening[on]):
            if connection:
                self._let_go(connection)
        self._in_use[on] = self._opening[on] = None
        contact = self._controller.contacts[on]
        contact.is_open = contact.is_opening = False

    def _let_go(self, connection: Connection, *, unsent: bool = True) -> None:
        connection.close(unsent=unsent)
        self._closing = [one for one in self._closing if one.is_closing]
        self._closing.append(connection)

    # Files ----------------------------------------------------------------------------------------

    @cached_property
    def _files(self) -> Files:
        from remote.upload.files import Files  # most runs have no files to move

        return Files(
            self.plan, self._transport, lambda on, text: self._queue.put(Heard(Said(on, text)))
        )

    def _transfer(self, what: str, move: Callable[[], dict[int, str]]) -> None:
        """Move files in a thread of its own; what went wrong, by host, is taken in then."""

        def work() -> None:
            problems = move()
            self._queue.put(
                Asked(lambda: self._controller.take_transfer(what, problems, self._now()))
            )

        threading.Thread(target=work, name="files", daemon=True).start()

    @property
    def _expected(self) -> dict[int, int]:
        """About how many bytes of results each host has, as far as is known."""
        from remote.upload.files import expected_sizes

        work = self.plan.work
        return expected_sizes(work, self.state.ranks) if isinstance(work, Job) else {}


def _size(message: Message) -> int:
    """How much of a batch a message takes: 1 at the least, so that a batch has a bounded number of
    them."""
    return len(message.data) if isinstance(message, Arrived) and message.data else 1
