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

    def is_in(self, descriptor: int) -> bool:
        """Return True if the file still has the bytes that were read from it."""
        tail = os.pread(descriptor, len(self.tail), self.at - len(self.tail))
        return tail == self.tail and os.pread(descriptor, len(self.head), 0) == self.head

    def after(self, block: bytes) -> ReadPosition:
        """Return the position behind a block that follows."""
        head = self.head if len(self.head) == EDGE else (self.head + block)[:EDGE]
        return ReadPosition(self.at + len(block), head, (self.tail + block)[-EDGE:])


def end_position(path: str) -> tuple[Identity, ReadPosition]:
    """Return which file it is, and the position of its present end. Raises: OSError."""
    descriptor = open_regular(path)
    try:
        status = os.fstat(descriptor)
        size = status.st_size
        tail_start = max(0, size - EDGE)
        edge_blocks = (
            os.pread(descriptor, min(EDGE, size), 0),
            os.pread(descriptor, size - tail_start, tail_start),
        )
        return file_identity(status), ReadPosition(size, *edge_blocks, state(status))
    finally:
        os.close(descriptor)


class TextCutter(Protocol):
    """Makes text of blocks of bytes."""

    def feed(self, block: bytes) -> str | None:
        """Return the whole lines up to now."""

    def end(self) -> str | None:
        """Return the rest; nothing more comes."""


class GrowingFile:
    """What comes in a file after a place. `has_more`: not all was read."""

    _read_position: ReadPosition
    _state: State

    def __init__(
        self, path: str, redaction: Redaction, read_position: ReadPosition | None = None
    ) -> None:
        """Raises: OSError."""
        self.path = path
        self._redaction = redaction
        self._descriptor = open_regular(path)
        self.identity = file_identity(os.fstat(self._descriptor))
        self._begin_at(read_position or ReadPosition())
        self._lacks_header = read_position is not None and path.endswith(TABLES)

    @property
    def problem(self) -> str:
        """Say what is wrong with the contents, if anything."""
        return self._text_cutter.problem if isinstance(self._text_cutter, Frames) else ""

    @property
    def is_gone(self) -> bool:
        """Return True if its name leads to no file, or to another one."""
        try:
            return file_identity(os.lstat(self.path)) != self.identity
        except OSError:
            return True

    def read(self, most_bytes: int) -> Iterator[str]:
        """Yield the text that has come, in whole lines, of at most so many bytes. Raises:
        OSError."""
        # Before the read: what is written meanwhile changes the state, and is read the next time.
        present_state = state(os.fstat(self._descriptor))
        if present_state == self._state:
            if self.path.endswith(".json") and (text := self._text_cutter.end()):
                yield text  # a whole document, whose last line has no newline
            return
        # Cut or written anew in place: the inode is the same, but all of it is new.
        if not self._read_position.is_in(self._descriptor):
            self._begin_at(ReadPosition())
        if self._lacks_header:
            yield self._read_header()
        while most_bytes > 0 and (
            block := os.pread(self._descriptor, min(CHUNK, most_bytes), self._read_position.at)
        ):
            self._read_position = self._read_position.after(block)
            most_bytes -= len(block)
            yield self._text_cutter.feed(block) or ""
        self.has_more = most_bytes <= 0
        if not self.has_more:
            self._state = present_state

    def end(self) -> str:
        """Return the last line, if it has no newline. Nothing more is read."""
        os.close(self._descriptor)
        return self._text_cutter.end() or ""

    def _begin_at(self, read_position: ReadPosition) -> None:
        self._read_position = read_position
        self._state = read_position.state
        self.has_more = self._lacks_header = False
        is_binary = EVENT_FILE in os.path.basename(self.path)
        self._text_cutter: TextCutter = (
            Frames(self._redaction) if is_binary else LineDecoder(self._redaction)
        )

    def _read_header(self) -> str:
        """Return the first line of a table that is read from later on."""
        self._lacks_header = False
        line, newline, _ = os.pread(self._descriptor, CHUNK, 0).partition(b"\n")
        if self._read_position.at <= len(line):  # it was not whole, and is read with the rest
            self._begin_at(ReadPosition())
            return ""
        return self._redaction.hide(line.decode(errors="replace").rstrip()) if newline else ""
