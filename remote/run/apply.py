"""What a record changes in the state of a run.

Reads no clock and does no I/O, so that replaying the records of an old run comes to the same state
as watching it live.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import compress, count, pairwise
from operator import ne, sub

from remote.run import host_records, launcher_records
from remote.run.run_state import RunState, began_here
from remote.run.series.step_times import RECENT
from remote.run.state.host_state import FRESH
from remote.run.state.phases import HostPhase
from remote.run.state.script_rank import ScriptRank, is_of_watch
from remote.sanitise import fit
from training.wire.events import Record, make_step_records
from training.wire.host_events import Hello
from training.wire.step_block import StepBlock, StepColumns

FEW = 4
"""Steps that are taken in one by one: so few at once would take as long."""


def apply_record(run: RunState, record: Record) -> None:
    """Take the next record of a run into its state.

    The record has to be expanded (see `training.wire.events.expand`). One that fits nothing changes
    nothing.
    """
    record = fit(record)
    if isinstance(record.event, StepBlock):
        _apply_steps(run, record, record.event.unpack())
    else:
        _apply_one(run, record)
    run.version += 1


def _apply_one(run: RunState, record: Record) -> None:
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


# Steps --------------------------------------------------------------------------------------------


def _apply_steps(run: RunState, record: Record, steps: StepColumns) -> None:
    """Take in the steps of a block. The state is the same as if each came in a record of its own.

    Of alike steps the first one is taken in alone: it may begin or end something, such as an epoch
    or a stall. The others then change nothing but figures, and are taken in at once; so is the
    first one, where it goes on from one like it.
    """
    for part in _split_alike(steps):
        if len(part) <= FEW:
            _apply_one_by_one(run, record, part)
            continue
        others = part
        if not _goes_on(run, record, part):
            _apply_one_by_one(run, record, part.part(0, 1))
            others = part.part(1)
        if not _apply_at_once(run, record, others):
            _apply_one_by_one(run, record, others)


def _goes_on(run: RunState, record: Record, steps: StepColumns) -> bool:
    """Return True if the first of alike steps changes nothing but figures, as did the newest step
    of its rank."""
    host = run.host(record.host)
    rank = run.rank_of(steps.rank, host) if host else None
    if host is None or rank is None or record.attempt != run.attempt:
        return False
    # What a script prints meanwhile may change what its steps tell.
    if run.plan.job is None or not math.isfinite(steps.loss[0]):
        return False
    if run.stall or run.epoch_tally.pending or host.missed or host.phase is not HostPhase.READY:
        return False
    return rank.step + 1 == steps.step[0] and rank.epoch == steps.epoch[0]


def _split_alike(steps: StepColumns) -> Iterator[StepColumns]:
    """Yield the parts of a block whose steps follow one another, in one epoch, with losses of one
    kind: numbers, none or unknown ones."""
    if len(steps) <= FEW or _are_clearly_alike(steps):
        yield steps
        return
    kinds = [
        *zip(
            steps.epoch,
            map(sub, steps.step, count()),
            steps.loss_known,
            map(math.isfinite, steps.loss),
            map(is_of_watch, steps.compute, steps.sync),
            strict=False,  # as `count` never ends
        )
    ]
    changes = compress(count(1), map(ne, kinds, kinds[1:]))
    for start, stop in pairwise((0, *changes, len(steps))):
        yield steps.part(start, stop)


def _are_clearly_alike(steps: StepColumns) -> bool:
    """Return True if steps are alike, as most are. This looks at columns, which is quick, and so
    not at a loss that is no number or a step without the times of the watch."""
    first_step = steps.step[0]
    return (
        [*steps.step] == [*range(first_step, first_step + len(steps))]
        and min(steps.epoch) == max(steps.epoch)
        and min(steps.loss_known) == max(steps.loss_known)
        and math.isfinite(sum(steps.loss))
        and min(steps.compute) > 0
    )


def _apply_one_by_one(run: RunState, record: Record, steps: StepColumns) -> None:
    for step_record in make_step_records(record, steps):
        _apply_one(run, step_record)


def _apply_at_once(run: RunState, record: Record, steps: StepColumns) -> bool:
    """Take in alike steps that follow a step like them. Return False if that is not possible."""
    host = run.host(record.host)
    rank = run.rank_of(steps.rank, host) if host else None
    # What a rank of another attempt has made counts no more.
    if host is None or rank is None or record.attempt < run.attempt:
        return False
    # Much begins with the first steps of an attempt.
    if len(rank.pace) < RECENT:
        return False
    # Each one may decide what the script prints, which changes what counts from then on.
    if isinstance(rank, ScriptRank) and rank.loss_match.is_awaited:
        return False
    # Each one that is no number may be the one that says that the run has diverged.
    if steps.loss_known[0] and not math.isfinite(steps.loss[0]):
        return False
    # A clock that was set, or a silence, may tell something of the run or the host.
    times = [min(time, record.time) - host.offset for time in steps.times]
    follows = run.started > 0 and times[0] >= max(host.began, run.started, run.first_record_at)
    if times != sorted(times) or not follows or times[-1] - host.heard > FRESH:
        return False
    host.seq = max(host.seq, record.seq)
    run.now = max(run.now, times[-1])
    host_records.take_steps(run, steps, host, rank, times)
    return True
