"""A session without threads, clocks and I/O: what happens goes in, what is to be done comes out.

`take_*` record what has happened and take it in. `settle` then decides until nothing is left to be
decided; what it returns is for the session to carry out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from remote.events import Attached, Clock, Parted, Reaching, Refused, Said, Transferring
from remote.limits import LIMITS, Limits
from remote.plan.plan import Plan
from remote.run.state.launcher_state import FETCH, Stage
from remote.run.state.rank_state import RankState
from remote.session import requests, watchdog
from remote.session.actions import Action, Open, Release, Say, Send
from remote.session.contact import Contact
from remote.session.decide import decide
from remote.session.intake import Intake
from remote.session.ledger import Ledger, Records
from remote.session.times import Times
from remote.session.view import View
from remote.transport.failure import Cause
from training.wire.events import SESSION, Event, Record

KEPT = "rankboard attach {} returns to this run, which continues if this terminal disconnects."
STOPPED = (
    "The run stops if this terminal disconnects (use --on-disconnect keep to let it continue)."
)
ENOUGH = 1000
"""Actions after which a decision goes round in circles: a mistake of ours."""


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
        self.ledger = Ledger(plan, records, limits)
        self.state = self.ledger.state
        self.contacts = [Contact(index) for index in range(len(plan.hosts))]
        self._intake = Intake(plan, self.ledger, limits)
        self._forwarded = forwarded
        self._times = times

    # A run begins, or is returned to --------------------------------------------------------------

    def begin(self, now: float) -> None:
        """The run is a new one."""
        kept = KEPT.format(self.state.plan.run)
        self.ledger.say(Said(SESSION, kept if self.state.course.keep else STOPPED), now)

    def recall(self, records: Iterable[Record]) -> None:
        """Take in what is recorded of the run, expanded."""
        for record in records:
            self.ledger.recall(record)
            if isinstance(record.event, Clock):
                self._intake.recall_clock(record.event.on, record.event.offset)

    def attach(self, now: float) -> None:
        """Return to the run."""
        for contact in self.contacts:
            contact.heard_at = contact.parted_at = now
        self.ledger.say(Attached(), now)

    # What happens ---------------------------------------------------------------------------------

    def take_lines(self, on: int, lines: Sequence[bytes], now: float) -> str:
        """Take in what a host's agent sent. Returns why the host is lost for it; "" where all is
        well."""
        self._hear(on, now)
        why = self._intake.take_lines(on, lines, self._view(now))
        return self.give_up(on, why) if why else ""

    def take_journal(self, record: Record, line: bytes, now: float) -> bool:
        """Take in a record of a host's journal, read without its agent. Returns whether it fits."""
        return self._intake.take_journal(record, line, self._view(now))

    def give_up(self, on: int, why: str) -> str:
        """Lose a host that sends what no agent sends. Returns why."""
        if not self.state.hosts[on].done:
            name = self.state.host_name(on)
            self.contacts[on].failure = f"{name}: {why}, so the connection was closed"
        return why

    def take_event(self, event: Event, now: float) -> None:
        """Take in how far the way to a host is, or how far a transfer."""
        host = self.state.hosts[event.on] if isinstance(event, Reaching) else None
        if not (host and host.done):  # else it stays a lost one
            self.ledger.say(event, now)

    def set_clock(self, on: int, offset: float, now: float) -> None:
        """The host's clock is ahead by `offset` seconds."""
        self._intake.recall_clock(on, offset)
        self.ledger.say(Clock(on, offset), now)

    def take_open(self, on: int, now: float) -> None:
        """A connection to the host is there, and in use from now on."""
        contact = self.contacts[on]
        is_first = not contact.met
        contact.is_opening = False
        contact.is_open = True
        contact.met = True
        contact.problem = ""
        contact.failure = ""
        contact.cause = None
        contact.sent.clear()
        if is_first:  # no later one is a sign of life: its agent has to speak
            self._hear(on, now)
        contact.tried_at = contact.tried_at or now

    def take_broken(
        self,
        on: int,
        reason: str,
        now: float,
        *,
        in_use: bool,
        fed: bool,
        cause: Cause | None = None,
    ) -> None:
        """A connection has ended, or could not be made, for this `cause`. `fed`: something had come
        over it."""
        contact = self.contacts[on]
        host = self.state.hosts[on]
        if in_use:
            contact.is_open = False
        else:
            contact.is_opening = False
            contact.tried_at = contact.tried_at or now
        contact.retry_at = now + self._times.retry
        if host.done or contact.released:
            return
        may_return = host.hello is not None or self.state.course.returned
        if in_use and fed and host.hello:
            contact.parted_at = now
            contact.retry_at = now
            self.ledger.say(Parted(on, reason), now)
        elif not may_return or cause is Cause.GONE:
            contact.failure = reason
            contact.cause = cause
        elif not host.hello:
            contact.problem = reason
            if reason != contact.told:
                contact.told = reason
                self.ledger.say(Said(on, f"{reason}; trying again, while the others continue"), now)

    def take_transfer(self, what: str, problems: Mapping[int, str], now: float) -> None:
        """A transfer is over. `problems` are what went wrong, by host."""
        if self.state.course.stage is Stage.OVER or not self.state.course.is_transferring(what):
            return  # it was stopped
        for on, problem in problems.items():
            self.ledger.say(Said(on, problem) if what == FETCH else Refused(on, problem), now)
        self.ledger.say(Transferring(what, over=True), now)

    def stop(self, reason: str, now: float, *, at_once: bool) -> list[Action]:
        """A person stops the run. `at_once`: ranks get no time to end by themselves."""
        return self._follow(requests.stop(self._view(now), reason, now=at_once), now)

    def detach(self, now: float) -> list[Action]:
        """A person leaves the run to its agents."""
        return self._follow(requests.detach(self._view(now)), now)

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
    def has_got_going(self) -> bool:
        """Whether all ranks have made a step in this attempt. Of a user's own script: whether a
        rank has, or all have run for `Times.settling`."""
        run = self.state
        if self._view(0.0).without_step or any(map(_has_failed, run.ranks)):
            return False
        if run.plan.job or any(rank.stepped_at for rank in run.ranks):
            return True
        return run.now - max(rank.since for rank in run.ranks) >= self._times.settling

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
                    self.ledger.say(event, now)
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

    def _hear(self, on: int, now: float) -> None:
        """Something has come from a host. Where no host of a kept run was heard before, that was
        the fault of this machine, and the others get time to be heard."""
        live = [one for one in self.contacts if not self.state.hosts[one.index].done]
        silent = self._times.silent
        if self.state.course.keep and all(now - one.heard_at >= silent for one in live):
            for one in live:
                one.spared_at = now
        self.contacts[on].heard_at = now


def _has_failed(rank: RankState) -> bool:
    return bool(rank.exited and rank.exited.code)
