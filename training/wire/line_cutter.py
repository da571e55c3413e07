"""Cuts a stream of bytes into lines, in time that is linear in the bytes and in bounded memory.
Imports little."""

from __future__ import annotations

import os
import sys


class LineTooLong(Exception):
    """The other end has sent a line beyond the limit of `longest` bytes."""

    def __init__(self, longest: int) -> None:
        super().__init__(f"it sent a line longer than {longest:,} bytes")


class LineCutter:
    """Takes bytes in pieces of any size and gives whole lines. A line ends with a newline and with
    nothing else."""

    def __init__(self, longest: int = sys.maxsize) -> None:
        """Cut lines of at most `longest` bytes, without their newlines."""
        self._longest = longest
        # It grows in place. Bytes would be copied as a whole for each further block of a long line.
        self._rest = bytearray()

    def feed(self, block: bytes) -> list[bytes]:
        """Return the lines that this block completes, each with its newline. Raises:
        LineTooLong."""
        whole, newline, rest = block.rpartition(b"\n")
        self._rest += whole
        lines: list[bytes] = []
        if newline:
            # Not by splitlines, for which a carriage return ends a line too: that of a progress bar
            # does not.
            lines = [line + newline for line in bytes(self._rest).split(b"\n")]
            self._rest = bytearray(rest)
        else:
            self._rest += rest
        # The lines have their newlines here, which `longest` does not count.
        if len(self._rest) > self._longest or any(len(line) > self._longest + 1 for line in lines):
            raise LineTooLong(self._longest)
        return lines

    @property
    def rest(self) -> bytes:
        """Return the bytes of the last line, which has no newline yet."""
        return bytes(self._rest)


def read_line(descriptor: int) -> bytes:
    """Read the next line; b"" at the end. Its last line may lack a newline."""
    line = b""
    while not line.endswith(b"\n"):
        byte = os.read(descriptor, 1)  # no byte more: the rest is for whoever reads next
        if not byte:
            break
        line += byte
    return line
