"""Read what the ranks of a run have printed. Their steps, of which most of a long record consists,
are passed over."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from msgspec import Struct

from remote.events import Restarted
from remote.record.events_file import (
    EventsReader,
    Remark,
    compile_scan,
    compile_scan_for_others,
    find_lines,
)
from training.wire.events import SESSION, Record
from training.wire.host_events import OutputText

BLOCK = 1 << 16
"""Bytes that are searched at once."""
LARGEST_BLOCK = 1 << 22
OUTPUT_NAMES = (OutputText.wire_name, Restarted.wire_name)
OUTPUT = compile_scan(OUTPUT_NAMES)
BUT_NUMBERS = compile_scan_for_others(("steps", "hostsample", "ranksample", "gpusample"))


class LastOutput(Struct, frozen=True):
    """The end of what ranks have printed."""

    records: list[Record]
    """In order of arrival: what ranks have printed, and the restarts among it."""
    end: int
    """The bytes of the record, up to the end of its last whole line."""


def is_output(record: Record, ranks: Collection[int] | None) -> bool:
    """Return True if this is something that one of the ranks, or (None) any rank, has printed."""
    event = record.event
    if not isinstance(event, OutputText) or event.path or record.host == SESSION:
        return False
    return ranks is None or event.rank in ranks


def read_but_numbers(folder: Path, hosts: int, remark: Remark | None = None) -> Iterator[Record]:
    """Yield what `read_records` does, but for blocks of steps and samples. Raises: OtherFormat;
    RunFolderError."""
    with closing(EventsReader(folder, hosts)) as reader:
        reader.require_file()
        while block := reader.read_block(BLOCK):
            yield from reader.parser.parse(find_lines(block, BUT_NUMBERS))
        yield from reader.read_unfinished_line()
        reader.remark_on_left_out(remark)


def read_last_output(
    folder: Path, hosts: int, line_count: int, ranks: Collection[int] | None = None
) -> LastOutput:
    """Return the last lines that these ranks of a run with so many hosts, or (None) all of them
    together have printed. Raises: OtherFormat; RunFolderError."""
    last_records: list[Record] = []
    missing_lines = line_count
    end = 0
    with closing(EventsReader(folder, hosts)) as reader:
        reader.require_file()
        for block_end, block in _read_backwards(reader):
            records = _parse_output(reader, block)
            if not end:
                end = block_end
                reader.seek(end)
                records += reader.read_unfinished_line()
            for record in reversed(records):
                if missing_lines > 0 and _is_wanted(record, ranks):
                    last_records.append(_cut_output(record, missing_lines))
                    missing_lines -= _count_lines(record)
            if missing_lines <= 0:
                break
    return LastOutput(last_records[::-1], end)


def _read_backwards(reader: EventsReader) -> Iterator[tuple[int, bytes]]:
    """Yield the whole lines of the record in blocks, the last ones first, each with its end."""
    block_end = reader.size
    block_size = BLOCK
    while block_end > 0:
        reader.seek_line(max(0, block_end - block_size))
        begin = reader.offset
        block = reader.read_block(block_end - begin) if begin < block_end else b""
        if block:
            yield reader.offset, block
            block_end = begin
            # If there is nothing near the end, there may be nothing for long.
            block_size = min(2 * block_size, LARGEST_BLOCK)
        elif block_size >= block_end:
            return
        else:
            block_size *= 2  # a line is longer than a block


def _parse_output(reader: EventsReader, block: bytes) -> list[Record]:
    # Most blocks have steps only. A plain text is found much faster than a pattern.
    if not any(name.encode() in block for name in OUTPUT_NAMES):
        return []
    return list(reader.parser.parse(find_lines(block, OUTPUT)))


def _is_wanted(record: Record, ranks: Collection[int] | None) -> bool:
    return is_output(record, ranks) or isinstance(record.event, Restarted)


def _count_lines(record: Record) -> int:
    event = record.event
    return event.text.count("\n") + 1 if isinstance(event, OutputText) else 1


def _cut_output(record: Record, line_count: int) -> Record:
    """Return the last lines of a record."""
    event = record.event
    if not isinstance(event, OutputText):
        return record
    last_lines = event.text.split("\n")[-line_count:]
    return replace(record, event=replace(event, text="\n".join(last_lines)))
