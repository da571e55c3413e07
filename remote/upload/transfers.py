"""Move files between this machine and all hosts at once.

`training.agent.host_commands.file_transfer` is the other end of each conversation.
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

REPORTED = 2.0
"""Seconds between two lines on how far a transfer is."""
STALLED = 90.0
"""Seconds without a byte after which a host is given up."""
LEAST = 64 * 1024
"""Bytes of files that are to move within `Limits.busy`."""
LOOK = 0.25
"""Seconds between two looks at the transfers at most."""
CLOSING = 0.5
"""Seconds that a transfer has to end once it is stopped."""
STOPPED = "stopped before its end"

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
        data = self.channel.read()
        self.last = time.monotonic()
        return data

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
        reported: set[str] = set()
        for _ in range(self.limits.busy_lines):
            answer = self.incoming.line()
            if "error" in answer:
                raise OSError(str(answer["error"])[: self.limits.shown])
            if "busy" not in answer:
                return answer
            reason = str(answer["busy"])[: self.limits.shown]
            if reason and reason not in reported and len(reported) < self.limits.errors:
                self.report(f"waits: {printable(reason)}")
                reported.add(reason)
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
            files = f"{self.files_moved:,} of {self.files:,} files"
            self.report(f"{self.verb}: {files}, {size(self.moved)} of {size(self.size)}")
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
        """Do the work for each, all at once, and report progress. Return what went wrong, by the
        index of the host."""
        self._open = transfers
        pending = {transfer.index: transfer for transfer in transfers}
        problems: dict[int, str] = {}
        next_report = time.monotonic() + REPORTED
        give_up_at = float("inf")
        run_one = partial(self._run_one, work)
        for completed in iter_completed(run_one, list(transfers), LOOK):
            if completed:
                index, problem = completed[1]
                del pending[index]
                if problem:
                    problems[index] = problem
            now = time.monotonic()
            if now >= next_report:
                next_report = now + REPORTED
                for transfer in pending.values():
                    transfer.look()
            if self.stopped.is_set():
                give_up_at = min(give_up_at, now + CLOSING)
            if now >= give_up_at:
                break
        for index, transfer in pending.items():
            problems[index] = f"{transfer.host.name}: {STOPPED}"
        return problems

    def _run_one(self, work: Callable[[Transfer], None], transfer: Transfer) -> tuple[int, str]:
        """Do one host's work. Return its index, and what went wrong."""
        problem = ""
        try:
            work(transfer)
        except Unreachable as error:
            transfer.close()
            return transfer.index, str(error)
        except (OSError, DamagedTransfer, LookupError, TypeError, ValueError) as error:
            problem = self._explain(error, transfer)
        except Exception as error:  # noqa: BLE001 - our own mistake must not stop the others
            problem = f"rankboard itself failed: {error!r}"
        transfer.close()
        return transfer.index, f"{transfer.host.name}: {problem}" if problem else ""

    def _explain(self, error: Exception, transfer: Transfer) -> str:
        """Say what an error means, without the name of the host."""
        if self.stopped.is_set():
            return STOPPED
        if transfer.has_stalled:
            return f"nothing moved for {STALLED:.0f} s while {transfer.verb}"
        if transfer.channel and transfer.crawls:
            seconds = f"{transfer.limits.busy:.0f} s"
            return f"less than {size(LEAST)} of its files moved in {seconds} while {transfer.verb}"
        stderr = transfer.close()
        if isinstance(error, ConnectionError) and stderr:
            return printable(last_line(stderr))
        if isinstance(error, OSError):
            reason = error.strerror or str(error)
            return printable(f"{error.filename}: {error.strerror}" if error.filename else reason)
        if isinstance(error, ValueError):
            return printable(str(error))
        return printable(f"its answer is none: {error!r}")


def encode_message(**fields: Any) -> bytes:
    """Return an object as it is sent."""
    return dumps(fields).encode(errors="surrogatepass") + b"\n"
