"""A session without threads, clocks and I/O: what happens goes in, what is to be done comes out.

`take_*` record what has happened and take it in. `settle` then decides until nothing is left to be
decided; what it returns is for the session to carry out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from remote.limits import LIMITS, Limits
from remote.plan.plan import Plan
from remote.run.course import FETCH, Stage
from remote.run.phases import Verdict
from remote.run.state import RunState
from remote.sanitise import cut
from remote.session import finish, watchdog
from remote.session.actions import Action, Open, Release, Say, Send
from remote.session.contact import Contact
from remote.session.decide import decide
from remote.session.host_clock import HostClock
from remote.session.times import Times
from remote.session.view import View
from training.wire.enums import Reach
from training.wire.events import (
    SESSION,
    SESSION_EVENTS,
    Attached,
    Clock,
    Event,
    Hello,
    Parted,
    Reaching,
    Record,
    Refused,
    Restarted,
    Said,
    Transferring,
    decode,
    expand,
    fault,
)

KEPT = "The run continues if this terminal disconnects; rankboard attach returns to it."
STOPPED = (
    "The run stops if this terminal disconnects (use --on-disconnect keep to let it continue)."
)
REASON = 200
"""Characters of what is wrong with a host's record that are shown."""
ENOUGH = 1000
"""Actions after which a decision goes round in circles: a mistake of ours."""


class Records(Protocol):
    """Where the records of a run go; see `remote.record.write.Recorder`."""

    def write(self, record: Record) -> None: ...
    def raw(self, lines: bytes) -> None: ...
    def text(self, record: Record) -> None: ...


