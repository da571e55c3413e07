"""One file as it grows, is cut, is written anew, or is replaced by another one of its name."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from training.agent.file_tail.frames import Frames
from training.agent.host.redaction import Redaction
from training.agent.live_runs import open_regular
from training.agent.ranks.pipes import CHUNK, LineDecoder

EDGE = 64
"""Bytes at the beginning of a file, and before the place up to which it is read, by which it is
known whether it was written anew."""
EVENT_FILE = "tfevents"
"""What is in the name of an event file of TensorBoard."""
TABLES = (".csv", ".tsv")
"""Ends of names of files whose first line names what is in the others."""
Identity = tuple[int, int]
"""The device and the inode of a file."""
State = tuple[int, int]
"""The size of a file, and when it was written to, in nanoseconds."""


def file_identity(status: os.stat_result) -> Identity:
    """Return which file it is, whatever its name."""
    return status.st_dev, status.st_ino


def state(status: os.stat_result) -> State:
    """Return what changes with each write."""
    return status.st_size, status.st_mtime_ns


@dataclass(frozen=True)
class ReadPosition:
    """How far a file is known: `at` bytes, with these at both edges, in this `state`."""

    at: int = 0
    head: bytes = b""
    tail: bytes = b""
    state: State = (0, 0)

    def is_in(self, file: int) -> bool:
        """Return True if the file still has the bytes that were read from it."""
        tail = os.pread(file, len(self.tail), self.at - len(self.tail))
        return tail == self.tail and os.pread(file, len(self.head), 0) == self.head

    def after(self, block: bytes) -> ReadPosition:
        """Return the position behind a block that follows."""
        head = self.head if len(self.head) == EDGE else (self.head + block)[:EDGE]
        return ReadPosition(self.at + len(block), head, (self.tail + block)[-EDGE:])


def end_position(path: str) -> tuple[Identity, ReadPosition]:
    """Return which file it is, and the position of its present end. Raises: OSError."""
    file = open_regular(path)
    try:
        status = os.fstat(file)
        size = status.st_size
        before = max(0, size - EDGE)
        edges = os.pread(file, min(EDGE, size), 0), os.pread(file, size - before, before)
        return file_identity(status), ReadPosition(size, *edges, state(status))
    finally:
        os.close(file)


class TextCutter(Protocol):
    """Makes text of blocks of bytes."""

    def feed(self, block: bytes) -> str | None:
        """Return the whole lines up to now."""

    def end(self) -> str | None:
        """Return the rest; nothing more comes."""


class GrowingFile:
    """What comes in a file after a place. `has_more`: not all was read."""

    _place: ReadPosition
    _state: State

    def __init__(self, path: str, redaction: Redaction, place: ReadPosition | None = None) -> None:
        """Raises: OSError."""
        self.path = path
        self._redaction = redaction
        self._file = open_regular(path)
        self.identity = file_identity(os.fstat(self._file))
        self._begin(place or ReadPosition())
        self._lacks_header = place is not None and path.endswith(TABLES)

    @property
    def problem(self) -> str:
        """Say what is wrong with the contents, if anything."""
        return self._cutter.problem if isinstance(self._cutter, Frames) else ""

    @property
    def is_gone(self) -> bool:
        """Return True if its name leads to no file, or to another one."""
        try:
            return file_identity(os.lstat(self.path)) != self.identity
        except OSError:
            return True

    def read(self, most: int) -> Iterator[str]:
        """Yield the text that has come, in whole lines, of at most so many bytes. Raises:
        OSError."""
        present = state(os.fstat(self._file))
        if present == self._state:
            if self.path.endswith(".json") and (text := self._cutter.end()):
                yield text  # a whole document, whose last line has no newline
            return
        if not self._place.is_in(self._file):
            self._begin(ReadPosition())
        if self._lacks_header:
            yield self._header()
        while most > 0 and (block := os.pread(self._file, min(CHUNK, most), self._place.at)):
            self._place = self._place.after(block)
            most -= len(block)
            yield self._cutter.feed(block) or ""
        self.has_more = most <= 0
        if not self.has_more:
            self._state = present

    def end(self) -> str:
        """Return the last line, if it has no newline. Nothing more is read."""
        os.close(self._file)
        return self._cutter.end() or ""

    def _begin(self, place: ReadPosition) -> None:
        self._place = place
        self._state = place.state
        self.has_more = self._lacks_header = False
        is_binary = EVENT_FILE in os.path.basename(self.path)
        self._cutter: TextCutter = (
            Frames(self._redaction) if is_binary else LineDecoder(self._redaction)
        )

    def _header(self) -> str:
        """Return the first line of a table that is read from later on."""
        self._lacks_header = False
        line, newline, _ = os.pread(self._file, CHUNK, 0).partition(b"\n")
        if self._place.at <= len(line):  # it was not whole, and is read with the rest
            self._begin(ReadPosition())
            return ""
        return self._redaction.hide(line.decode(errors="replace").rstrip()) if newline else ""
