"""Conversations in which files move between this machine and hosts, with all hosts at once.

`training.agent.host_commands.file_transfer` is their other end.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from remote.cluster.hosts import Host
from remote.concurrently import iter_completed
from remote.format import size
from remote.limits import LIMITS, Limits
from remote.transport import Channel, HostCommand, NoProgress, Transport, Unreachable
from remote.transport.start_dialog import last_line
from remote.upload.sources import printable
from training.transfer.entries import FileEntry
from training.transfer.incoming import TransferReader
from training.transfer.tree import DamagedTransfer
from training.wire.jsonl import dumps

TOLD = 2.0
"""Seconds between two lines on how far a transfer is."""
STALLED = 90.0
"""Seconds without a byte after which a host is given up."""
LEAST = 64 * 1024
"""Bytes of files that are to move within `Limits.busy`."""
LOOK = 0.25
"""Seconds between two looks at the transfers at most."""
CLOSING = 0.5
"""Seconds that a transfer has to end once it is told to."""
NEVER = float("inf")

Tell = Callable[[int, str], None]
"""Takes a line of narration on host number n, or SESSION; called by several threads."""


@dataclass
class Transfer:
    """The conversation with one host. `verb` says what it does, such as `uploading`."""

    index: int
    host: Host
    verb: str
    tell: Tell
    channel: Channel | None = None
    files: int = 0
    size: int = 0
    files_moved: int = 0
    moved: int = 0
    last: float = field(default_factory=time.monotonic)
    """When something moved last, by the monotonic clock."""
    limits: Limits = LIMITS
    marked: tuple[int, float] = (0, 0.0)
    """How much of files had moved at some moment before, and when that was."""

    def open(self, transport: Transport, *words: str) -> None:
        """Start an errand there. Raises: Unreachable."""
        self.channel = transport.open(self.host, HostCommand(words), NoProgress())
        self.last = time.monotonic()
        self.marked = (0, self.last)
        self.incoming = TransferReader(self._read, self.limits.listing, self.limits.values)

    def _read(self) -> bytes:
        assert self.channel
        return self.move(self.channel.read(), counted=False)

    def say(self, **said: Any) -> None:
        """Send an object. Raises: OSError."""
        self.send(encoded(**said), counted=False)

    def send(self, data: bytes, *, counted: bool = True) -> None:
        """Send some bytes. Raises: OSError."""
        assert self.channel
        self.channel.write(data)
        self.move(data, counted=counted)

    def move(self, data: bytes, *, counted: bool = True) -> bytes:
        """Note that bytes have moved. They count where they are part of a file."""
        self.moved += len(data) if counted else 0
        self.last = time.monotonic()
        return data

    def answer(self) -> dict[str, Any]:
        """The next answer of the host. Reports what it waits for. Raises: OSError, also where the
        host reports an error."""
        told = set[str]()
        for _ in range(self.limits.busy_lines):
            answer = self.incoming.line()
            if "error" in answer:
                raise OSError(str(answer["error"])[: self.limits.shown])
            if "busy" not in answer:
                return answer
            text = str(answer["busy"])[: self.limits.shown]
            if text and text not in told and len(told) < self.limits.errors:
                self.tell(self.index, f"{self.host.name}: waits: {printable(text)}")
                told.add(text)
        raise OSError(
            f"it said {self.limits.busy_lines:,} times that it is busy, and gave no answer"
        )

    def begin(self, entries: Sequence[FileEntry]) -> None:
        """These files will move."""
        self.files, self.size = len(entries), sum(entry.size for entry in entries)

    def look(self) -> None:
        """Report the progress; give up where nothing moves."""
        if self.files and self.files_moved < self.files:
            done = (
                f"{self.files_moved:,} of {self.files:,} files, {size(self.moved)} of "
                f"{size(self.size)}"
            )
            self.tell(self.index, f"{self.host.name}: {self.verb}: {done}")
        if self.moved >= self.marked[0] + LEAST:
            self.marked = (self.moved, time.monotonic())
        if self.channel and (self.stalled or self.crawls):
            self.channel.close()

    @property
    def stalled(self) -> bool:
        """Whether nothing has moved for too long."""
        return time.monotonic() - self.last > STALLED

    @property
    def crawls(self) -> bool:
        """Whether files move too slowly to wait for."""
        return time.monotonic() - self.marked[1] > self.limits.busy

    def close(self) -> str:
        """End the conversation; returns why it broke, where that is known."""
        return self.channel.close() if self.channel else ""


class Transfers:
    """The transfers with all hosts at once. Any thread may call `stop` at any time."""

    def __init__(self) -> None:
        self.stopped = threading.Event()
        self._open: Collection[Transfer] = ()

    def stop(self) -> None:
        """End the transfers. Files that have moved stay, each of them whole."""
        self.stopped.set()
        for transfer in self._open:
            threading.Thread(target=transfer.close, name="leaving", daemon=True).start()

    def perform(
        self, transfers: Collection[Transfer], work: Callable[[Transfer], None]
    ) -> dict[int, str]:
        """Do the work for each, all at once, and report progress; what went wrong, by host."""
        self._open = transfers
        left = {transfer.index: transfer for transfer in transfers}
        problems: dict[int, str] = {}
        next_look = time.monotonic() + TOLD
        give_up = NEVER
        for ended in iter_completed(partial(self._one, work), list(transfers), LOOK):
            if ended:
                index, problem = ended[1]
                left.pop(index)
                problems |= {index: problem} if problem else {}
            now = time.monotonic()
            if now >= next_look:
                next_look = now + TOLD
                for transfer in left.values():
                    transfer.look()
            if self.stopped.is_set():
                give_up = min(give_up, now + CLOSING)
            if now >= give_up:
                break
        return problems | {
            index: f"{transfer.host.name}: {_STOPPED}" for index, transfer in left.items()
        }

    def _one(self, work: Callable[[Transfer], None], transfer: Transfer) -> tuple[int, str]:
        """Do one host's work; its number, and what went wrong."""
        try:
            problem = self._outcome(transfer, work)
        except Exception as error:  # noqa: BLE001 - our own mistake must not stop the others
            problem = f"rankboard itself failed: {error!r}"
        transfer.close()
        return transfer.index, f"{transfer.host.name}: {problem}" if problem else ""

    def _outcome(self, transfer: Transfer, work: Callable[[Transfer], None]) -> str:
        """Do one host's work; what went wrong with it."""
        try:
            work(transfer)
        except Unreachable as error:
            return str(error).removeprefix(f"{transfer.host.name}: ")
        except (OSError, DamagedTransfer, LookupError, TypeError, ValueError) as error:
            if self.stopped.is_set():
                return _STOPPED
            if transfer.stalled:
                return f"nothing moved for {STALLED:.0f} s while {transfer.verb}"
            if transfer.channel and transfer.crawls:
                return (
                    f"less than {size(LEAST)} of its files moved in "
                    f"{transfer.limits.busy:.0f} s while {transfer.verb}"
                )
            return _why(error, transfer.close())
        return ""


def encoded(**said: Any) -> bytes:
    """An object as it is sent."""
    return dumps(said).encode(errors="surrogatepass") + b"\n"


_STOPPED = "stopped before its end"


def _why(error: Exception, said: str) -> str:
    """What an error means; `said` is what the far end printed on stderr."""
    if isinstance(error, ConnectionError) and said:
        return printable(last_line(said))
    if isinstance(error, OSError):
        return printable(
            f"{error.filename}: {error.strerror}"
            if error.filename
            else error.strerror or str(error)
        )
    return printable(
        str(error) if isinstance(error, ValueError) else f"its answer is none: {error!r}"
    )
