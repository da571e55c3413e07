"""What hosts send: lines that are records of their own, and whatever else. No host is trusted."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from remote.events import ClockMeasured, HostPhaseChanged, RemarkMade, decode_from_host
from remote.limits import Limits
from remote.plan.plan import Plan
from remote.run.state.host_state import HostState
from remote.sanitise import cut
from remote.session.decision_input import DecisionInput
from remote.session.finish import has_failed
from remote.session.host_clock import HostClock
from remote.session.ledger import Ledger
from training.wire.enums import Reach
from training.wire.events import Record, fault
from training.wire.host_events import Hello

LONGEST_REASON = 200
"""Characters of what is wrong with a host's record that are shown."""


@dataclass(slots=True)
class Backlog:
    """Lines of a host that are still to be taken in, as they are ahead of the other hosts."""

    batches: deque[tuple[float, Sequence[bytes]]] = field(default_factory=deque)
    """When they arrived, and the lines."""
    next_record: Record | None = None
    """The record that is to be taken in next, and has to wait; None if nothing waits."""
    size: int = 0
    """Bytes of the lines, if any wait."""

    def put_back(self, record: Record, arrived_at: float, lines: Sequence[bytes]) -> None:
        """Keep lines, the first of which is this record, until it can be taken in."""
        self.batches.appendleft((arrived_at, lines))
        self.next_record = record
        self.size = sum(len(line) for _, batch in self.batches for line in batch)


