"""A session without threads, clocks and I/O: what happens goes in, what is to be done comes out.

`take_*` record what has happened and take it in. `settle` then decides until nothing is left to be
decided; what it returns is for the session to carry out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from remote.events import (
    Attached,
    ClockMeasured,
    ConnectionLost,
    HostPhaseChanged,
    RemarkMade,
    StartRefused,
    Transferring,
)
from remote.limits import LIMITS, Limits
from remote.plan.plan import Plan
from remote.record.snapshots import RunMoment
from remote.run.state.launcher_state import FETCH, Stage
from remote.session.actions import Action, Open, Release, Say, Send
from remote.session.decide import Rule, decide
from remote.session.decision_input import DecisionInput
from remote.session.host_link import HostLink
from remote.session.intake import Intake
from remote.session.ledger import Ledger, Records
from remote.session.times import Times
from remote.transport.failure import Failure, FailureCause
from training.wire.events import SESSION, Event, Record

KEPT = "rankboard attach {} returns to this run, which continues if this terminal disconnects"
STOPPED = "the run stops if this terminal disconnects (use --on-disconnect keep to let it continue)"
MOST_ACTIONS = 1000
"""Actions after which a decision goes round in circles: a mistake of ours."""


class Controller:
    """One live run. All times are by the session's clock."""

    def __init__(
        self,
        plan: Plan,
        records: Records,
        forwarded: Mapping[str, str],
        times: Times,
        limits: Limits = LIMITS,
        past: RunMoment | None = None,
    ) -> None:
        """`forwarded`: variables for the ranks, see `remote.plan.environment`. `past`: what is
        known of the run already."""
        self.ledger = Ledger(plan, records, limits, past)
        self.state = self.ledger.state
        self.links = [HostLink(index) for index in range(len(plan.hosts))]
        self._intake = Intake(plan, self.ledger, limits)
        for host in self.state.hosts:
            self._intake.recall_clock(host.index, host.offset)
        self._forwarded = forwarded
        self._times = times

    # A run begins, or is returned to --------------------------------------------------------------

    def begin(self, now: float) -> None:
        """Say what becomes of a new run if its terminal disconnects."""
        disconnect_remark = STOPPED
        if self.state.launcher.keep:
            disconnect_remark = KEPT.format(self.state.plan.run)
        self.ledger.say(RemarkMade(SESSION, disconnect_remark), now)

    def recall(self, records: Iterable[Record]) -> None:
        """Take in what is recorded of the run, expanded."""
        for past_record in records:
            self.ledger.recall(past_record)
            if isinstance(past_record.event, ClockMeasured):
                self._intake.recall_clock(past_record.event.host, past_record.event.offset)

    def attach(self, now: float) -> None:
        """Return to the run."""
        for link in self.links:
            link.heard_at = now
            link.parted_at = now
        self.ledger.say(Attached(), now)

    # What happens ---------------------------------------------------------------------------------

    def take_lines(self, host_index: int, lines: Sequence[bytes], now: float) -> str:
        """Take in what a host's agent sent. Return why the host is lost for it; "" if all is
        well."""
        self._hear(host_index, now)
        loss_reason = self._intake.take_lines(host_index, lines, self._inputs(now))
        return self.give_up(host_index, loss_reason) if loss_reason else ""

    def take_journal(self, record: Record, line: bytes, now: float) -> bool:
        """Take in a record of a host's journal, read without its agent. Return True if it fits."""
        return self._intake.take_journal(record, line, self._inputs(now))

    def give_up(self, host_index: int, loss_reason: str) -> str:
        """Lose a host that sends what no agent sends. Return why."""
        if not self.state.hosts[host_index].done:
            failure_text = f"{loss_reason}, so the connection was closed"
            self.links[host_index].failure = Failure(FailureCause.OTHER, failure_text)
        return loss_reason

    def take_event(self, session_event: Event, now: float) -> None:
        """Take in how far the way to a host is, or how far a transfer."""
        # A host that is lost stays lost, also if a connection that was being opened moves on.
        if (
            isinstance(session_event, HostPhaseChanged)
            and self.state.hosts[session_event.host].done
        ):
            return
        self.ledger.say(session_event, now)

    def set_clock(self, host_index: int, clock_offset: float, now: float) -> None:
        """Note that the host's clock is ahead by `clock_offset` seconds."""
        self._intake.recall_clock(host_index, clock_offset)
        self.ledger.say(ClockMeasured(host_index, clock_offset), now)

    def take_open(self, host_index: int, now: float) -> None:
        """Use the connection to the host that has been opened."""
        link = self.links[host_index]
        is_first = not link.met
        link.is_opening = False
        link.is_open = True
        link.met = True
        link.problem = None
        link.failure = None
        # An agent answers on the connection over which it was asked, and this may even be another
        # agent: it is told everything again.
        link.sent.clear()
        if is_first:  # no later one is a sign of life: its agent has to speak
            self._hear(host_index, now)
        link.tried_at = link.tried_at or now

    def take_broken(
        self, host_index: int, failure: Failure, now: float, *, in_use: bool, fed: bool
    ) -> None:
        """Take in that a connection has ended, or could not be made.

        `in_use`: it was the one in use. `fed`: something had come over it.
        """
        link = self.links[host_index]
        host = self.state.hosts[host_index]
        link.retry_at = now + self._times.retry
        if in_use:
            link.is_open = False
        else:
            link.is_opening = False
            link.tried_at = link.tried_at or now
        if host.done or link.released:
            return
        named_failure = f"{host.name}: {failure.text}"
        may_return = host.hello or self.state.launcher.returned
        # An agent that spoke is most likely still there: the first new try need not wait.
        if in_use and fed and host.hello:
            link.parted_at = now
            link.retry_at = now
            self.ledger.say(ConnectionLost(host_index, named_failure), now)
        elif not may_return or failure.cause is FailureCause.GONE:
            link.failure = failure
        elif not host.hello:
            link.problem = failure
            # Tries are a second apart, so the same problem would fill the log.
            if failure != link.reported_problem:
                link.reported_problem = failure
                retry_remark = f"{named_failure}; trying again, while the others continue"
                self.ledger.say(RemarkMade(host_index, retry_remark), now)

    def take_transfer(self, transfer_kind: str, problems: Mapping[int, str], now: float) -> None:
        """Take in that a transfer is over. `problems` are what went wrong, by host."""
        launcher = self.state.launcher
        if launcher.stage is Stage.OVER or not launcher.is_transferring(transfer_kind):
            return  # it was stopped
        for host_index, problem_text in problems.items():
            problem_event = (
                RemarkMade(host_index, problem_text)
                if transfer_kind == FETCH
                else StartRefused(host_index, problem_text)
            )
            self.ledger.say(problem_event, now)
        self.ledger.say(Transferring(transfer_kind, over=True), now)

    def follow(self, rule: Rule, now: float) -> list[Action]:
        """Decide by a rule that a person has asked for. Return what is to be carried out."""
        return self._follow(list(rule(self._inputs(now))), now)

    # What follows ---------------------------------------------------------------------------------

    def settle(self, now: float) -> list[Action]:
        """Decide until nothing is left to be decided. Return what is to be carried out, in
        order."""
        # First what hosts have sent: the end of the last rank may be the sign that another launcher
        # has restarted the run, or that this one is to do so.
        for host_index, loss_reason in self._intake.take_waiting(self._inputs(now)):
            self.give_up(host_index, loss_reason)
        chosen_actions: list[Action] = []
        while next_actions := decide(self._inputs(now)):
            chosen_actions += self._follow(next_actions, now)
            if len(chosen_actions) > MOST_ACTIONS:
                raise RuntimeError(f"decisions go round in circles: {chosen_actions[-1]}")
        return chosen_actions

    @property
    def is_under_way(self) -> bool:
        """Return True once all ranks have made a step in this attempt. For a script: once a rank
        has, or all have run for `Times.settling`."""
        run_state = self.state
        if self._inputs(0.0).ranks_without_step:
            return False
        if any(rank.has_failed for rank in run_state.processes):
            return False
        # A rank of a script may never report steps, so that there, only time can tell.
        if run_state.plan.job or any(rank.stepped_at for rank in run_state.ranks):
            return True
        newest_start = max(rank.spawned_at for rank in run_state.processes)
        return run_state.now - newest_start >= self._times.settling

    @property
    def is_over(self) -> bool:
        """Return True if nothing is left to do."""
        launcher = self.state.launcher
        return launcher.detached or launcher.stage is Stage.OVER

    def _inputs(self, now: float) -> DecisionInput:
        return DecisionInput(self.state, self.links, self._forwarded, self._times, now)

    def _follow(self, actions: Iterable[Action], now: float) -> list[Action]:
        """Take in what was decided. Return what is left to be carried out."""
        remaining_actions: list[Action] = []
        for action in actions:
            match action:
                case Say(event):
                    self.ledger.say(event, now)
                    continue
                case Send(host_index, _, command_key):
                    self.links[host_index].sent.add(command_key)
                case Open(host_index):
                    self.links[host_index].is_opening = True
                    # A try that hangs, as behind a firewall that drops packets, must not be
                    # followed by others at once.
                    self.links[host_index].retry_at = now + self._times.silent
                case Release(host_index):
                    self.links[host_index].released = True
            remaining_actions.append(action)
        return remaining_actions

    def _hear(self, host_index: int, now: float) -> None:
        """Note that something has come from a host."""
        live_links = [link for link in self.links if not self.state.hosts[link.index].done]
        silence_limit = self._times.silent
        # If no host of a kept run was heard, that was the fault of this machine, and the others
        # get time to be heard as well.
        if self.state.launcher.keep and all(
            now - link.heard_at >= silence_limit for link in live_links
        ):
            for link in live_links:
                link.spared_at = now
        self.links[host_index].heard_at = now
