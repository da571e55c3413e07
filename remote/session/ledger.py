"""The state of a run, and the records that lead to it."""

from __future__ import annotations

from typing import Protocol

from remote.events import Restarted
from remote.limits import Limits
from remote.plan.plan import Plan
from remote.record.snapshots import RunMoment
from remote.run.apply import apply_record
from remote.run.output.script_readings import expander
from remote.run.run_state import RunState
from training.wire.events import SESSION, Event, Record


class Records(Protocol):
    """Where the records of a run go; see `remote.record.write.Recorder`."""

    def write(self, record: Record) -> None: ...
    def raw(self, lines: bytes) -> None: ...
    def text(self, record: Record) -> None: ...


class Ledger:
    """Records whatever happens, and takes it in: `state` is what the records say."""

    def __init__(
        self, plan: Plan, records: Records, limits: Limits, past: RunMoment | None = None
    ) -> None:
        """`past`: what is known of the run already."""
        self.state = past.state if past else RunState(plan, limits)
        self.expand = past.expand if past else expander(plan)
        """Takes records apart."""
        self.batch: list[Record] = []
        """What was taken in since `take_batch`, expanded."""
        self._records = records

    def say(self, session_event: Event, now: float) -> None:
        """Record an event of the session."""
        attempt = self.state.attempt
        # This record is the first one of the new attempt; the state still has the old one.
        if isinstance(session_event, Restarted):
            attempt += 1
        record = Record(SESSION, attempt, self.state.seq + 1, now, session_event)
        self._records.write(record)
        self._apply(record)

    def take(self, record: Record, line: bytes) -> None:
        """Record what a host says in this line."""
        self._apply(record)
        self._records.raw(line)

    def take_batch(self) -> list[Record]:
        """Return what was taken in since this was called last."""
        taken_batch = self.batch
        self.batch = []
        return taken_batch

    def recall(self, record: Record) -> None:
        """Take in what is recorded already."""
        apply_record(self.state, record)

    def _apply(self, record: Record) -> None:
        for expanded_record in self.expand(record):
            self._records.text(expanded_record)
            apply_record(self.state, expanded_record)
            self.batch.append(expanded_record)
