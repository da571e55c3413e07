"""Acting out a plan: reach every host, start the ranks, listen until the run has ended, and let nobody outlive a failure.

One thread per host moves bytes; whoever iterates `batches` decodes, records, applies and decides. Nothing is drawn here.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from queue import Empty, SimpleQueue

from remote.link import Arrived, Asked, Broken, Heard, Link, Message, Opened
from remote.plan import Plan, PlanError, master_address, place
from remote.recorder import Recorder
from remote.run import RunState
from remote.transport import Agent, Transport
from training.commands import Close, Lease, Reserve, Start, Stop
from training.events import (
    SESSION,
    Clock,
    Closed,
    Ended,
    Event,
    Exited,
    Hello,
    Lost,
    Reaching,
    Record,
    Refused,
    Reserved,
    Said,
    Silent,
    Stopping,
    decode,
    expand,
)
from training.job import Job

LEASE = 1.0
"""Seconds between two signs of life to every agent."""
LOOK = 1.0
"""Seconds between two looks at how long each host has been silent, at the most."""
EVIDENCE = 1.0
"""Seconds after the first failure until the others are stopped: their last words tell who was the cause."""
SILENT = 5.0
"""Seconds without a record until a host counts as silent; a live agent samples its host each second."""
LOST = 60.0
"""Seconds without a record until a host counts as lost."""
CLOSING = 8.0
"""Seconds that an agent has to end its ranks and itself: its own grace, and the way there and back."""
BATCH = 16
"""Reads (of up to 64 KiB each) that make one batch at the most, so that `lock` is never held for long."""
NEVER = float("inf")


class Session:
    """One live run. `state` is written only while `lock` is held, by the thread that iterates `batches`."""

    def __init__(self, plan: Plan, transport: Transport, recorder: Recorder, cwd: str = "") -> None:
        """`cwd`: where the ranks work; else each host's workdir."""
        self.plan = plan
        self.state = RunState(plan)
        self.lock = threading.Lock()
        self._transport = transport
        self._recorder = recorder
        self._queue: SimpleQueue[Message] = SimpleQueue()
        self._links = []
        for index, host in enumerate(plan.hosts):
            where = (plan.folder(index), plan.run, index, plan.hosts[0].address, cwd or host.workdir)
            self._links.append(Link(index, host, Agent(*where, keep=plan.policy.keep), self._queue))
        self._seq = 0
        self._batch: list[Record] = []
        self._unfit = self._started = self._stopping = self._closing = False
        self._next_look, self._stop_at, self._give_up_at = 0.0, NEVER, NEVER
        self._over = threading.Event()

    def stop(self, reason: str = "stopped by the operator") -> None:
        """Ask for the end of the run. From any thread or signal handler; returns at once."""
        self._queue.put(Asked(reason))

    def batches(self) -> Iterator[list[Record]]:
        """The run's records, expanded, in order of arrival, already recorded and applied to `state`; ends with the run.

        To be iterated once, by one thread. Leaving it early closes the lines, and the agents' policy decides what follows.
        """
        for link in self._links:
            link.reach(self._transport)
        lease = threading.Thread(target=self._renew, name="lease", daemon=True)
        lease.start()
        try:
            while not all(link.done for link in self._links):
                yield self._turn()
            with self.lock:
                self._say(Closed())
            yield self._taken()
        finally:
            for link in self._links:
                link.finish()
            self._recorder.close(self.state)
            for link in self._links:
                link.wait()
            self._over.set()
            lease.join()

    def _renew(self) -> None:
        """Signs of life, from a thread of its own: who iterates `batches` may be held up, as by a pager, and is there still."""
        while not self._over.wait(LEASE):
            for link in self._links:
                link.send(Lease())

    def _turn(self) -> list[Record]:
        """One batch: what has arrived, or nothing where the next deadline comes first."""
        messages: list[Message] = []
        deadline = min(self._next_look, self._stop_at, self._give_up_at)
        with suppress(Empty):
            messages.append(self._queue.get(timeout=max(0.0, deadline - time.monotonic())))
            while len(messages) < BATCH:
                messages.append(self._queue.get_nowait())
        with self.lock:
            for message in messages:
                self._take(message)
            self._watch(time.monotonic())
            if problem := self._recorder.flush():
                self._say(Said(SESSION, problem))
        return self._taken()

    def _taken(self) -> list[Record]:
        batch, self._batch = self._batch, []
        return batch

    def _take(self, message: Message) -> None:
        match message:
            case Opened(host, line):
                self._links[host].opened(line)
            case Arrived(host, data):
                self._read(self._links[host], data)
            case Broken(host, reason):
                if not self._links[host].done:
                    self._lose(self._links[host], reason)
            case Heard(event):
                self._say(event)
            case Asked(reason):
                self._stop(reason, by_person=True)

    def _read(self, link: Link, data: bytes) -> None:
        lines = link.whole_lines(data)
        self._recorder.raw(lines)
        for line in lines.splitlines():
            record = decode(line)
            if record is None:
                self._say(Said(link.index, line.decode(errors="replace")))
            else:
                self._apply(record)
                self._decide(link, record)

    def _say(self, event: Event) -> None:
        self._seq += 1
        record = Record(SESSION, 0, self._seq, time.time(), event)
        self._recorder.write(record)
        self._apply(record)

    def _apply(self, record: Record) -> None:
        for one in expand(record):
            self._recorder.text(one)
            self.state.apply(one)
            self._batch.append(one)

    # Decisions

    def _decide(self, link: Link, record: Record) -> None:
        match record.event:
            case Hello() as hello:
                link.hello = hello
                self._say(Clock(link.index, record.time - time.time()))
                self._say(Reaching(link.index, "ready"))
                self._greet(link, hello)
            case Reserved() as reserved:
                self._start(reserved)
            case Exited(rank, code):
                link.running.discard(rank)
                if code != 0 or self.state.cause:  # an exit code 0 before the last step is a failure too
                    self._fail()
                self._close_if_over()
            case Ended():
                if not self._closing:  # it was not told to: killed, or a full disk, or somebody on that host
                    self._unfit = True
                    self._fail()
                self._finish(link)

    def _greet(self, link: Link, hello: Hello) -> None:
        if isinstance(self.plan.work, Job) and not hello.torch:
            self._refuse(
                link.index,
                f"{link.host.name}: {hello.executable} (Python {hello.python}) has no torch: install it there "
                f"({hello.executable} -m pip install torch torchvision), or set python in hosts.toml to one that has it",
            )
        self._settle()

    def _settle(self) -> None:
        """Once every host has said Hello or is lost: go on to the start, or end what is not fit to start.

        Not earlier, so that all hosts that cannot take part are named at once.
        """
        if self._started or self._closing or not all(link.hello or link.done for link in self._links):
            return
        if self._unfit:
            self._close()
        else:
            self._reserve()

    def _facts(self) -> list[Hello]:
        return [link.hello for link in self._links if link.hello]

    def _reserve(self) -> None:
        try:
            address = master_address(self.plan, self._facts())
        except PlanError as error:
            self._refuse(SESSION, str(error))
            self._close()
        else:
            self._links[0].send(Reserve(address, self.plan.hosts[0].master_port))

    def _start(self, reserved: Reserved) -> None:
        if self._started or self._closing:
            return
        if reserved.error:
            hint = "set another master_port for it in hosts.toml, or leave the key out and a free one is chosen"
            self._refuse(0, f"{self.plan.hosts[0].name}: {reserved.error}; {hint}")
            self._close()
            return
        self._started = True
        placements = place(self.plan, self._facts(), reserved.address, reserved.port)
        for link, placed in zip(self._links, placements, strict=True):
            link.running = {placement.rank for placement in placed}
            link.send(Start(0, isinstance(self.plan.work, Job), placed))

    def _refuse(self, on: int, reason: str) -> None:
        self._say(Refused(on, reason))
        self._unfit = True

    def _fail(self) -> None:
        """A first failure: the others have a moment to say their last words before they are stopped."""
        if self._started and not self._stopping and not self._closing:
            self._stop_at = min(self._stop_at, time.monotonic() + EVIDENCE)

    def _lose(self, link: Link, reason: str) -> None:
        self._say(Lost(link.index, reason, reached=link.hello is not None))
        self._unfit = True
        self._fail()
        self._finish(link)

    def _finish(self, link: Link) -> None:
        link.finish()
        self._settle()
        self._close_if_over()

    def _close_if_over(self) -> None:
        if self._started and not any(link.running for link in self._links):
            self._close()

    def _stop(self, reason: str, *, by_person: bool) -> None:
        if self._stopping or self._closing:
            return
        self._stopping = True
        self._say(Stopping(reason, by_person))
        if not self._started:
            self._close()
            return
        self._stop_at, self._give_up_at = NEVER, time.monotonic() + CLOSING
        for link in self._links:
            link.send(Stop())

    def _close(self) -> None:
        """Nothing is left to run: every agent ends. A host that no line has reached yet is not waited for."""
        if self._closing:
            return
        self._closing = True
        self._stop_at, self._give_up_at = NEVER, time.monotonic() + CLOSING
        for link in self._links:
            if link.line:
                link.send(Close())
            else:
                link.finish()

    def _watch(self, now: float) -> None:
        """What only the clock tells: evidence gathered, hosts silent or lost."""
        self._next_look = now + LOOK
        if now >= self._stop_at:
            self._stop("a rank or host failed", by_person=False)
        given_up = now >= self._give_up_at and self._queue.empty()  # what has come may be the end that we wait for
        for link in self._links:
            if link.line is None or link.done:
                continue
            quiet = now - link.heard
            if quiet >= LOST:
                self._lose(link, f"{link.host.name}: no sign of life for {quiet:.0f} s")
            elif given_up and (link.running or self._closing):
                self._lose(link, f"{link.host.name}: did not end within {CLOSING:g} s")
            elif quiet >= SILENT and not link.silent:
                link.silent = True
                self._say(Silent(link.index, quiet))
