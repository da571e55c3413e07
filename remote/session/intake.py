"""What hosts send: lines that are records of their own, and whatever else. No host is trusted."""

from __future__ import annotations

from collections.abc import Sequence

from remote.events import ClockMeasured, HostPhaseChanged, RemarkMade
from remote.limits import Limits
from remote.plan.plan import Plan
from remote.sanitise import cut
from remote.session.decision_input import DecisionInput
from remote.session.finish import has_failed
from remote.session.host_clock import HostClock
from remote.session.ledger import Ledger
from training.wire.enums import Reach
from training.wire.events import Hello, Record, decode, fault

LONGEST_REASON = 200
"""Characters of what is wrong with a host's record that are shown."""


class Intake:
    """Takes in what the hosts of a run send. All times are by the session's clock."""

    def __init__(self, plan: Plan, ledger: Ledger, limits: Limits) -> None:
        self._policy = plan.policy
        self._ledger = ledger
        self._limits = limits
        self._clocks = [HostClock(limits.clock_step) for _ in plan.hosts]
        self._noise = [0] * len(plan.hosts)

    def take_lines(self, host_index: int, lines: Sequence[bytes], inputs: DecisionInput) -> str:
        """Take in what a host's agent sent. Return why it must be lost, as no agent sends that; ""
        if all is well."""
        noise_bytes = b""
        for line in lines:
            record = decode(line) if line.startswith(b"{") else None
            if record and record.host == host_index:  # no host speaks for another one
                loss_reason = self._take_record(record, line, inputs)
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
        self._look_at_clock(record, inputs.now)
        self._ledger.take(record, line)
        if isinstance(record.event, Hello):
            self._ledger.say(HostPhaseChanged(record.host, Reach.READY), inputs.now)
        return True

    def recall_clock(self, host_index: int, clock_offset: float) -> None:
        """Note that the host's clock was ahead by `clock_offset` seconds."""
        if 0 <= host_index < len(self._clocks):
            self._clocks[host_index].offset = clock_offset

    def _take_record(self, record: Record, line: bytes, inputs: DecisionInput) -> str:
        """Take in a record of a host, unless it came before. Return why the host must be lost."""
        # A new connection begins where the last one is known to have got, so that records may
        # come twice.
        if record.seq <= inputs.run.hosts[record.host].seq:
            return ""
        loss_reason = self._refuse(record, inputs, has_returned=inputs.launcher.returned)
        if loss_reason:
            return loss_reason
        try:
            self._take_in(record, line, inputs)
        except Exception as error:  # noqa: BLE001 - whatever a host says, the others go on
            error_text = cut(repr(error), LONGEST_REASON)
            return f"rankboard cannot take in its record {record.seq}: {error_text}"
        return ""

    def _take_in(self, record: Record, line: bytes, inputs: DecisionInput) -> None:
        is_greeting = isinstance(record.event, Hello) and not inputs.run.hosts[record.host].hello
        if is_greeting and not inputs.launcher.returned:  # it says who it is just now
            self._clocks[record.host].measure(record.time, inputs.now)
            self._say_clock(record.host, inputs.now)
        self._look_at_clock(record, inputs.now)
        self._ledger.take(record, line)

    def _look_at_clock(self, record: Record, now: float) -> None:
        if self._clocks[record.host].moved(record, now):
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
            return f"it sent a record of attempt {record.attempt + 1}, which was never started"
        return ""

    def _is_unasked(self, record: Record, inputs: DecisionInput, has_returned: bool) -> bool:
        """Return True if no launcher can have started the attempt of a record."""
        current_attempt = inputs.launcher.attempt
        max_restarts = self._policy.max_restarts
        if record.attempt <= current_attempt:
            return False
        if has_returned:  # the launchers before may have begun more attempts
            return record.attempt > max(max_restarts, self._limits.attempts)
        other_hosts = [host for host in inputs.run.hosts if host.index != record.host]
        is_over = has_failed(inputs) and not any(host.running for host in other_hosts)
        # Another launcher may have begun the next attempt, if this one is over.
        newest_attempt = min(current_attempt + 1, max_restarts)
        return not is_over or record.attempt > newest_attempt

    def _refuse_line(self, host_index: int, line: bytes, record: Record | None) -> str:
        """Say why a host must be lost that sends this line, which is no record of its own."""
        self._noise[host_index] += 1
        if self._noise[host_index] > self._limits.noise:
            return f"it sent more than {self._limits.noise} lines that are not records of its own"
        record_problem = fault(line) if record is None else ""
        if record_problem:
            return f"it sent a record that cannot be used: {cut(record_problem, LONGEST_REASON)}"
        return ""
