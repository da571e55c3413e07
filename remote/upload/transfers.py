"""Move files between this machine and all hosts at once.

`training.agent.host_commands.file_transfer` is the other end of each conversation.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from remote.cluster.hosts import Host
from remote.format import size
from remote.limits import LIMITS, Limits
from remote.transport import Channel, HostCommand, NoProgress, Transport
from remote.upload.sources import printable
from training.transfer.entries import FileEntry
from training.transfer.incoming import TransferReader
from training.wire.jsonl import dumps

STALLED = 90.0
"""Seconds without a byte after which a host is given up."""
LEAST = 64 * 1024
"""Bytes of files that are to move within `Limits.busy`."""

Tell = Callable[[int, str], None]
"""Takes a line of narration on the host with this index, or SESSION. Several threads call it."""


@dataclass
class Transfer:
    """The conversation with one host."""

    index: int
    host: Host
    verb: str
    """What it does, such as `uploading`."""
    tell: Tell
    channel: Channel | None = None
    offered: int = 0
    """Files that the host has for us."""
    files: int = 0
    size: int = 0
    files_moved: int = 0
    moved: int = 0
    """Bytes of files that have moved."""
    last: float = field(default_factory=time.monotonic)
    """When something moved last, by the monotonic clock."""
    limits: Limits = LIMITS
    marked: tuple[int, float] = (0, 0.0)
    """How many bytes of files had moved at some moment before, and when that was."""

    def open(self, transport: Transport, *words: str) -> None:
        """Start a command there. Raises: Unreachable."""
        self.channel = transport.open(self.host, HostCommand(words), NoProgress())
        self.last = time.monotonic()
        self.marked = (0, self.last)
        self.incoming = TransferReader(self._read, self.limits.listing, self.limits.values)

    def _read(self) -> bytes:
        assert self.channel
        new_bytes = self.channel.read()
        self.last = time.monotonic()
        return new_bytes

    def send_message(self, **fields: Any) -> None:
        """Send an object. Raises: OSError."""
        self.send(encode_message(**fields), is_file=False)

    def send(self, data: bytes, *, is_file: bool = True) -> None:
        """Send bytes, of a file or of a message. Raises: OSError."""
        assert self.channel
        self.channel.write(data)
        self.last = time.monotonic()
        if is_file:
            self.moved += len(data)

    def answer(self) -> dict[str, Any]:
        """Return the next answer of the host. Report what it waits for. Raises: OSError, also if
        the host reports an error."""
        reported_reasons: set[str] = set()
        for _ in range(self.limits.busy_lines):
            host_answer = self.incoming.line()
            if "error" in host_answer:
                raise OSError(str(host_answer["error"])[: self.limits.shown])
            if "busy" not in host_answer:
                return host_answer
            busy_reason = str(host_answer["busy"])[: self.limits.shown]
            if (
                busy_reason
                and busy_reason not in reported_reasons
                and len(reported_reasons) < self.limits.errors
            ):
                self.report(f"waits: {printable(busy_reason)}")
                reported_reasons.add(busy_reason)
        raise OSError(
            f"it said {self.limits.busy_lines:,} times that it is busy, and gave no answer"
        )

    def begin(self, entries: Sequence[FileEntry]) -> None:
        """Note that these files will move."""
        self.files = len(entries)
        self.size = sum(entry.size for entry in entries)

    def report(self, text: str) -> None:
        """Narrate something of this host."""
        self.tell(self.index, f"{self.host.name}: {text}")

    def look(self) -> None:
        """Report the progress; give up if nothing moves."""
        if self.files_moved < self.files:
            files_text = f"{self.files_moved:,} of {self.files:,} files"
            self.report(f"{self.verb}: {files_text}, {size(self.moved)} of {size(self.size)}")
        # A trickle of bytes keeps a connection from being silent, but never ends.
        if self.moved >= self.marked[0] + LEAST:
            self.marked = (self.moved, time.monotonic())
        if self.channel and (self.has_stalled or self.crawls):
            self.channel.close()

    @property
    def has_stalled(self) -> bool:
        """True if nothing has moved for too long."""
        return time.monotonic() - self.last > STALLED

    @property
    def crawls(self) -> bool:
        """True if files move too slowly to wait for."""
        return time.monotonic() - self.marked[1] > self.limits.busy

    def close(self) -> str:
        """End the conversation. Return why it broke, if that is known."""
        return self.channel.close() if self.channel else ""


def encode_message(**fields: Any) -> bytes:
    """Return an object as it is sent."""
    return dumps(fields).encode(errors="surrogatepass") + b"\n"