class Intake:
    """Takes in what the hosts of a run send. All times are by the session's clock."""

    def __init__(self, plan: Plan, ledger: Ledger, limits: Limits) -> None:
        self._policy = plan.policy
        self._ledger = ledger
        self._limits = limits
        self._clocks = [HostClock(limits.clock_step) for _ in plan.hosts]
        self._noise = [0] * len(plan.hosts)
        self._backlogs = [Backlog() for _ in plan.hosts]

    def take_lines(self, host_index: int, lines: Sequence[bytes], inputs: DecisionInput) -> str:
        """Take in what a host's agent sent. Return why it must be lost, as no agent sends that; ""
        if all is well."""
        backlog = self._backlogs[host_index]
        backlog.batches.append((inputs.now, lines))
        if backlog.next_record is None:
            return self._take_backlog(host_index, inputs)
        backlog.size += sum(map(len, lines))
        if backlog.size > self._limits.ahead:
            return self._explain_unasked(backlog.next_record)
        return ""

    def take_waiting(self, inputs: DecisionInput) -> Iterator[tuple[int, str]]:
        """Take in lines that have waited, and need not any longer. Yield each host that must be
        lost for them, and why."""
        has_progressed = True
        while has_progressed:  # the attempt that one host tells of may be that of all others
            has_progressed = False
            for host_index, backlog in enumerate(self._backlogs):
                record = backlog.next_record
                if record is None:
                    continue
                arrived_at, _ = backlog.batches[0]
                if self._must_wait(record, arrived_at, inputs):
                    continue
                has_progressed = True
                loss_reason = self._take_backlog(host_index, inputs)
                if loss_reason:
                    yield host_index, loss_reason

    def _take_backlog(self, host_index: int, inputs: DecisionInput) -> str:
        """Take in the lines of a host up to one that must wait. Return why the host must be
        lost."""
        backlog = self._backlogs[host_index]
        backlog.next_record = None
        while backlog.batches and backlog.next_record is None:
            arrived_at, lines = backlog.batches.popleft()
            loss_reason = self._take_batch(host_index, lines, arrived_at, inputs)
            if loss_reason:
                backlog.batches.clear()
                return loss_reason
        return ""

    def _take_batch(
        self, host_index: int, lines: Sequence[bytes], arrived_at: float, inputs: DecisionInput
    ) -> str:
        """Take in lines that arrived together, up to one that must wait. Return why their host must
        be lost."""
        noise_bytes = b""
        for position, line in enumerate(lines):
            record = decode_from_host(line) if line.startswith(b"{") else None
            if record and record.host == host_index:  # no host speaks for another one
                if self._must_wait(record, arrived_at, inputs):
                    self._backlogs[host_index].put_back(record, arrived_at, lines[position:])
                    break
                loss_reason = self._take_record(record, line, arrived_at, inputs)
            else:
                loss_reason = self._refuse_line(host_index, line, record)
                shown_room = max(0, self._limits.shown - len(noise_bytes))
                noise_bytes += line[:shown_room]
            if loss_reason:
                return loss_reason
        # It is recorded as text alone, all of these lines at once: there may be thousands of them.
        noise_text = noise_bytes.decode(errors="replace").strip("\n")
        if noise_text:
            self._ledger.say(RemarkMade(host_index, noise_text), inputs.now)
        return ""

    def take_journal(self, record: Record, line: bytes, inputs: DecisionInput) -> bool:
        """Take in a record of a host's journal, read without its agent. Return True if it fits."""
        if self._refuse(record, inputs, has_returned=True):
            return False
        self._look_at_clock(record, inputs.now, inputs.now)
        self._ledger.take(record, line)
        if isinstance(record.event, Hello):
            self._ledger.say(HostPhaseChanged(record.host, Reach.READY), inputs.now)
        return True

    def recall_clock(self, host_index: int, clock_offset: float) -> None:
        """Note that the host's clock was ahead by `clock_offset` seconds."""
        if 0 <= host_index < len(self._clocks):
            self._clocks[host_index].offset = clock_offset

    def _take_record(
        self, record: Record, line: bytes, arrived_at: float, inputs: DecisionInput
    ) -> str:
        """Take in a record of a host, unless it came before. Return why the host must be lost."""
        # A new connection begins where the last one is known to have got, so that records may
        # come twice.
        if record.seq <= inputs.run.hosts[record.host].seq:
            return ""
        loss_reason = self._refuse(record, inputs, has_returned=inputs.launcher.returned)
        if loss_reason:
            return loss_reason
        try:
            self._take_in(record, line, arrived_at, inputs)
        except Exception as error:  # noqa: BLE001 - whatever a host says, the others go on
            error_text = cut(repr(error), LONGEST_REASON)
            return f"rankboard cannot take in its record {record.seq}: {error_text}"
        return ""

    def _take_in(
        self, record: Record, line: bytes, arrived_at: float, inputs: DecisionInput
    ) -> None:
        is_greeting = isinstance(record.event, Hello) and not inputs.run.hosts[record.host].hello
        if is_greeting and not inputs.launcher.returned:  # it says who it is just now
            self._clocks[record.host].measure(record.time, arrived_at)
            self._say_clock(record.host, inputs.now)
        self._look_at_clock(record, arrived_at, inputs.now)
        self._ledger.take(record, line)

    def _look_at_clock(self, record: Record, arrived_at: float, now: float) -> None:
        if self._clocks[record.host].moved(record, arrived_at):
            self._say_clock(record.host, now)

    def _say_clock(self, host_index: int, now: float) -> None:
        self._ledger.say(ClockMeasured(host_index, self._clocks[host_index].offset), now)

    def _refuse(self, record: Record, inputs: DecisionInput, *, has_returned: bool) -> str:
        """Say why a record of a host cannot be taken in; "" if it can. `has_returned`: this
        launcher is not the first one."""
        newest_seq = inputs.run.hosts[record.host].seq
        if record.seq > newest_seq + self._limits.gap:
            return f"it sent record {record.seq} after record {newest_seq}"
        if self._is_unasked(record, inputs, has_returned):
            return self._explain_unasked(record)
        return ""

    @staticmethod
    def _explain_unasked(record: Record) -> str:
        return f"it sent a record of attempt {record.attempt + 1}, which was never started"

    def _is_unasked(self, record: Record, inputs: DecisionInput, has_returned: bool) -> bool:
        """Return True if no launcher can have started the attempt of a record."""
        if record.attempt <= inputs.run.attempt:
            return False
        if has_returned:  # the launchers before may have begun more attempts
            return record.attempt > max(self._policy.max_restarts, self._limits.attempts)
        return not (self._is_next_attempt(record, inputs) and _is_attempt_over(record, inputs))

    def _is_next_attempt(self, record: Record, inputs: DecisionInput) -> bool:
        """Return True if a record is of an attempt that another launcher may begin next."""
        next_attempt = inputs.run.attempt + 1
        return record.attempt == next_attempt <= self._policy.max_restarts

    def _must_wait(self, record: Record, arrived_at: float, inputs: DecisionInput) -> bool:
        """Return True if other hosts may still tell that the attempt before that of a record is
        over.

        Each host's records come in order, but another launcher may hear all hosts sooner than this
        one, and begin the next attempt before this one knows of the end of all ranks.
        """
        if inputs.launcher.returned or not self._is_next_attempt(record, inputs):
            return False
        if _is_attempt_over(record, inputs):
            return False
        # A launcher ends what still runs of an attempt that has failed, or loses its host.
        if has_failed(replace(inputs)):
            return True
        # What a host writes after the record has arrived comes after all that happened before.
        caught_up_at = arrived_at + self._limits.clock_step
        other_hosts = _other_hosts(record, inputs)
        return any(host.heard < caught_up_at for host in other_hosts if not host.done)

    def _refuse_line(self, host_index: int, line: bytes, record: Record | None) -> str:
        """Say why a host must be lost that sends this line, which is no record of its own."""
        self._noise[host_index] += 1
        if self._noise[host_index] > self._limits.noise:
            return f"it sent more than {self._limits.noise} lines that are not records of its own"
        record_problem = fault(line) if record is None else ""
        if record_problem:
            return f"it sent a record that cannot be used: {cut(record_problem, LONGEST_REASON)}"
        return ""


def _other_hosts(record: Record, inputs: DecisionInput) -> list[HostState]:
    return [host for host in inputs.run.hosts if host.index != record.host]


def _is_attempt_over(record: Record, inputs: DecisionInput) -> bool:
    """Return True if this attempt has failed, and nothing runs any more but on the host of a
    record."""
    is_running = any(host.running for host in _other_hosts(record, inputs))
    # A record of the same batch may have begun an attempt on other hosts: the copy looks anew.
    return not is_running and has_failed(replace(inputs))
