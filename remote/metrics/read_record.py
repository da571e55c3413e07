"""Reads the record of a run for its figures, and a long one without working out what is known."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path

from remote.events import decode_packed, expand
from remote.metrics.gather import RunCollector
from remote.plan.plan import Plan
from remote.record import snapshots
from remote.record.events_file import BLOCK, EventsReader
from remote.record.snapshots import RunMoment
from remote.record.step_chunks import PlacedBlock, locate_columns
from remote.run.apply import apply_record
from remote.run.output.script_readings import expander
from remote.run.run_state import RunState
from training.wire.host_events import HostSample, OutputText, RankSample
from training.wire.step_block import StepBlock

_PLAIN = (StepBlock, HostSample, RankSample)
_FREQUENT = (*_PLAIN, OutputText)
"""Events that come by the million, and change neither what hosts and ranks a run has, nor its
attempts, nor their clocks."""


def collect_run(
    folder: Path, plan: Plan, collector: RunCollector, remark: Callable[[str], object]
) -> RunState:
    """Read the record of a run into a collector. Return the state at its end.

    `remark` hears of what was left out. Raises: RunFolderError; OtherFormat.
    """
    with closing(EventsReader(folder, len(plan.hosts), expander(plan))) as reader:
        reader.require_file()
        moment = snapshots.find_newest(folder, plan)
        state = RunState(plan)
        if moment:
            _collect_known(reader, moment.offset, plan, collector)
            state = moment.state
        begin = reader.offset
        for line in reader.read_lines():
            for record in reader.parser.parse((line,)):
                apply_record(state, record)
                # After the state, which has fitted the record and knows the rank's attempt.
                collector.take(record, state, reader.offset - len(line))
        new_bytes = (reader.offset - begin) * reader.density
        if new_bytes >= snapshots.APART and not reader.parser.left_out:
            with suppress(OSError):  # it is only a cache
                moment = RunMoment(state, reader.parser.expand, reader.offset)
                snapshots.write_snapshot(folder, plan, moment)
        for record in reader.read_unfinished_line():
            apply_record(state, record)
            collector.take(record, state, reader.offset)
        reader.remark_on_left_out(remark)
    return state


def _collect_known(reader: EventsReader, end: int, plan: Plan, collector: RunCollector) -> None:
    """Read the record up to the byte `end`, where its state is known. What comes by the million is
    not applied again."""
    state = RunState(plan)
    parser = reader.parser
    # What a script prints is read anew, with its steps: no line can be passed by the parser.
    is_plain = parser.expand is expand
    for line_offset, line in _read_lines(reader, end):
        record = decode_packed(line) if is_plain else None
        if record and type(record.event) in _PLAIN:
            placed = None
            if isinstance(record.event, StepBlock):
                block = locate_columns(record.event, reader.chunks)
                placed = block if isinstance(block, PlacedBlock) else None
            if placed and not reader.chunks.has(placed.place):
                parser.num_without_columns += 1
            else:
                collector.take(record, state, line_offset, placed)
            continue
        for record in parser.parse((line,), keeps_packed=True):
            if type(record.event) not in _FREQUENT:
                apply_record(state, record)
            collector.take(record, state, line_offset)


def _read_lines(reader: EventsReader, end: int) -> Iterator[tuple[int, bytes]]:
    """Yield the whole lines up to the byte `end`, where a line begins, each with the byte at which
    it begins: quicker than one by one."""
    offset = reader.offset
    while offset < end and (block := reader.read_block(min(BLOCK, end - offset))):
        for line in block.split(b"\n")[:-1]:
            yield offset, line
            offset += len(line) + 1
    # A line that is too long for a block, and is passed over.
    for line in reader.read_lines(end):
        yield reader.offset - len(line), line
