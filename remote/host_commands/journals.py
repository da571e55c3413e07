"""Read what the hosts of a run have in their journals, without going near its agents."""

from __future__ import annotations

import heapq
import threading
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from queue import Empty, SimpleQueue

from remote.cluster.hosts import Host
from remote.events import decode_from_host
from remote.host_commands.answer_reader import read_until_end
from remote.jsonl import load
from remote.limits import LIMITS, Limits
from remote.plan.plan import Plan
from remote.sanitise import one_line
from remote.transport import Channel, HostCommand, NoProgress, Transport, Unreachable
from training.agent import WHOLE
from training.wire.events import Record
from training.wire.host_events import RecordsDropped
from training.wire.line_cutter import LineCutter, LineTooLong

MOST_BLOCKS = 16
"""Blocks of a host that wait for those of the others. Beyond, its journal waits where it is."""
LOOK = 0.1
"""Seconds between two looks at whether the journals are still wanted."""
SHOWN = 100
"""Characters that a message shows of a line that is no record."""

Problem = tuple[int, str]
"""The index of a host, and why some or all of its records are missing."""


def always() -> bool:
    """Return True: the journals are wanted to their end."""
    return True


def fetch_journals(
    transport: Transport,
    plan: Plan,
    known_seqs: Mapping[int, int],
    clock_offsets: Mapping[int, float],
    problems: list[Problem],
    is_wanted: Callable[[], bool] = always,
    limits: Limits = LIMITS,
) -> Generator[tuple[bytes, Record]]:
    """Yield the lines of all hosts' journals with their records, not expanded, in order of time.

    `known_seqs` is the last record number that is known of each host; those of one host stay in
    their order. `clock_offsets`: how many seconds the hosts' clocks are ahead. Why records of a
    host are missing joins the `problems`. `is_wanted` is asked all the while; once it is False,
    only what has come already is given.
    """
    if not is_wanted():
        return
    readers = [
        JournalReader(transport, plan, index, known_seqs.get(index, 0), limits)
        for index in range(len(plan.hosts))
    ]

    def written_at(journal_item: tuple[bytes, Record]) -> float:
        """Return when a record was written, by this machine's clock."""
        record = journal_item[1]
        if isinstance(record.event, RecordsDropped):
            return 0.0  # its time is that of this reading, and it is to hold up nothing
        return record.time - clock_offsets.get(record.host, 0.0)

    try:
        record_streams = [reader.records(problems, is_wanted) for reader in readers]
        # Lazily, since the journals of a long run may not fit into memory.
        yield from heapq.merge(*record_streams, key=written_at)
    finally:
        for reader in readers:
            reader.finish()


class JournalReader:
    """Reads one host's journal in a thread of its own."""

    def __init__(
        self, transport: Transport, plan: Plan, host_index: int, known_seq: int, limits: Limits
    ) -> None:
        self._transport = transport
        self._index = host_index
        self._host: Host = plan.hosts[host_index]
        self._limits = limits
        self._command = HostCommand(
            ("journal", plan.folder(host_index), str(host_index), str(known_seq))
        )
        self._blocks: SimpleQueue[bytes] = SimpleQueue()
        self._room = threading.Semaphore(MOST_BLOCKS)
        self._is_over = False
        self._channel: Channel | None = None
        self._failure = ""
        """Why the journal cannot be read to its end. It begins with the name of the host."""
        threading.Thread(target=self._read, name="journal", daemon=True).start()

    def _read(self) -> None:
        try:
            self._channel = self._transport.open(self._host, self._command, NoProgress())
            reason = self._copy(self._channel)
            if reason:
                self._fail(reason)
        except Unreachable as error:
            self._failure = str(error)
        except Exception as error:  # noqa: BLE001 - the other journals go on after a mistake of ours
            self._fail(f"rankboard itself failed: {error!r}")
        finally:
            self._blocks.put(b"")

    def _fail(self, failure_reason: str) -> None:
        self._failure = f"{self._host.name}: {failure_reason}"

    def _copy(self, channel: Channel) -> str:
        """Copy the journal to the queue. Return why it may have ended early."""
        end_reason = ""
        silence_limit = self._host.timeout
        slow_advice = f"if it is only slow, raise timeout in {self._host.hosts_file}"
        try:
            if self._copy_blocks(channel):
                line_limit = silence_limit * self._limits.patience
                end_reason = (
                    f"one line of its journal took more than {line_limit:g} s; {slow_advice}"
                )
        except TimeoutError:
            end_reason = f"its journal stood still for {silence_limit:g} s; {slow_advice}"
        except OSError as error:
            end_reason = f"the connection broke: {error}"
        finally:
            stderr = channel.close()
        return end_reason or stderr

    def _copy_blocks(self, channel: Channel) -> bool:
        """Copy blocks until the end. Return True if a line took too long to come."""
        line_limit = self._host.timeout * self._limits.patience
        line_began = time.monotonic()
        for block in read_until_end(channel, self._host.timeout):
            came_at = time.monotonic()
            has_line = b"\n" in block
            # A host that sends a byte now and then would never be silent for its timeout.
            if not has_line and came_at - line_began > line_limit:
                return True
            self._room.acquire()
            if self._is_over:
                break
            self._blocks.put(block)
            # the time that we waited for room does not count against the host
            line_began = time.monotonic() if has_line else line_began + time.monotonic() - came_at
        return False

    def records(
        self, problems: list[Problem], is_wanted: Callable[[], bool]
    ) -> Iterator[tuple[bytes, Record]]:
        """Yield the lines that come, with their records, as long as they are wanted."""
        problem_text = ""
        is_whole = False
        try:
            for line in self._lines(is_wanted):
                record = decode_from_host(line)
                if record and record.host == self._index:
                    yield line, record
                elif load(line) == WHOLE:
                    is_whole = True
                else:
                    problem_text = problem_text or f"{self._host.name}: {_explain_line(line)}"
        except LineTooLong as error:
            problem_text = f"{self._host.name}: {error}"
        # Who wants no more also gets no end, which is no fault of the host.
        if not problem_text and is_wanted() and not is_whole:
            problem_text = self._failure or f"{self._host.name}: its journal broke off"
        if problem_text:
            problems.append((self._index, problem_text))

    def _lines(self, is_wanted: Callable[[], bool]) -> Iterator[bytes]:
        line_cutter = LineCutter(self._limits.line)
        while is_wanted():
            try:
                block = self._blocks.get(timeout=LOOK)
            except Empty:
                continue
            if not block:
                return
            self._room.release()
            yield from line_cutter.feed(block)

    def finish(self) -> None:
        """Take nothing more. The channel is closed in the background, as a wedged one takes
        seconds."""
        self._is_over = True
        # The reading thread may be waiting for room; it then sees that all is over.
        self._room.release(MOST_BLOCKS)
        if self._channel:
            threading.Thread(target=self._channel.close, name="closing", daemon=True).start()


def _explain_line(line: bytes) -> str:
    """Say what a line means that is no record of its host: an error that the host reports, or
    nothing that belongs into a journal."""
    reported_error = (load(line) or {}).get("error")
    if reported_error:
        return str(reported_error)
    line_text = one_line(line.decode(errors="replace"))
    return f"no record of its own in its journal: {line_text[:SHOWN]}"
