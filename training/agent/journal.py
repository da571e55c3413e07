"""The journal: every record of the agent of a host, written to its disk before anyone sees it.

The folder holds segments of whole lines, each named by the sequence number of its first record.
Numbers start at 1 and have no gap. When all segments together exceed the limit, which follows from
the free disk, the oldest printed text is deleted, which leaves empty lines; and where there is none
left, the oldest segment. A reader meets `RecordsDropped` in their place. Of a deleted segment, what
everybody has to know is then written again: the facts of the host, that its ranks were started, and
which have exited. The same holds of a segment that somebody else has deleted or renamed. A reserve
file is given up when the disk is full, so that the last records can be written.
"""

from __future__ import annotations

import errno
import os
import re
import time
from collections.abc import Iterable, Iterator

from training.agent import layout
from training.agent.live_runs import open_regular
from training.wire.events import FIRST, PREFIX, Event, Record, decode, encode, other_format
from training.wire.format import FORMAT
from training.wire.host_events import (
    AgentEnded,
    BeforeEnded,
    Exited,
    Hello,
    Launched,
    RecordsDropped,
    WorkerExited,
    WorkerJoined,
)
from training.wire.jsonl import load
from training.writing import write_whole

SEGMENT = 16 << 20
SHARE = 2
"""The journal takes up to this part of the disk that is free for it."""
RESERVE = 1 << 20
BLOCK = 1 << 20
"""Bytes of one read; no record is longer (as 128 KiB of text are not,
with every byte escaped)."""

_OF_HOST = (Hello, BeforeEnded)
_LASTING = (*_OF_HOST, Launched, WorkerJoined, WorkerExited, Exited)
"""What is written again once records were dropped."""
_FULL = (errno.ENOSPC, errno.EDQUOT)
_TEXT = re.compile(
    rb'^\{"host":\d+,"attempt":\d+,"seq":\d+,"time":[^,]+,"event":"text",(?!.*%b).*$'
    % PREFIX.encode(),
    re.MULTILINE,
)
"""A line of a record of printed text alone, in which no rank reports anything."""


def list_segments(folder: str) -> list[int]:
    """Return the first sequence number of each segment, in order."""
    file_names = [name for name in os.listdir(folder) if name.endswith(layout.JOURNAL)]
    return sorted(int(name.removesuffix(layout.JOURNAL)) for name in file_names)


def read_format(folder: str) -> int:
    """Return the format number of the journal of a folder, by its first record; FORMAT if that was
    dropped, or there is none. Raises: OSError."""
    if list_segments(folder)[:1] != [FIRST]:
        return FORMAT
    with open(open_regular(_segment_path(folder, FIRST)), "rb") as file:
        format_number = other_format(load(file.readline(BLOCK)) or {})
    return FORMAT if format_number is None else format_number


def write_reserve(folder: str) -> None:
    """Write the reserve file. Raises: OSError, if the disk has no space for it."""
    with open(f"{folder}/{layout.RESERVE}", "wb") as file:
        file.write(bytes(RESERVE))


def _segment_path(folder: str, first_number: int) -> str:
    return f"{folder}/{first_number:012d}{layout.JOURNAL}"


