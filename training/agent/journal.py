"""The journal: every record of the agent of a host, written to its disk before anyone sees it.

The folder holds segments of whole lines, each named by the sequence number of its first record.
Numbers start at 1 and have no gap. When all segments together exceed the limit the oldest is
deleted, and a reader meets `RecordsDropped` in its place. What everybody has to know is then
written again: the facts of the host, that its ranks were started, and which have exited. A reserve
file is given up when the disk is full, so that the last records can be written.
"""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Iterable, Iterator

from training.agent import layout
from training.agent.live_runs import open_regular
from training.wire.events import (
    FIRST,
    AgentEnded,
    Event,
    Exited,
    Hello,
    Launched,
    Record,
    RecordsDropped,
    decode,
    encode,
    other_format,
)
from training.wire.format import FORMAT
from training.wire.jsonl import load

SEGMENT = 16 << 20
LIMIT = 1 << 30
RESERVE = 1 << 20
BLOCK = 1 << 20
"""Bytes of one read; no record is longer (a `Text` of 128 KiB with every byte escaped is not)."""

_LASTING = (Hello, Launched, Exited)
"""What is written again once records were dropped."""
_FULL = (errno.ENOSPC, errno.EDQUOT)


def list_segments(folder: str) -> list[int]:
    """Return the first sequence number of each segment, in order."""
    names = [name for name in os.listdir(folder) if name.endswith(layout.JOURNAL)]
    return sorted(int(name.removesuffix(layout.JOURNAL)) for name in names)


def read_format(folder: str) -> int:
    """Return the format number of the journal of a folder, by its first record; FORMAT if that was
    dropped, or there is none. Raises: OSError."""
    if list_segments(folder)[:1] != [FIRST]:
        return FORMAT
    with open(open_regular(_path(folder, FIRST)), "rb") as file:
        number = other_format(load(file.readline(BLOCK)) or {})
    return FORMAT if number is None else number


def write_reserve(folder: str) -> None:
    """Write the reserve file. Raises: OSError, if the disk has no space for it."""
    with open(f"{folder}/{layout.RESERVE}", "wb") as file:
        file.write(bytes(RESERVE))


def _path(folder: str, first: int) -> str:
    return f"{folder}/{first:012d}{layout.JOURNAL}"


