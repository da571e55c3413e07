"""All events of ranks and agents, and the lines that carry them.

A rank writes *wire events* on its stdout: a line that starts with `PREFIX`, then JSON, or the row
of a step. An agent gathers the rows as `StepBlock`, and forwards all other lines of a rank unread,
inside `OutputText`, in which `expand` finds the events. The events of launchers are in
`remote.events`, because no host needs them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from training.wire.codec import Codec
from training.wire.host_events import HOST_EVENTS, OutputText
from training.wire.jsonl import dumps, load
from training.wire.rank_events import RANK_EVENTS, StepFinished
from training.wire.records import (
    FIRST,
    SESSION,
    Event,
    Load,
    Record,
    RecordCodec,
    other_format,
    point_in_time,
)
from training.wire.step_block import (
    ROW_BYTES,
    STEP_ROW,
    StepBlock,
    StepColumns,
    decode_rows,
    encode_row,
    read_row,
)
from training.writing import write_all

__all__ = ["FIRST", "SESSION", "Event", "Record", "other_format"]

Report = tuple[Any, "float | None"]
"""An event of a rank, and the time that the rank gave it."""
ParseReport = Callable[[str], "Report | None"]
"""Parses a line of a rank, see `parse_report`."""
PREFIX = "@rankboard "
WORKER = "worker "
"""Follows PREFIX in what a worker reports, whose rank is another one than that of the program: see
`WorkerJoined`."""

EVENTS: tuple[type[Event], ...] = (*RANK_EVENTS, *HOST_EVENTS, StepBlock)
_codec = RecordCodec(EVENTS)
_rank_codec = Codec("event", RANK_EVENTS)
encode = _codec.encode
decode = _codec.decode
fault = _codec.fault
from_object = _codec.from_object
to_object = _codec.to_object


def emit(event: Event) -> None:
    """Report an event as this rank: one line, in one write to stdout."""
    now = time.time()
    if isinstance(event, StepFinished):
        report = f"{STEP_ROW}{encode_row(event, now)}"
    else:
        report = dumps({"time": now} | to_object(event))
    # One write, as writes are atomic up to PIPE_BUF bytes: threads do not cut each other's lines.
    write_all(1, f"{PREFIX}{report}\n".encode())


def parse_report(line: str, load: Load = load) -> Report | None:
    """Return the event that a rank reports in a line, without its PREFIX, and the event's time,
    which is None if it is not valid. Return None if the line reports no event.

    `load` parses a line of JSON.
    """
    if line.startswith(STEP_ROW):
        return _parse_row(line.removeprefix(STEP_ROW))
    data = load(line)
    if data is None:
        return None
    event = _rank_codec.value(data)
    if event is None:
        return None
    return event, point_in_time(data.get("time"))


def _parse_row(text: str) -> Report | None:
    row = decode_rows(text)
    if row is None or len(row) != ROW_BYTES:
        return None
    try:
        return read_row(row)
    except ValueError:
        return None


def expand(record: Record, parse: ParseReport = parse_report) -> Sequence[Record]:
    """Split the `OutputText` of a rank into the wire events in it and the text between them, in
    order. Return any other record as it is: `split_steps` splits a `StepBlock`.

    A wire event has the time that its rank gave it, but never a later one than the record, and the
    host, attempt and seq of the record. An event that a rank reports for another rank is text,
    unless a worker reports it. `parse` reads one line of a report.
    """
    output = record.event
    # Most text has no event in it, and is not cut into lines. A followed file may have a copy of
    # such lines, which are no report of the rank.
    if not isinstance(output, OutputText) or PREFIX not in output.text or output.path:
        return (record,)
    records: list[Record] = []
    plain_lines: list[str] = []
    for line in output.text.split("\n"):
        report_text = line.removeprefix(PREFIX) if line.startswith(PREFIX) else ""
        is_workers = report_text.startswith(WORKER)
        report = parse(report_text.removeprefix(WORKER)) if report_text else None
        if report is None or not (is_workers or report[0].rank == output.rank):
            plain_lines.append(line)
            continue
        if plain_lines:
            records.append(_with_lines(record, output, plain_lines))
            plain_lines = []
        event, reported_time = report
        if reported_time is None:
            reported_time = record.time
        # The agent has read the line by then, so a later time in it is wrong.
        event_time = min(reported_time, record.time)
        records.append(Record(record.host, record.attempt, record.seq, event_time, event))
    if plain_lines:
        records.append(_with_lines(record, output, plain_lines))
    return records


def split_steps(record: Record) -> Sequence[Record]:
    """Split a `StepBlock` into its steps, see `make_step_records`. Return any other record as it
    is."""
    if isinstance(record.event, StepBlock):
        return make_step_records(record, record.event.unpack())
    return (record,)


def make_step_records(block_record: Record, steps: StepColumns) -> list[Record]:
    """Return a record of each of these steps, which are of the block in a record.

    It has the time that the rank gave the step, but never a later one than the record, and the
    host, attempt and seq of the record.
    """
    host = block_record.host
    attempt = block_record.attempt
    seq = block_record.seq
    latest = block_record.time
    return [
        Record(host, attempt, seq, min(time, latest), step)
        for time, step in zip(steps.times, steps.make_steps(), strict=True)
    ]


def _with_lines(record: Record, output: OutputText, lines: list[str]) -> Record:
    return replace(record, event=replace(output, text="\n".join(lines)))
