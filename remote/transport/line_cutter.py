"""Cuts what a host sends into lines, in time that is linear in the bytes and in memory that a host
cannot exhaust."""

from __future__ import annotations

from remote.format import size
from remote.limits import LIMITS


class LineTooLong(Exception):
    """A host has sent a line beyond the limit. The text says so, and fits behind the host's
    name."""

    def __init__(self, longest: int) -> None:
        super().__init__(f"it sent a line longer than {size(longest)}")


class LineCutter:
    """Takes bytes in pieces of any size and gives whole lines. A line ends with a newline and with
    nothing else."""

    def __init__(self, longest: int = LIMITS.line) -> None:
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
        """What has come of a line whose newline has not."""
        return bytes(self._rest)