class Journal:
    """Appends to the journal of a folder. An incomplete last line is removed first."""

    def __init__(self, folder: str, host: int, segment: int = SEGMENT, limit: int = LIMIT) -> None:
        self._folder = folder
        self._host = host
        self._segment = segment
        self._limit = limit
        self._reserve = f"{folder}/{layout.RESERVE}"
        # The bytes of each segment by its first number; records are appended to the last one.
        self._sizes = {
            first: os.path.getsize(_path(folder, first)) for first in list_segments(folder)
        }
        self.last: Record | None = None
        self.full = not os.path.exists(self._reserve)
        """Whether the reserve is used up: the disk is full."""
        self._next = self._first = FIRST
        self._fd = -1
        self._attempt = 0
        self._lasting: list[Event] = []  # of the host, and of this attempt
        if self._sizes:
            self._resume(*self._sizes.popitem())

    def _resume(self, first: int, size: int) -> None:
        self._fd = os.open(_path(self._folder, first), os.O_RDWR | os.O_APPEND | os.O_CLOEXEC)
        data = os.pread(self._fd, size, 0)
        whole_lines = data[: data.rfind(b"\n") + 1]
        os.ftruncate(self._fd, len(whole_lines))
        self._sizes[first] = len(whole_lines)
        self._first = first
        self._next = first + whole_lines.count(b"\n")
        self.last = decode(whole_lines.rstrip(b"\n").rpartition(b"\n")[2])

    def write(self, attempt: int, events: Iterable[Event]) -> None:
        """Append the events as records of now. Raises: OSError, if the disk is full and the reserve
        used up."""
        if attempt != self._attempt:
            self._attempt = attempt
            self._lasting = [event for event in self._lasting if isinstance(event, Hello)]
        written = list(events)
        lasting = [event for event in written if isinstance(event, _LASTING)]
        needs_segment = self._fd < 0 or self._sizes[self._first] >= self._segment
        if needs_segment and self._begin_segment():
            written = self._lasting + written  # what everybody has to know was dropped
        self._lasting += lasting
        now = time.time()
        lines = []
        for event in written:
            lines.append(encode(Record(self._host, attempt, self._next, now, event)))
            self._next += 1
        self._append("".join(lines).encode(errors="replace"))

    def _append(self, data: bytes) -> None:
        self._sizes[self._first] += len(data)
        rest = memoryview(data)
        while rest:  # a disk that is almost full takes a part
            try:
                rest = rest[os.write(self._fd, rest) :]
            except OSError as error:
                if error.errno not in _FULL or self.full:
                    raise
                os.unlink(self._reserve)
                self.full = True

    def close(self) -> None:
        """Close the journal after its last record, and delete the reserve."""
        if self._fd >= 0:
            os.close(self._fd)
        if not self.full:
            os.unlink(self._reserve)

    def _begin_segment(self) -> bool:
        """Begin a new segment, and delete the oldest beyond the limit. Return True if any was
        deleted."""
        if self._fd >= 0:
            os.close(self._fd)
        # Exclusive: two agents must never write one journal, whatever became of the lock.
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC
        self._fd = os.open(_path(self._folder, self._next), flags, 0o600)
        dropped = []
        size = self._segment + sum(self._sizes.values())
        for first in self._sizes:
            if size <= self._limit:
                break
            os.unlink(_path(self._folder, first))
            size -= self._sizes[first]
            dropped.append(first)
        for first in dropped:
            del self._sizes[first]
        self._first = self._next
        self._sizes[self._first] = 0
        return bool(dropped)


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
        self._after = after
        self._segment = 0
        self._seq = 0
        self._offset = 0
        self._fd = -1

    def blocks(self) -> Iterator[bytes]:
        """Yield the lines up to now, in blocks of whole lines. Call it again when there may be
        more."""
        while True:
            # Looked up before the read: a segment with a successor does not grow.
            following = self._following()
            yield from self._rest()
            if following is None:
                return
            yield from self._enter(following)

    def _following(self) -> int | None:
        later = [first for first in list_segments(self._folder) if first > self._segment]
        # All but the last of those that begin with known records have nothing new.
        while len(later) > 1 and later[1] <= self._after + 1:
            later.pop(0)
        return later[0] if later else None

    def _enter(self, first: int) -> Iterator[bytes]:
        try:
            fd = open_regular(_path(self._folder, first))
        except FileNotFoundError:  # it was dropped since
            return
        self.close()
        last_known = max(self._seq, self._after)
        last_before = first - 1
        self._fd = fd
        self._segment = first
        self._offset = 0
        self._seq = last_before
        if last_known < last_before:
            dropped = RecordsDropped(last_known + 1, last_before)
            yield encode(Record(self._host, 0, last_before, time.time(), dropped)).encode()

    def _rest(self) -> Iterator[bytes]:
        while self._fd >= 0:
            data = os.pread(self._fd, BLOCK, self._offset)
            block = data[: data.rfind(b"\n") + 1]
            if not block:
                return
            self._offset += len(block)
            known_lines = max(0, self._after - self._seq)
            self._seq += block.count(b"\n")
            if self._seq > self._after:
                yield block.split(b"\n", known_lines)[known_lines]

    def close(self) -> None:
        """Close the descriptor of the segment."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def send_journal(folder: str, host: str, after: str) -> Iterator[bytes]:
    """Run the host command `journal FOLDER HOST AFTER`: yield the records in the journal after
    number AFTER."""
    return JournalReader(folder, int(host), int(after)).blocks()
