"""Acting out a plan: reach every host, start the ranks, listen until the run has ended, and let
nobody outlive a failure.

A thread per wire moves bytes; whoever iterates `batches` decodes, records, applies and decides.
Nothing is drawn here.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from enum import Enum
from functools import cached_property
from queue import Empty, SimpleQueue
from types import MappingProxyType
from typing import TYPE_CHECKING

from remote.doctor import doctor
from remote.limits import LIMITS, Limits
from remote.plan import needs, serialize
from remote.plan.plan import OnNan, OnStall, Plan, PlanError, Script, check
from remote.record.layout import PLAN
from remote.record.write import Recorder
from remote.run import agent_end
from remote.run.state import RunState, Verdict
from remote.sanitise import cut
from remote.session import reconnect
from remote.session.connection import Arrived, Asked, Broken, Heard, Link, Message, Opened, Wire
from remote.session.startup import Startup
from remote.session.watchdog import Halts
from remote.transport import Agent, Transport
from remote.transport.line_cutter import LineTooLong
from training.job import Job
from training.wire.commands import Close, Connect, Keep, Lease, OnDisconnect, Reserve, Start, Stop
from training.wire.enums import Reach
from training.wire.events import (
    SESSION,
    SESSION_EVENTS,
    Clock,
    Closed,
    Connected,
    Detached,
    Ended,
    Event,
    Exited,
    Hello,
    Launched,
    Lost,
    Reaching,
    Record,
    Refused,
    Reserved,
    Restarted,
    Said,
    StopHeard,
    Stopping,
    decode,
    expand,
    fault,
)
from training.wire.jsonl import dumps

if TYPE_CHECKING:
    from remote.upload.files import Files

LEASE = 1.0
"""Seconds between two signs of life to every agent."""
LOOK = 1.0
"""Seconds between two looks at how long each host has been silent, at the most."""
EVIDENCE = 1.0
"""Seconds after the first failure until the others are stopped: their last words tell who was the
cause."""
CLOSING = 8.0
"""Seconds that an agent has to end its ranks and itself: its own grace, and the way there and
back."""
AWAY, MOMENT = 3.0, 0.5
"""Seconds without a record after which a person who stops the run waits no longer for a host, as
its cable may be cut; and how long each has at least."""
UNHEARD = 600.0
"""Seconds without a record of any host after which a kept run is left to its agents."""
REASON = 200
"""Characters of what is wrong with a host's record that are shown."""
BATCH = 1 << 16
"""Bytes of journals after which a batch takes no more, so that `lock` is never held for long."""
NEVER = float("inf")
KEPT = "The run continues if this terminal disconnects; rankboard attach returns to it."
STOPPED = (
    "The run stops if this terminal disconnects (use --on-disconnect keep to let it continue)."
)
ANSWERS = {Reserve: Reserved, Connect: Connected, Start: Launched, Stop: StopHeard, Close: Ended}
"""The record that says of a command that it has arrived."""