class Controller:
    """One live run. `state` is what its records say, `contacts` what is known of those with each
    host. All times are by the session's clock.
    """

    def __init__(
        self,
        plan: Plan,
        records: Records,
        forwarded: Mapping[str, str],
        times: Times,
        limits: Limits = LIMITS,
    ) -> None:
        """`forwarded`: variables for the ranks, see `remote.plan.environment`."""
        self.state = RunState(plan, limits)
        self.contacts = [Contact(index) for index in range(len(plan.hosts))]
        self.batch: list[Record] = []
        """What was taken in since the batch was taken last, expanded."""
        self._plan, self._records, self._forwarded = plan, records, forwarded
        self._times, self._limits = times, limits
        self._clocks = [HostClock(limits.clock_step) for _ in plan.hosts]
        self._noise = [0] * len(plan.hosts)

    # A run begins, or is returned to --------------------------------------------------------------

    def begin(self, now: float) -> None:
        """The run is a new one."""
        self._say(Said(SESSION, KEPT if self.state.course.keep else STOPPED), now)

    def recall(self, records: Iterable[Record]) -> None:
        """Take in what is recorded of the run, expanded."""
        for record in records:
            self.state.apply(record)
            if isinstance(record.event, Clock) and 0 <= record.event.on < len(self._clocks):
                self._clocks[record.event.on].offset = record.event.offset

    @property
    def has_ended(self) -> bool:
        """Whether nothing of the run is left to be ended."""
        if self.state.verdict is None:
            return False
        begun = any(host.launched for host in self.state.hosts)
        left = any((host.hello or begun) and not host.ended for host in self.state.hosts)
        return not left or self.state.verdict not in (Verdict.LOST, Verdict.STOPPED)

    def attach(self, now: float) -> None:
        """Return to the run."""
        for contact in self.contacts:
            contact.heard_at = contact.parted_at = now
        self._say(Attached(), now)

    # What happens ---------------------------------------------------------------------------------

    def take_lines(self, on: int, lines: Sequence[bytes], now: float) -> str:
        """Take in what a host's agent sent. Returns why the host sends what no agent sends, which
        loses it; "" where all is well."""
        self._hear(on, now)
        noise = b""
        for line in lines:
            record = decode(line) if line.startswith(b"{") else None
            is_own = record and record.host == on and not isinstance(record.event, SESSION_EVENTS)
            if record is None or not is_own:
                if why := self._refuse_line(on, line, record):
                    return self.give_up(on, why)
                noise += line[: max(0, self._limits.shown - len(noise))]
                continue
            noise = self._tell(on, noise, now)
            if why := self._take_record(record, line, now):
                return self.give_up(on, why)
        self._tell(on, noise, now)
        return ""

    def take_journal(self, record: Record, line: bytes, now: float) -> bool:
        """Take in a record of a host's journal, read without its agent. Returns whether it fits."""
        if self._refuse(record, returned=True):
            return False
        if self._clocks[record.host].moved(record, now):
            self._say(Clock(record.host, self._clocks[record.host].offset), now)
        self._apply(record)
        self._records.raw(line)
        if isinstance(record.event, Hello):
            self.take_event(Reaching(record.host, Reach.READY), now)
        return True

    def take_event(self, event: Event, now: float) -> None:
        """Take in how far the way to a host is, or how far a transfer."""
        host = self.state.hosts[event.on] if isinstance(event, Reaching) else None
        if not (host and host.done):  # else it stays a lost one
            self._say(event, now)

    def set_clock(self, on: int, offset: float, now: float) -> None:
        """The host's clock is ahead by `offset` seconds."""
        self._clocks[on].offset = offset
        self._say(Clock(on, offset), now)

    def take_open(self, on: int, now: float) -> None:
        """A connection to the host is there, and in use from now on."""
        contact = self.contacts[on]
        contact.is_opening, contact.is_open, contact.met = False, True, True
        contact.problem = contact.failure = ""
        contact.sent.clear()
        if not (self.state.hosts[on].hello and contact.tried_at):
            self._hear(on, now)
        contact.tried_at = contact.tried_at or now

    def take_broken(self, on: int, reason: str, now: float, *, in_use: bool, fed: bool) -> None:
        """A connection has ended, or could not be made. `fed`: something had come over it."""
        contact, host = self.contacts[on], self.state.hosts[on]
        if in_use:
            contact.is_open = False
        else:
            contact.is_opening, contact.tried_at = False, contact.tried_at or now
        contact.retry_at = now + self._times.retry
        if host.done or contact.released:
            return
        may_return = host.hello is not None or self.state.course.returned
        if in_use and fed and host.hello:
            contact.parted_at, contact.retry_at = now, now
            self._say(Parted(on, reason), now)
        elif not may_return:
            contact.failure = reason
        elif not host.hello and not contact.problem:
            contact.problem = reason
            self._say(Said(on, f"{reason}; trying again, the others go on"), now)

    def take_transfer(self, what: str, problems: Mapping[int, str], now: float) -> None:
        """A transfer is over. `problems` are what went wrong, by host."""
        if self.state.course.stage is Stage.OVER or not self.state.course.is_transferring(what):
            return  # it was stopped
        for on, problem in problems.items():
            self._say(Said(on, problem) if what == FETCH else Refused(on, problem), now)
        self._say(Transferring(what, over=True), now)

    def stop(self, reason: str, now: float, *, at_once: bool) -> list[Action]:
        """A person stops the run. `at_once`: ranks get no time to end by themselves."""
        return self._follow(finish.stop(self._view(now), reason, now=at_once), now)

    def detach(self, now: float) -> list[Action]:
        """A person leaves the run to its agents."""
        return self._follow(finish.detach(self._view(now)), now)

    def ask_stacks(self, now: float) -> list[Action]:
        """A person asks where each rank is."""
        return self._follow(watchdog.ask_stacks(self._view(now)), now)

    # What follows ---------------------------------------------------------------------------------

    def settle(self, now: float) -> list[Action]:
        """Decide until nothing is left to be decided; what is to be carried out, in order."""
        done: list[Action] = []
        while actions := self._decide(now):
            done += self._follow(actions, now)
            if len(done) > ENOUGH:
                raise RuntimeError(f"decisions go round in circles: {done[-1]}")
        return done

    @property
    def has_stepped(self) -> bool:
        """Whether all ranks have made a step in this attempt."""
        return self._view(0.0).has_stepped

    @property
    def is_over(self) -> bool:
        """Whether nothing is left to do."""
        course = self.state.course
        return course.detached or course.stage is Stage.OVER

    def _decide(self, now: float) -> list[Action]:
        return decide(self.state, self.contacts, self._forwarded, self._times, now)

    def _view(self, now: float) -> View:
        return View(self.state, self.contacts, self._forwarded, self._times, now)

    def _follow(self, actions: Iterable[Action], now: float) -> list[Action]:
        """Take in what was decided; what is left to be carried out."""
        rest: list[Action] = []
        for action in actions:
            match action:
                case Say(event):
                    self._say(event, now)
                case Send(on, _, key):
                    self.contacts[on].sent.add(key)
                    rest.append(action)
                case Open(on):
                    self.contacts[on].is_opening = True
                    self.contacts[on].retry_at = now + self._times.silent
                    rest.append(action)
                case Release(on):
                    self.contacts[on].released = True
                    rest.append(action)
                case _:
                    rest.append(action)
        return rest

    # Records --------------------------------------------------------------------------------------

    def _refuse(self, record: Record, *, returned: bool) -> str:
        """Why a record of a host cannot be taken in; "" where it can. `returned`: this launcher is
        not the first one."""
        known = self.state.hosts[record.host].seq
        if record.seq > known + self._limits.gap:
            return f"it sent record {record.seq} after record {known}"
        if self._is_unasked(record, returned):
            return f"it sent a record of attempt {record.attempt + 1}, which was never started"
        return ""

    def _is_unasked(self, record: Record, returned: bool) -> bool:
        """Whether a record is of an attempt that no launcher can have started."""
        course = self.state.course
        if record.attempt <= course.attempt:
            return False
        most = self._plan.policy.max_restarts
        if returned:  # the launchers before may have begun more attempts
            return record.attempt > max(most, self._limits.attempts)
        others = [host for host in self.state.hosts if host.index != record.host]
        failing = course.failing or finish.has_failed(self._view(0.0))
        ended = failing and not any(host.running for host in others)
        return not ended or record.attempt > min(course.attempt + 1, most)  # by another launcher

    def _refuse_line(self, on: int, line: bytes, record: Record | None) -> str:
        """Why a host is lost that sends this line, which is no record of its own."""
        self._noise[on] += 1
        if self._noise[on] > self._limits.noise:
            return f"it sent more than {self._limits.noise} lines that are no records of its own"
        if record is None and (why := fault(line)):
            return f"it sent a record that cannot be used: {cut(why, REASON)}"
        return ""

    def _take_record(self, record: Record, line: bytes, now: float) -> str:
        """Take in a record of a host, unless it came before. Returns why the host is lost."""
        if record.seq <= self.state.hosts[record.host].seq:
            return ""
        if why := self._refuse(record, returned=self.state.course.returned):
            return why
        try:
            self._meet(record, now)
            if self._clocks[record.host].moved(record, now):
                self._say(Clock(record.host, self._clocks[record.host].offset), now)
            self._apply(record)
            self._records.raw(line)
        except Exception as error:  # noqa: BLE001 - whatever a host says, the others go on
            return f"rankboard cannot take in its record {record.seq}: {cut(repr(error), REASON)}"
        return ""

    def _meet(self, record: Record, now: float) -> None:
        """Measure the clock of a host that says who it is just now, not long ago."""
        is_new = isinstance(record.event, Hello) and not self.state.hosts[record.host].hello
        if is_new and not self.state.course.returned:
            self._clocks[record.host].measure(record.time, now)
            self._say(Clock(record.host, self._clocks[record.host].offset), now)

    def _tell(self, on: int, noise: bytes, now: float) -> bytes:
        """Show what a host sent that is no record of its own. It is recorded as text alone."""
        if text := noise.decode(errors="replace").strip("\n"):
            self._say(Said(on, text), now)
        return b""

    def give_up(self, on: int, why: str) -> str:
        """Lose a host that sends what no agent sends. Returns why."""
        if not self.state.hosts[on].done:
            name = self.state.host_name(on)
            self.contacts[on].failure = f"{name}: {why}, so the connection was closed"
        return why

    def _hear(self, on: int, now: float) -> None:
        """Something has come from a host. Where no host of a kept run was heard before, that was
        the fault of this machine, and the others get time to be heard."""
        live = [contact for contact in self.contacts if not self.state.hosts[contact.index].done]
        silent = self._times.silent
        if self.state.course.keep and all(now - contact.heard_at >= silent for contact in live):
            for contact in live:
                contact.spared_at = now
        self.contacts[on].heard_at = now

    def _say(self, event: Event, now: float) -> None:
        attempt = self.state.attempt + isinstance(event, Restarted)
        record = Record(SESSION, attempt, self.state.seq + 1, now, event)
        self._records.write(record)
        self._apply(record)

    def _apply(self, record: Record) -> None:
        for one in expand(record):
            self._records.text(one)
            self.state.apply(one)
            self.batch.append(one)
