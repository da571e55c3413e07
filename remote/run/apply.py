"""What a record changes in the state of a run.

Reads no clock and does no I/O, so that replaying the records of an old run comes to the same state
as watching it live.
"""

from __future__ import annotations

from remote.run import host_records, launcher_records
from remote.run.run_state import RunState, began_here
from remote.sanitise import fit
from training.wire.events import Record
from training.wire.host_events import Hello


def apply_record(run: RunState, record: Record) -> None:
    """Take the next record of a run into its state.

    The record has to be expanded (see `training.wire.events.expand`). One that fits nothing changes
    nothing.
    """
    record = fit(record)
    when = record.time
    host = run.host(record.host)
    if host:
        when -= host.offset
        # Nothing of a host is older than its agent: a clock that was set back would say so.
        if when < host.began:
            when = host.began
        if record.seq > host.seq:
            host.seq = record.seq
    else:
        run.seq = max(run.seq, record.seq)
    if isinstance(record.event, Hello):
        if host and not host.hello:  # else told again; its clock is known just after this
            host.hello = record.event
            host.began = record.time - host.offset
        return
    if when > run.now:
        run.now = when
    if not run.started:
        run.saw_start = began_here(record)
    # A launcher that returns speaks before the hosts tell of the start.
    if when < run.first_record_at or not run.first_record_at:
        run.first_record_at = when
    if when < run.started or not run.started:
        run.started = when
    if host:
        host_records.apply(run, record, host, when)
    else:
        launcher_records.apply(run, record, when)
