"""The journal: every record of a host's agent, on its disk before anybody sees it.

The folder holds segments of whole lines, each named by the sequence number of its first record.
Numbers start at 1 and have no gap. When all segments together exceed the limit the oldest is
deleted, and a reader meets `Dropped` in its place. A reserve file is given up when the disk is
full, so that the last records can be written.
"""

from __future__ import annotations

import errno
import os
import time
from collections import deque
from collections.abc import Iterable, Iterator, Sequence

from training.agent import layout
from training.agent.errands.live_runs import regular
from training.wire.events import FIRST, Dropped, Event, Record, decode, encode, other_format
from training.wire.format import FORMAT
from training.wire.jsonl import load

SEGMENT = 16 << 20
LIMIT = 1 << 30
RESERVE = 1 << 20
BLOCK = 1 << 20
"""Bytes of one read; no record is longer (a `Text` of 128 KiB with every byte escaped is not)."""

_FULL = (errno.ENOSPC, errno.EDQUOT)


def segments(folder: str) -> list[int]:
    """The first sequence number of each segment, in order."""
    return sorted(
        int(name.removesuffix(layout.JOURNAL))
        for name in os.listdir(folder)
        if name.endswith(layout.JOURNAL)
    )


def recorded_format(folder: str) -> int:
    """The format of a folder's journal, by its first record; FORMAT where that was dropped, or
    there is none. Raises: OSError."""
    if segments(folder)[:1] != [FIRST]:
        return FORMAT
    with open(regular(_path(folder, FIRST)), "rb") as file:
        number = other_format(load(file.readline(BLOCK)) or {})
    return FORMAT if number is None else number


def reserve(folder: str) -> None:
    """Take the reserve. Raises: OSError, where the disk has not even that."""
    with open(os.path.join(folder, layout.RESERVE), "wb") as file:
        file.write(bytes(RESERVE))


def _path(folder: str, first: int) -> str:
    return os.path.join(folder, f"{first:012d}{layout.JOURNAL}")


class Journal:
    """The writing end; goes on where the folder's journal stops, without a last line that was cut
    short."""

    def __init__(self, folder: str, host: int, segment: int = SEGMENT, limit: int = LIMIT) -> None:
        self._folder, self._host, self._segment, self._limit = folder, host, segment, limit
        self._sizes = deque(
            (first, os.path.getsize(_path(folder, first))) for first in segments(folder)
        )
        self.last: Record | None = None
        self.full = not os.path.exists(os.path.join(folder, layout.RESERVE))
        """Whether the reserve had to be given up."""
        self._next, self._fd, self._size = 1, -1, segment
        if self._sizes:
            self._resume(*self._sizes.pop())

    def _resume(self, first: int, size: int) -> None:
        self._fd = os.open(_path(self._folder, first), os.O_RDWR | os.O_APPEND | os.O_CLOEXEC)
        data = os.pread(self._fd, size, 0)
        self._size = data.rfind(b"\n") + 1
        os.ftruncate(self._fd, self._size)
        self._first, self._next = first, first + data.count(b"\n")
        self.last = decode(data[: self._size].rstrip(b"\n").rpartition(b"\n")[2])

    def write(self, attempt: int, events: Iterable[Event]) -> None:
        """Append the events as records of now. Raises: OSError, when the disk is full and the
        reserve used up."""
        if self._size >= self._segment:
            self._turn()
        now = time.time()
        records = [
            Record(self._host, attempt, seq, now, event)
            for seq, event in enumerate(events, self._next)
        ]
        data = memoryview("".join(map(encode, records)).encode(errors="replace"))
        self._next += len(records)
        self._size += len(data)
        while data:
            try:
                data = data[os.write(self._fd, data) :]
            except OSError as error:
                if error.errno not in _FULL or self.full:
                    raise
                os.unlink(os.path.join(self._folder, layout.RESERVE))
                self.full = True

    def close(self) -> None:
        """Nothing more comes: give the reserve back."""
        if self._fd >= 0:
            os.close(self._fd)
        if not self.full:
            os.unlink(os.path.join(self._folder, layout.RESERVE))

    def _turn(self) -> None:
        """Begin a new segment, and delete the oldest ones beyond the limit."""
        if self._fd >= 0:
            os.close(self._fd)
            self._sizes.append((self._first, self._size))
        self._first, self._size = self._next, 0
        self._fd = os.open(
            _path(self._folder, self._first),
            os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC,
            0o600,
        )
        while self._sizes and sum(size for _, size in self._sizes) + self._segment > self._limit:
            os.unlink(_path(self._folder, self._sizes.popleft()[0]))


class Reader:
    """The reading end: the lines of the records after number `after`, those that are still to come
    included."""

    def __init__(self, folder: str, host: int, after: int) -> None:
        self._folder, self._host, self._after = folder, host, after
        self._segment = self._seq = self._offset = 0
        self._fd = -1

    def blocks(self) -> Iterator[bytes]:
        """All that is there now, in blocks of whole lines; to be called again when there may be
        more."""
        while True:
            following = (
                self._following()
            )  # looked up before the read: a segment that has a successor grows no more
            yield from self._rest()
            if following is None:
                return
            yield from self._enter(following)

    def _following(self) -> int | None:
        later = [first for first in segments(self._folder) if first > self._segment]
        below = [first for first in later if first <= self._after + 1]
        return below[-1] if below else later[0] if later else None

    def _enter(self, first: int) -> Iterator[bytes]:
        try:
            fd = regular(_path(self._folder, first))
        except FileNotFoundError:  # dropped since it was listed
            return
        self.close()
        known = max(self._seq, self._after)
        self._fd, self._segment, self._offset, self._seq = fd, first, 0, first - 1
        if known < first - 1:
            yield encode(
                Record(self._host, 0, first - 1, time.time(), Dropped(known + 1, first - 1))
            ).encode()

    def _rest(self) -> Iterator[bytes]:
        while self._fd >= 0 and (block := self._block()):
            known, self._seq = self._after - self._seq, self._seq + block.count(b"\n")
            if self._seq > self._after:
                yield _without_first(block, known)

    def _block(self) -> bytes:
        data = os.pread(self._fd, BLOCK, self._offset)
        data = data[: data.rfind(b"\n") + 1]
        self._offset += len(data)
        return data

    def close(self) -> None:
        """Give the segment's descriptor back."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def kept(arguments: Sequence[str]) -> Iterator[bytes]:
    """The errand `journal FOLDER HOST AFTER`: the records of the host's agent after number AFTER,
    as far as they are there."""
    folder, host, after = arguments
    yield from Reader(os.path.abspath(os.path.expanduser(folder)), int(host), int(after)).blocks()


def _without_first(block: bytes, lines: int) -> bytes:
    start = 0
    for _ in range(lines):
        start = block.index(b"\n", start) + 1
    return block[start:]