class Stage(Enum):
    """How far a session is."""

    REACHING = 0
    STARTING = 1
    RUNNING = 2
    STOPPING = 3
    CLOSING = 4


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
        limits: Limits = LIMITS,
    ) -> None:
        """`cwd`: where the ranks work; else where the plan says. `forwarded`: variables for the
        ranks, see `remote.plan.environment`."""
        self.plan, self._limits = plan, limits
        self.state = RunState(plan, limits)
        self.lock = threading.Lock()
        self._transport = transport
        self._recorder = recorder
        self._queue: SimpleQueue[Message] = SimpleQueue()
        self._links = []
        for index, host in enumerate(plan.hosts):
            folder, route_to = plan.folder(index), plan.hosts[0].address
            wanted = dumps(needs.of(plan.work))
            there = cwd or plan.cwd(index)
            agent = Agent(
                folder, plan.run, index, route_to, there, keep=plan.policy.keep, needs=wanted
            )
            self._links.append(Link(index, host, agent, self._queue, limits))
        self._upkeep = reconnect.Upkeep(transport, self._say, self._lose)
        self._halts = Halts(self.state, self._links, self._say, self._stop_stalled)
        self._forwarded = forwarded
        self._startup = Startup(
            plan,
            self._links,
            self._say,
            forwarded,
            waits=lambda: self._transferring,
        )
        self._seq = self._attempt = 0
        self._restarts_left = plan.policy.max_restarts
        self._batch: list[Record] = []
        self._stage, self._order = Stage.REACHING, Stop()
        self._unfit = self._failed = self._by_person = self._detached = self._leaving = False
        self.keep = plan.policy.keep
        """Whether the agents go on with the run when this session is gone."""
        self._next_look, self._stop_at, self._ending_since = 0.0, NEVER, NEVER
        self._start_by = NEVER
        self._transferring = self._is_asked_again = self._restart_due = False
        self._comes_back = self._is_stopped = False
        self.cut_off = False
        """Whether the run was left to its agents as none of them was heard any more, or it could
        not be started again here."""
        self._over = threading.Event()

    # What others may ask, from any thread or signal handler ---------------------------------------

    def stop(self, reason: str = "stopped by the operator", *, now: bool = False) -> None:
        """Ask for the end of the run; returns at once. `now`: without the time that ranks have to
        end by themselves."""
        self._queue.put(Asked(lambda: self._stop(reason, by_person=True, now=now)))

    def detach(self) -> None:
        """Ask to leave the run to its agents, which go on with it, once the ranks run; returns at
        once."""
        self._queue.put(Asked(self._detach))

    @property
    def begun(self) -> bool:
        """Whether all ranks have made a step in this attempt; those of a user's own script: whether
        they have been started."""
        script = not isinstance(self.plan.work, Job)
        return all(rank.pid if script else rank.recent or rank.serves for rank in self.state.ranks)

    @property
    def detached(self) -> bool:
        """Whether the run was left to its agents."""
        return self._detached

    def ask_stacks(self) -> None:
        """Ask where each rank is, which its host then tells; returns at once."""
        self._queue.put(Asked(self._halts.ask_stacks))

    # ----------------------------------------------------------------------------------------------

    def catch_up(self, records: Iterable[Record]) -> None:
        """Come back to a run that has begun: take in what of it is recorded here, expanded, and go
        on after that.

        To be called before `batches`.
        """
        self._stage, self._comes_back = Stage.RUNNING, True
        for record in records:
            self._catch(record)
        for link in self._links:
            link.agent = replace(link.agent, found=False)
        if self.state.cause:  # the launcher before has not come to stop the others
            self._failed, self._stop_at = True, time.monotonic() + EVIDENCE

    def _catch(self, record: Record) -> None:
        """Take in a record of before."""
        self.state.apply(record)
        if record.host == SESSION:
            self._recall(record)
        elif 0 <= record.host < len(self._links) and not self._is_unasked(
            self._links[record.host], record
        ):
            link = self._links[record.host]
            link.note(record)
            match record.event:
                case Launched() as launched:
                    self._take_in(launched, record.attempt)
                case StopHeard(by_person=True) if record.attempt == self._attempt:
                    self._is_stopped = True
                case Ended():
                    link.done = True

    def _recall(self, record: Record) -> None:
        """Take in what an earlier session has said."""
        self._seq = max(self._seq, record.seq)
        match record.event:
            case Clock(on, offset) if 0 <= on < len(self._links):
                self._links[on].clock.offset = offset
            case Detached():
                self.keep = True
            case Restarted(hosts):
                self._begin_again(record.attempt)
                for link in self._links:
                    link.launched = False
                    link.running.clear()
                    if link.index not in hosts and not link.done:
                        link.done = True
                        link.leave_out()

    def batches(self) -> Iterator[list[Record]]:
        """The run's records, expanded, in order of arrival, already recorded and applied to
        `state`; ends with the run.

        To be iterated once, by one thread. Leaving it early closes the lines, and the agents'
        policy decides what follows.
        """
        if self._stage is Stage.REACHING:
            self._limit_start()
            self._say(Said(SESSION, KEPT if self.keep else STOPPED))
        if self.has_ended:  # and that is recorded
            self._recorder.release()
            return
        for link in self._links:
            link.heard = link.parted_at = time.monotonic()  # of one that is come back to
            if not link.done:
                link.reach(self._transport)
        if self.plan.uploads and self._stage is Stage.REACHING:
            self._transfer(self._files.upload, self._uploaded)
        lease = threading.Thread(target=self._renew, name="lease", daemon=True)
        lease.start()
        try:
            with self.lock:
                self._go_on()
            while not (self._detached or all(link.done for link in self._links)):
                yield self._turn()
            if not self._detached:
                yield from self._fetch()
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

    @property
    def has_ended(self) -> bool:
        """Whether nothing of the run is left to be ended."""
        return self.state.verdict is not None and not self._is_left_behind

    @property
    def _is_left_behind(self) -> bool:
        """Whether a host was lost whose agent may live on."""
        begun = any(link.launched for link in self._links)
        left = any((link.hello or begun) and not link.done for link in self._links)
        return left and self.state.verdict in (Verdict.LOST, Verdict.STOPPED)

    def _limit_start(self) -> None:
        if self.plan.policy.start_timeout:
            self._start_by = time.monotonic() + self.plan.policy.start_timeout

    def _renew(self) -> None:
        """Signs of life, from a thread of its own: who iterates `batches` may be held up, as by a
        pager, and is there still."""
        while not self._over.wait(LEASE):
            for link in self._links:
                link.send(Lease())

    def _turn(self) -> list[Record]:
        """One batch: what has arrived, or nothing where the next deadline comes first."""
        messages: list[Message] = []
        deadline = min(self._next_look, self._stop_at, self._start_by)
        with suppress(Empty):
            messages.append(self._queue.get(timeout=max(0.0, deadline - time.monotonic())))
            size = _size(messages[0])
            while size < BATCH:
                messages.append(self._queue.get_nowait())
                size += _size(messages[-1])
        with self.lock:
            for message in messages:
                self._take(message)
            if not self._detached:
                self._watch(time.monotonic())
            if problem := self._recorder.flush():
                self._say(Said(SESSION, problem))
        return self._taken()

    def _taken(self) -> list[Record]:
        batch, self._batch = self._batch, []
        return batch

    def _take(self, message: Message) -> None:
        match message:
            case Opened(wire):
                self._upkeep.opened(wire)
                self._restart_if_due()
            case Arrived(wire, data):
                self._read(wire, data)
            case Broken(wire, reason):
                self._upkeep.broken(wire, reason)
                self._close_if_over()
                self._restart_if_due()
            case Heard(event):
                self._say(event)
            case Asked(act):
                act()

    def _read(self, wire: Wire, data: bytes) -> None:
        """Take in what is new: what came over two wires counts once."""
        link = wire.link
        wire.room.release()
        if wire is not link.wire:
            return
        try:
            lines = wire.whole_lines(data)
        except LineTooLong as error:
            self._give_up(link, str(error))
            return
        now, noise = time.time(), b""
        for line in lines:
            record = decode(line) if line.startswith(b"{") else None
            if (
                record is None
                or record.host != link.index
                or isinstance(record.event, SESSION_EVENTS)
            ):
                link.noise += 1
                if link.noise > self._limits.noise:
                    self._give_up(
                        link,
                        f"it sent more than {self._limits.noise} lines that are no records of its "
                        "own",
                    )
                    break
                if not record and (why := fault(line)):
                    self._give_up(link, f"it sent a record that cannot be used: {cut(why, REASON)}")
                    break
                noise += line[: max(0, self._limits.shown - len(noise))]
                continue
            noise = self._tell(link, noise)
            if record.seq > link.last and not self._take_record(link, record, line, now):
                break
        self._tell(link, noise)

    def _tell(self, link: Link, noise: bytes) -> bytes:
        """Show what a host sent that is no record of its own. No host speaks for another one: it is
        recorded as text alone."""
        if text := noise.decode(errors="replace").strip("\n"):
            self._say(Said(link.index, text))
        return b""

    def _take_record(self, link: Link, record: Record, line: bytes, now: float) -> bool:
        """Apply a new record of the host, keep its line, and decide what follows. Returns False
        where that loses the host."""
        if why := self._refusal(link, record):
            self._give_up(link, why)
            return False
        try:
            if link.clock.moved(record, now):
                self._say(Clock(link.index, link.clock.offset))
            self._apply(record)
            self._recorder.raw(line)
            self._decide(link, record)
        except Exception as error:  # noqa: BLE001 - whatever a host says, the others go on
            self._give_up(
                link,
                f"rankboard cannot take in its record {record.seq}: {cut(repr(error), REASON)}",
            )
            return False
        return True

    def _refusal(self, link: Link, record: Record) -> str:
        """Why a record of this host cannot be taken in; "" where it can."""
        if record.seq > link.last + self._limits.gap:
            return f"it sent record {record.seq} after record {link.last}"
        if self._is_unasked(link, record):
            return f"it sent a record of attempt {record.attempt + 1}, which was never started"
        return ""

    def _is_unasked(self, link: Link, record: Record) -> bool:
        """Whether a record is of an attempt that no launcher can have started."""
        if record.attempt <= self._attempt:
            return False
        if self._comes_back:  # the launchers before may have begun more attempts
            return record.attempt > max(self.plan.policy.max_restarts, self._limits.attempts)
        ended = self._failed and not any(
            other.running for other in self._links if other is not link
        )
        return not ended or record.attempt > min(
            self._attempt + 1, self.plan.policy.max_restarts
        )  # by another launcher

    def _give_up(self, link: Link, why: str) -> None:
        """Lose a host that sends what an agent never sends. Nothing more is taken from it."""
        if not link.done:
            self._lose(link, f"{link.host.name}: {why}, so the connection was closed")
        if link.wire:
            link.part(link.wire)

    def _say(self, event: Event) -> None:
        self._seq += 1
        record = Record(SESSION, self._attempt, self._seq, time.time(), event)
        self._recorder.write(record)
        self._apply(record)

    def _apply(self, record: Record) -> None:
        for one in expand(record):
            self._recorder.text(one)
            self.state.apply(one)
            self._batch.append(one)

    # Files ----------------------------------------------------------------------------------------

    @cached_property
    def _files(self) -> Files:
        from remote.upload.files import (
            Files,
        )  # what it imports takes a while, and most runs have no files to move

        return Files(
            self.plan, self._transport, lambda on, text: self._queue.put(Heard(Said(on, text)))
        )

    def _transfer(
        self, move: Callable[[], dict[int, str]], then: Callable[[dict[int, str]], None]
    ) -> None:
        """Move files in a thread of its own, and go on with what went wrong, by host."""

        def work() -> None:
            problems = move()
            self._queue.put(Asked(lambda: then(problems)))

        self._transferring = True
        threading.Thread(target=work, name="files", daemon=True).start()

    def _uploaded(self, problems: dict[int, str]) -> None:
        self._transferring = False
        if self._stage is Stage.CLOSING:  # it was stopped
            return
        for on, problem in problems.items():
            self._say(Refused(on, problem))
            self._unfit = True
        if self._stage is Stage.STARTING and self._unfit:
            self._close()
        self._advance(self._startup.start_if_ready)

    def _fetch(self) -> Iterator[list[Record]]:
        """Bring results from the hosts; a person who stopped the run before its end need not wait
        for them."""
        stopped = self._by_person and not all(rank.finished for rank in self.state.ranks)
        if not self.plan.policy.fetch or stopped or not self.state.has_begun:
            return
        there = [link.index for link in self._links if not link.problem]
        expected = self._expected
        self._transfer(
            lambda: self._files.fetch(self._recorder.folder, there, expected), self._fetched
        )
        while self._transferring:
            yield self._turn()

    @property
    def _expected(self) -> dict[int, int]:
        """About how many bytes of results each host has, as far as is known."""
        from remote.upload.files import expected_sizes

        return (
            expected_sizes(self.plan.work, self.state.ranks)
            if isinstance(self.plan.work, Job)
            else {}
        )

    def _fetched(self, problems: dict[int, str]) -> None:
        self._transferring = False
        for on, problem in problems.items():
            self._say(Said(on, problem))

    # Decisions ------------------------------------------------------------------------------------

    def _decide(self, link: Link, record: Record) -> None:
        is_first = link.hello is None
        link.note(record)
        if link.awaited and isinstance(record.event, ANSWERS.get(type(link.awaited), ())):
            link.awaited = None
        match record.event:
            case Hello() if is_first:  # an agent says it once
                if self._stage in (Stage.REACHING, Stage.STARTING):  # else it said so long ago
                    link.clock.measure(record.time, time.time())
                self._say(Clock(link.index, link.clock.offset))
                self._say(Reaching(link.index, Reach.READY))
                link.send(Keep(PLAN, serialize.dump(self._public)))
                self._settle()
            case Reserved() as reserved:
                self._advance(lambda: self._startup.reserved(link, reserved))
            case Connected() as connected:
                self._advance(lambda: self._startup.connected(link, connected))
            case Launched() as launched:
                self._take_in(launched, record.attempt)
                if (
                    self._stage is Stage.STOPPING
                ):  # of a launcher that has started them after our word had come
                    link.ask(self._order)
            case StopHeard(by_person=True) if not self._by_person and (
                record.attempt == self._attempt
                or self._stage is Stage.STARTING  # between two attempts
            ):
                self._stop_from_elsewhere()
            case Exited(_, code) if record.attempt == self._attempt:
                if (
                    code != 0 or self.state.cause
                ):  # an exit code 0 before the last step is a failure too
                    self._fail()
                self._close_if_over()
            case Ended() as ended:
                # An agent that is kept ends by itself once its ranks have, or where another
                # launcher closes it, which is no failure by itself; else somebody killed it, or its
                # disk is full.
                if self._stage is not Stage.CLOSING and (
                    ended.died or ended.reason not in agent_end.QUIET
                ):
                    self._unfit = True
                    self._fail()
                if self._stage is Stage.STARTING:
                    self._lose(
                        link,
                        f"{link.host.name}: its agent ended while the ranks were being started: "
                        f"{agent_end.describe(ended)}",
                    )
                else:
                    self._finish(link)

    @property
    def _public(self) -> Plan:
        """The plan without the ways to its hosts, which may hold a password and are of no use to
        another launcher."""
        return replace(
            self.plan, hosts=tuple(replace(host, proxy_command="") for host in self.plan.hosts)
        )

    def _settle(self) -> None:
        """Once every host has said Hello or is lost: go on to the start, or end what is not fit to
        start.

        Not earlier, so that all hosts that cannot take part are named at once.
        """
        if self._stage is not Stage.REACHING or not all(
            link.hello or link.done for link in self._links
        ):
            return
        if self._unfit:
            self._close()
        else:
            self._stage = Stage.STARTING
            self._advance(self._startup.begin)

    def _advance(self, step: Callable[[], None]) -> None:
        """Go on with the start, and see what came of it."""
        if self._stage is not Stage.STARTING:
            return
        step()
        if self._startup.started:
            self._stage = Stage.RUNNING
            if self._leaving:
                self._detach()
        elif self._startup.over:
            self._close()

    def _fail(self) -> None:
        """A first failure: the others have a moment to say their last words before they are
        stopped."""
        self._failed = True
        if self._stage is Stage.RUNNING:
            self._stop_at = min(self._stop_at, time.monotonic() + EVIDENCE)

    def _lose(self, link: Link, reason: str) -> None:
        reason = self.plan.named(reason)
        unfit = link.hello is None and doctor.unfit(reason.removeprefix(f"{link.host.name}: "))
        self._say(Lost(link.index, reason, reached=link.hello is not None, unfit=unfit))
        link.problem = reason
        self._unfit = True
        self._fail()
        self._finish(link)

    def _finish(self, link: Link) -> None:
        link.finish()
        if (
            self._stage is Stage.STARTING and self._attempt
        ):  # this attempt has failed, though its ranks have not begun
            self._restart_or_close()
        elif self._stage is Stage.STARTING:  # without this host there is nothing to start
            self._close()
        self._settle()
        self._close_if_over()

    def _close_if_over(self) -> None:
        left = [link for link in self._links if not (link.done or self._is_idle(link))]
        if left and all(
            link.problem for link in left
        ):  # who comes back waits for those that cannot be reached no longer
            for link in left:
                if not link.done:
                    self._lose(link, self._may_go_on(link.problem))
            return
        if not left and self._stage in (Stage.RUNNING, Stage.STOPPING):
            if self._failed and not self._by_person:
                self._restart_or_close()
            else:
                self._close()

    def _is_idle(self, link: Link) -> bool:
        """Whether no rank runs on the host: all have ended, or where all is being stopped, none has
        been started."""
        known = not link.is_first or self._ending_since == -NEVER
        never = (
            self._stage is Stage.STOPPING
            and known
            and time.monotonic() >= self._ending_since + CLOSING
        )
        return not link.running and (link.launched or never)

    def _stop(self, reason: str, *, by_person: bool, now: bool = False) -> None:
        if self._detached:
            return
        if self._transferring:
            self._files.stop()
        if self._stage in (Stage.STOPPING, Stage.CLOSING):
            self._stop_anyway(reason, by_person, now)
            return
        self._by_person = by_person
        self._say(Stopping(reason, by_person))
        if self._stage is not Stage.RUNNING:
            self._close()
            return
        self._stage = Stage.STOPPING
        self._stop_at, self._ending_since = NEVER, time.monotonic()
        order = Stop(again=self._restarts_left > 0 and not by_person, by_person=by_person)
        self._order = replace(order, grace=0.0) if now else order
        for link in self._links:
            link.ask(self._order)

    def _stop_from_elsewhere(self) -> None:
        """Another operator has stopped the run. This one has not asked yet, so the first time is
        not the second."""
        self._stop("stopped from elsewhere", by_person=True)
        self._is_asked_again = True

    def _stop_anyway(self, reason: str, by_person: bool, now: bool) -> None:
        """A person asks while all is being stopped already."""
        if by_person and not self._by_person:
            self._by_person, self._restarts_left = True, 0
            self._say(Stopping(reason, by_person))
        elif (
            by_person and not now and not self._is_asked_again
        ):  # twice: whoever has not ended is left to its agent
            self._ending_since = -NEVER
        self._is_asked_again = False
        if now:
            self._order = Stop(0.0, by_person=by_person)
            for link in self._links:
                (link.ask if self._stage is Stage.STOPPING else link.send)(self._order)

    def _close(self) -> None:
        """Nothing is left to run: every agent ends. A host that no line has reached yet is not
        waited for, but where there may be an agent of the run."""
        if self._stage is Stage.CLOSING:
            return
        self._stage = Stage.CLOSING
        if self._transferring:
            self._files.stop()
        asked_twice = self._ending_since == -NEVER
        self._stop_at, self._start_by, self._ending_since = NEVER, NEVER, time.monotonic()
        for link in self._links:
            if link.wire or (link.comes_back and not (asked_twice and link.is_first)):
                link.ask(Close())
            else:
                link.finish()

    def _detach(self) -> None:
        live = [link for link in self._links if not link.done]
        away = [
            link.host.name
            for link in live
            if not link.wire or link.silent or link.wire.held_up > MOMENT
        ]
        if self._stage in (Stage.REACHING, Stage.STARTING):
            self._leaving = True  # once the ranks run
        elif self._stage is not Stage.RUNNING:
            if (
                self._stage is Stage.CLOSING and self._transferring
            ):  # what is left on the hosts stays there
                self._files.stop()
        elif away and not self.keep:
            self._say(
                Said(
                    SESSION,
                    f"not left: {', '.join(away)} could not be told to go on; try again, or stop "
                    "the run",
                )
            )
        else:
            kept = replace(self._public, policy=replace(self.plan.policy, keep=True))
            for link in self._links:
                link.send(Keep(PLAN, serialize.dump(kept)))
                link.send(OnDisconnect(keep=True))
            self._say(Detached())
            self._detached = True

    def _watch(self, now: float) -> None:
        """What only the clock tells: evidence gathered, a start that takes too long, hosts silent
        or lost."""
        self._next_look = now + (MOMENT / 2 if self._by_person else LOOK)
        if now >= self._stop_at:
            self._stop("a rank or host failed", by_person=False)
        if now >= self._start_by:
            self._watch_start()
        if self.keep and self._stage is Stage.RUNNING:
            self._spare(now)
        heard_out = self._queue.empty()  # what has come may be the end that we wait for
        for link in self._links:
            awaited = link.running or self._stage is Stage.CLOSING
            if awaited and not link.done and heard_out and now >= (until := self._patience(link)):
                self._lose(link, self._unended(link, until))
            self._upkeep.look_after(link, now, keep=self.keep)
        if now >= self._ending_since + CLOSING and heard_out:
            self._close_if_over()
        if self._stage is Stage.RUNNING:
            self._stop_diverged()
            self._halts.look(now)

    def _spare(self, now: float) -> None:
        """Where no host of a kept run is heard, it is this machine that is cut off, or was
        suspended: the run goes on."""
        live = [link for link in self._links if not link.done]
        if not live or any(now - link.heard < reconnect.SILENT for link in live):
            return
        for link in live:
            link.spared = now
        if all(now - link.heard >= UNHEARD for link in live):
            self._say(
                Said(
                    SESSION, f"no host has been heard for {UNHEARD:.0f} s: the run is left to them"
                )
            )
            self._say(Detached())
            self._detached = self.cut_off = True

    def _patience(self, link: Link) -> float:
        """Until when a host has time to end, where all is being ended. One that is come back to is
        first to be reached."""
        if self._ending_since == -NEVER:
            return -NEVER
        if link.is_first:
            return NEVER
        began = max(self._ending_since, link.tried_at)
        return (
            min(began + CLOSING, max(began + MOMENT, link.heard + AWAY))
            if self._by_person
            else began + CLOSING
        )

    def _unended(self, link: Link, until: float) -> str:
        if until == -NEVER:
            return self._may_go_on(f"{link.host.name}: was not waited for")
        if until >= max(self._ending_since, link.tried_at) + CLOSING:
            return self._may_go_on(f"{link.host.name}: did not end within {CLOSING:g} s")
        return self._may_go_on(
            f"{link.host.name}: has not been heard for {time.monotonic() - link.heard:.0f} s"
        )

    def _may_go_on(self, reason: str) -> str:
        advice = f"; what may go on there ends with rankboard stop {self.plan.run}, once it is back"
        return reason + (advice if self.keep and self._stage is Stage.STOPPING else "")

    def _stop_stalled(self, what: str) -> None:
        """Ranks have come to a halt, and the policy wants the attempt to end."""
        self._failed = True
        if self.plan.policy.on_stall is OnStall.STOP:
            self._restarts_left = 0
        self._stop(what, by_person=False)

    def _stop_diverged(self) -> None:
        """End the run, and do not restart it, where the policy wants that of a loss that is no
        finite number."""
        if self.state.diverged and self.plan.policy.on_nan is OnNan.STOP:
            self._failed, self._restarts_left = True, 0
            self._stop(self.state.diverged.text, by_person=False)

    def _watch_start(self) -> None:
        """The time for the start is up."""
        self._start_by = NEVER
        if not self.begun:
            self._stop(
                f"not all ranks had made a step {self.plan.policy.start_timeout:g} s after the "
                "start",
                by_person=False,
            )

    # Another attempt ------------------------------------------------------------------------------

    def _restart_or_close(self) -> None:
        """All ranks have ended and some have failed: start all again, where the plan's policy says
        so."""
        policy, left = self.plan.policy, [link for link in self._links if not link.done]
        if self._restarts_left <= 0 or not left or self.state.refused:
            self._close()
            return
        if len(left) < (enough := policy.min_nodes or len(self._links)):
            why = (
                f"--min-nodes {enough}"
                if policy.min_nodes
                else "all are needed without --min-nodes"
            )
            self._say(
                Said(
                    SESSION,
                    f"not started again: {len(left)} of {len(self._links)} hosts are left, {why}",
                )
            )
            self._close()
            return
        if any(
            link.is_first for link in left
        ):  # by who comes back: which hosts there are is not known yet
            self._restart_due = True
            return
        if missing := [
            name for link in left for name in link.host.env_from if name not in self._forwarded
        ]:
            self._say(
                Said(
                    SESSION,
                    f"not started again: the ranks need {missing[0]}; export it here, and attach "
                    "again",
                )
            )
            self._say(Detached())
            self._detached = self.cut_off = True
            return
        if unreached := [
            link for link in left if not link.met
        ]:  # by who comes back; with them nothing could be started
            for link in unreached:
                if not link.done:
                    self._lose(
                        link,
                        link.problem
                        or f"{link.host.name}: cannot be reached, and the run is to start again",
                    )
            return
        why = self.state.cause.text() if self.state.cause else "a rank failed"
        plan = replace(self.plan, hosts=tuple(link.host for link in left), work=self._resumed(left))
        try:
            check(plan)
        except PlanError as error:
            self._say(Said(SESSION, f"not started again: {error}"))
            self._close()
            return
        self._begin_again(self._attempt + 1)
        self._ending_since = NEVER
        self._say(Restarted(tuple(link.index for link in left), why))
        self._limit_start()
        for link in self._links:
            link.launched = False
            if link not in left and link.problem:
                link.leave_out()
        self._stage, self._startup = (
            Stage.STARTING,
            Startup(plan, left, self._say, self._forwarded, self._attempt),
        )
        self._advance(self._startup.begin)

    def _restart_if_due(self) -> None:
        if self._restart_due and self._stage is Stage.RUNNING:
            self._restart_due = False
            self._restart_or_close()

    def _go_on(self) -> None:
        """Of a run that is come back to: do what the launcher before has not come to."""
        if self.state.verdict is Verdict.STOPPED:  # by a person, whom not every host has heard
            self._is_asked_again = True
            self._stop("stopped by the operator", by_person=True)
        elif self._is_stopped:
            self._stop_from_elsewhere()
        elif self._attempt and not any(
            link.launched for link in self._links
        ):  # it was to be started again
            self._begin_again(self._attempt - 1)
            self._restart_or_close()
        else:
            self._close_if_over()

    def _take_in(self, launched: Launched, attempt: int) -> None:
        """Take in an attempt that was begun by a launcher whose word is not recorded here."""
        if attempt > self._attempt:
            self._begin_again(attempt)
            for link in self._links:
                if launched.hosts and link.index not in launched.hosts and not link.done:
                    link.finish()
        if self._stage is Stage.STARTING and attempt == self._attempt:  # nothing is left to start
            self._stage = Stage.RUNNING

    def _begin_again(self, attempt: int) -> None:
        """What the attempt before came to counts no more."""
        self._attempt, self._restarts_left = (
            attempt,
            max(0, self.plan.policy.max_restarts - attempt),
        )
        self._failed = self._unfit = self._restart_due = self._is_stopped = False
        self._stop_at = NEVER
        self._halts.forget()

    def _resumed(self, left: Sequence[Link]) -> Job | Script:
        """The work, from its newest checkpoint where one is complete on the hosts that are left."""
        if isinstance(self.plan.work, Job) and any(
            self.state.hosts[link.index].saved_step for link in left
        ):
            return replace(self.plan.work, resume=self.plan.run)
        if any(host.saved_step for host in self.state.hosts):
            self._say(
                Said(SESSION, "no host that is left has a complete checkpoint: the run begins anew")
            )
        return self.plan.work


def _size(message: Message) -> int:
    """How much of a batch a message takes: 1 at the least, so that a batch has a bounded number of
    them."""
    return len(message.data) if isinstance(message, Arrived) and message.data else 1