class Journal:
    """Appends to the journal of a folder. An incomplete last line is removed first."""

    def __init__(
        self, folder: str, host: int, segment: int = SEGMENT, limit: int | None = None
    ) -> None:
        """`limit`: bytes of all segments; None: a `SHARE` of the disk that is free for them."""
        self._folder = folder
        self._host = host
        self._segment = segment
        self._limit = limit
        self._reserve_path = f"{folder}/{layout.RESERVE}"
        # The bytes of each segment by its first number; records are appended to the last one.
        self._sizes = {
            first: os.path.getsize(_segment_path(folder, first)) for first in list_segments(folder)
        }
        self.last: Record | None = None
        self.full = not os.path.exists(self._reserve_path)
        """Whether the reserve is used up: the disk is full."""
        self._next_number = self._first = FIRST
        self._descriptor = -1
        self._attempt = 0
        self._without_text: set[int] = set()
        """The first numbers of segments whose text is deleted."""
        self._lasting_events: list[Event] = []  # of the host, and of this attempt
        if self._sizes:
            # The last one: segments are in the order of their numbers.
            self._resume_segment(*self._sizes.popitem())

    def _resume_segment(self, first_number: int, size: int) -> None:
        self._descriptor = os.open(
            _segment_path(self._folder, first_number), os.O_RDWR | os.O_APPEND | os.O_CLOEXEC
        )
        segment_bytes = os.pread(self._descriptor, size, 0)
        whole_lines = segment_bytes[: segment_bytes.rfind(b"\n") + 1]
        os.ftruncate(self._descriptor, len(whole_lines))
        self._sizes[first_number] = len(whole_lines)
        self._first = first_number
        self._next_number = first_number + whole_lines.count(b"\n")
        self.last = decode(whole_lines.rstrip(b"\n").rpartition(b"\n")[2])

    def write(self, attempt: int, events: Iterable[Event]) -> None:
        """Append the events as records of now. Raises: OSError, if the disk is full and the reserve
        used up."""
        if attempt != self._attempt:
            self._attempt = attempt
            self._lasting_events = [
                event for event in self._lasting_events if isinstance(event, _OF_HOST)
            ]
        new_events = list(events)
        lasting_events = [event for event in new_events if isinstance(event, _LASTING)]
        has_lost_segments = False
        if self._needs_segment():
            has_lost_segments = self._begin_segment()
        elif any(isinstance(event, AgentEnded) for event in new_events):
            has_lost_segments = self._forget_missing()  # no later segment will notice
        if has_lost_segments:
            new_events = self._lasting_events + new_events  # what everybody has to know
        self._lasting_events += lasting_events
        now = time.time()
        lines = []
        for event in new_events:
            lines.append(encode(Record(self._host, attempt, self._next_number, now, event)))
            self._next_number += 1
        self._append("".join(lines).encode(errors="replace"))

    def _append(self, data: bytes) -> None:
        self._sizes[self._first] += len(data)
        unwritten_bytes = memoryview(data)
        while unwritten_bytes:  # a disk that is almost full takes a part
            try:
                unwritten_bytes = unwritten_bytes[os.write(self._descriptor, unwritten_bytes) :]
            except OSError as error:
                if error.errno not in _FULL or self.full:
                    raise
                os.unlink(self._reserve_path)
                self.full = True

    def close(self) -> None:
        """Close the journal after its last record, and delete the reserve."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
        if not self.full:
            os.unlink(self._reserve_path)

    def _needs_segment(self) -> bool:
        if self._descriptor < 0 or self._sizes[self._first] >= self._segment:
            return True
        # A new reader would not find what is written to a file that was deleted or renamed.
        return not os.path.exists(_segment_path(self._folder, self._first))

    def _begin_segment(self) -> bool:
        """Begin a new segment, and delete the oldest beyond the limit. Return True if any is gone,
        also if somebody else has deleted or renamed it."""
        # Exclusive: two agents must never write one journal, whatever became of the lock.
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC
        path = _segment_path(self._folder, self._next_number)
        try:
            descriptor = os.open(path, flags, 0o600)
        except FileNotFoundError:  # the whole folder is gone
            if self._descriptor < 0:
                raise
            return False  # followers that have the old file open read on
        if self._descriptor >= 0:
            os.close(self._descriptor)
        self._descriptor = descriptor
        have_vanished = self._forget_missing()
        limit = self._find_limit()
        for first_number in list(self._sizes):
            if self._needed_size <= limit:
                break
            self._delete_text(first_number)
        dropped_segments = []
        for first_number in list(self._sizes):
            if self._needed_size <= limit:
                break
            os.unlink(_segment_path(self._folder, first_number))
            del self._sizes[first_number]
            dropped_segments.append(first_number)
        self._first = self._next_number
        self._sizes[self._first] = 0
        return have_vanished or bool(dropped_segments)

    def _forget_missing(self) -> bool:
        """Forget the segments that somebody else has deleted or renamed. Return True if there are
        any."""
        missing_segments = [
            first_number
            for first_number in self._sizes
            if not os.path.exists(_segment_path(self._folder, first_number))
        ]
        for first_number in missing_segments:
            del self._sizes[first_number]
        return bool(missing_segments)

    @property
    def _needed_size(self) -> int:
        """Return the bytes of all segments and the next one."""
        return self._segment + sum(self._sizes.values())

    def _find_limit(self) -> int:
        if self._limit is not None:
            return self._limit
        disk = os.statvfs(self._folder)
        free_bytes = disk.f_bavail * disk.f_frsize
        return (free_bytes + sum(self._sizes.values())) // SHARE

    def _delete_text(self, first_number: int) -> None:
        """Leave an empty line in place of each record of text in a segment. A reader that has the
        file open goes on with the file as it was."""
        if first_number in self._without_text:
            return
        self._without_text.add(first_number)
        path = _segment_path(self._folder, first_number)
        descriptor = open_regular(path)
        segment_bytes = os.pread(descriptor, self._sizes[first_number], 0)
        os.close(descriptor)
        kept_bytes = _TEXT.sub(b"", segment_bytes)
        if len(kept_bytes) == len(segment_bytes):
            return
        try:
            write_whole(path, kept_bytes)
        except OSError as error:
            if error.errno not in _FULL:
                raise
            return  # it is deleted as a whole, if it must be
        self._sizes[first_number] = len(kept_bytes)


def write_last(folder: str, host: int, end: AgentEnded) -> None:
    """Write the last record in place of an agent that could not, unless it did."""
    journal = Journal(folder, host)
    if not (journal.last and isinstance(journal.last.event, AgentEnded)):
        journal.write(journal.last.attempt if journal.last else 0, [end])
    journal.close()


class JournalReader:
    """Reads the lines of the records after number `after`, also those that are still to come."""

    def __init__(self, folder: str, host: int, after: int) -> None:
        self._folder = folder
        self._host = host
        self._after_number = after
        self._segment = 0
        self._last_read = 0
        self._offset = 0
        self._descriptor = -1

    def blocks(self) -> Iterator[bytes]:
        """Yield the lines up to now, in blocks of whole lines. Call it again when there may be
        more."""
        while True:
            # Looked up before the read: a segment with a successor does not grow.
            next_segment = self._find_next_segment()
            yield from self._read_segment()
            if next_segment is None:
                return
            yield from self._enter_segment(next_segment)

    def _find_next_segment(self) -> int | None:
        later_segments = [
            first_number
            for first_number in list_segments(self._folder)
            if first_number > self._segment
        ]
        # All but the last of those that begin with known records have nothing new.
        while len(later_segments) > 1 and later_segments[1] <= self._after_number + 1:
            later_segments.pop(0)
        return later_segments[0] if later_segments else None

    def _enter_segment(self, first_number: int) -> Iterator[bytes]:
        try:
            descriptor = open_regular(_segment_path(self._folder, first_number))
        except FileNotFoundError:  # it was dropped since
            return
        self.close()
        last_known = max(self._last_read, self._after_number)
        last_before = first_number - 1
        self._descriptor = descriptor
        self._segment = first_number
        self._offset = 0
        self._last_read = last_before
        if last_known < last_before:
            dropped = RecordsDropped(last_known + 1, last_before)
            yield encode(Record(self._host, 0, last_before, time.time(), dropped)).encode()

    def _read_segment(self) -> Iterator[bytes]:
        while self._descriptor >= 0:
            read_bytes = os.pread(self._descriptor, BLOCK, self._offset)
            block = read_bytes[: read_bytes.rfind(b"\n") + 1]
            if not block:
                return
            self._offset += len(block)
            known_lines = max(0, self._after_number - self._last_read)
            self._last_read += block.count(b"\n")
            if self._last_read > self._after_number:
                new_lines = block.split(b"\n", known_lines)[known_lines]
                yield self._explain_gaps(new_lines) if _has_gap(new_lines) else new_lines

    def _explain_gaps(self, lines: bytes) -> bytes:
        """Return the lines up to the last one read, with a record in place of empty ones."""
        kept_lines = lines.splitlines(keepends=True)
        first_number = self._last_read - len(kept_lines) + 1
        gaps = [place for place, line in enumerate(kept_lines) if line == b"\n"]
        first_gap = first_number + gaps[0]
        dropped = RecordsDropped(first_gap, first_number + gaps[-1], text_only=True)
        record = Record(self._host, 0, first_gap, time.time(), dropped)
        kept_lines[gaps[0]] = encode(record).encode()
        return b"".join(line for line in kept_lines if line != b"\n")

    def close(self) -> None:
        """Close the descriptor of the segment."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def _has_gap(lines: bytes) -> bool:
    return lines.startswith(b"\n") or b"\n\n" in lines


def send_journal(folder: str, host: str, after: str) -> Iterator[bytes]:
    """Run the host command `journal FOLDER HOST AFTER`: yield the records in the journal after
    number AFTER."""
    return JournalReader(folder, int(host), int(after)).blocks()
