"""Cuts a stream of bytes into lines, in time that is linear in the bytes and in bounded memory.
Imports little."""

from __future__ import annotations

import sys


class LineTooLong(Exception):
    """The other end has sent a line beyond the limit. The text says so, and fits behind the name of
    a host."""

    def __init__(self, longest: int) -> None:
        super().__init__(f"it sent a line longer than {longest:,} bytes")


class LineCutter:
    """Takes bytes in pieces of any size and gives whole lines. A line ends with a newline and with
    nothing else."""

    def __init__(self, longest: int = sys.maxsize) -> None:
        """`longest`: bytes that one line may have, without its newline."""
        self._longest = longest
        self._rest = bytearray()

    def feed(self, block: bytes) -> list[bytes]:
        """The lines that this block completes, each with its newline. Raises: LineTooLong."""
        whole, newline, rest = block.rpartition(b"\n")
        self._rest += whole
        lines: list[bytes] = []
        if newline:
            lines = [line + newline for line in bytes(self._rest).split(b"\n")]
            self._rest = bytearray(rest)
        else:
            self._rest += rest
        if len(self._rest) > self._longest or any(len(line) > self._longest + 1 for line in lines):
            raise LineTooLong(self._longest)
        return lines

    @property
    def rest(self) -> bytes:
        """The bytes of the last line, which has no newline yet."""
        return bytes(self._rest)
