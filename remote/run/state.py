"""What became of a run: `RunState`, and `apply`, which takes it from one record to the next.

Reads no clock and does no I/O, so that replaying the records of an old run comes to the same state
as watching it live.
"""

from __future__ import annotations

from remote.run import host_events, launcher_events
from remote.run.cause import Cause
from remote.run.course import Stage
from remote.run.host import HostState
from remote.run.news import LogLine
from remote.run.phases import FATES, HostPhase, RankPhase, RunPhase, Verdict
from remote.run.progress import Diverged, Restart, Stall
from remote.run.rank import RankState
from remote.run.run import Run, began_here
from remote.run.timing import Timing
from remote.sanitise import fit
from training.wire import events
from training.wire.events import Record

__all__ = [
    "FATES",
    "Cause",
    "Diverged",
    "HostPhase",
    "HostState",
    "LogLine",
    "RankPhase",
    "RankState",
    "Restart",
    "RunPhase",
    "RunState",
    "Stage",
    "Stall",
    "Timing",
    "Verdict",
]


class RunState(Run):
    """A run as its records tell it. Only `apply` writes it, and `hold`."""

    def apply(self, record: Record) -> None:
        """Take in the next record, expanded (see `training.wire.events.expand`). A record that fits
        nothing changes nothing."""
        record = fit(record)
        when = record.time
        host = self.host(record.host)
        if host:
            when -= host.offset
            if when < host.began:
                when = host.began
            if record.seq > host.seq:
                host.seq = record.seq
        else:
            self.seq = max(self.seq, record.seq)
        if isinstance(record.event, events.Hello):
            if host and not host.hello:  # else told again; its clock is known just after this
                host.hello = record.event
                host.began = record.time - host.offset
            return
        if when > self.now:
            self.now = when
        if not self.started:
            self.saw_start = began_here(record)
        # A launcher that returns speaks before the hosts tell of the start.
        if when < self._first or not self._first:
            self._first = when
        if when < self.started or not self.started:
            self.started = when
        if host:
            host_events.apply(self, record, host, when)
        else:
            launcher_events.apply(self, record, when)

    def hold(self, when: float) -> None:
        """Of a replay: nothing has happened until this time, at which it is held."""
        self.is_held, self.now = True, max(self.now, when)
