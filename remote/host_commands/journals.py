"""What the hosts of a run have in their journals, read without going near its agents."""

from __future__ import annotations

import heapq
import threading
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from queue import Empty, SimpleQueue

from remote.host_commands.answer_reader import read_until_end
from remote.jsonl import load
from remote.limits import LIMITS, Limits
from remote.plan.plan import Plan
from remote.sanitise import one_line
from remote.transport import Channel, HostCommand, NoProgress, Transport, Unreachable
from training.agent import WHOLE
from training.wire.events import (
    Record,
    RecordsDropped,
    decode,
)
from training.wire.line_cutter import LineCutter, LineTooLong

ROOM = 16
"""Reads of a host that wait for those of the others; beyond, its journal waits where it is."""
LOOK = 0.1
"""Seconds between two looks at whether the journals are still wanted."""
SHOWN = 100
"""Characters that are told of what is no record."""

Problem = tuple[int, str]
"""The number of a host, and why some or all of its records are missing."""


def always() -> bool:
    """The journals are wanted to their end."""
    return True


def fetch_journals(
    transport: Transport,
    plan: Plan,
    after: Mapping[int, int],
    offsets: Mapping[int, float],
    problems: list[Problem],
    wanted: Callable[[], bool] = always,
    limits: Limits = LIMITS,
) -> Generator[tuple[bytes, Record]]:
    """The lines of all hosts' journals with their records, not expanded: each host's in its order
    and after the number that is known of it, all in order of time. `offsets`: how many seconds the
    hosts' clocks are ahead.

    Why some of a host's are missing joins the `problems`. Once they are no longer `wanted`, which
    is asked all the while, only what has come already is given.
    """
    if not wanted():
        return
    readings = [
        JournalReader(transport, plan, index, after.get(index, 0), limits)
        for index in range(len(plan.hosts))
    ]
    try:
        yield from heapq.merge(
            *(one.records(problems, wanted) for one in readings),
            key=lambda found: _time(found[1], offsets),
        )
    finally:
        for one in readings:
            one.finish()


def _time(record: Record, offsets: Mapping[int, float]) -> float:
    """When it was written, by this machine's clock. `RecordsDropped` is of the moment
    in which the journal was read."""
    return (
        0.0
        if isinstance(record.event, RecordsDropped)
        else record.time - offsets.get(record.host, 0.0)
    )


class JournalReader:
    """One host's journal, as it is read by a thread of its own."""

    def __init__(
        self, transport: Transport, plan: Plan, index: int, after: int, limits: Limits
    ) -> None:
        self._index, self._host, self._limits = index, plan.hosts[index], limits
        self._errand = HostCommand(("journal", plan.folder(index), str(index), str(after)))
        self._blocks: SimpleQueue[bytes] = SimpleQueue()
        self._room = threading.Semaphore(ROOM)
        self._over = False
        self._channel: Channel | None = None
        self._why = ""
        threading.Thread(target=self._read, args=(transport,), name="journal", daemon=True).start()

    def _read(self, transport: Transport) -> None:
        try:
            self._channel = transport.open(self._host, self._errand, NoProgress())
            self._copy(self._channel)
        except Unreachable as error:
            self._why = str(error)
        except Exception as error:  # noqa: BLE001 - a mistake of ours: told, as the other journals go on
            self._why = f"rankboard itself failed: {error!r}"
        finally:
            self._blocks.put(b"")

    def _copy(self, channel: Channel) -> None:
        why = ""
        longest = self._host.timeout * self._limits.patience
        line_began = time.monotonic()
        try:
            for block in read_until_end(channel, self._host.timeout):
                came = time.monotonic()
                if b"\n" not in block and came - line_began > longest:
                    why = (
                        f"one line of its journal took more than {longest:g} s; if it is only "
                        f"slow, raise timeout in {self._host.hosts_file}"
                    )
                    break
                self._room.acquire()
                if self._over:
                    break
                self._blocks.put(block)
                taken = time.monotonic()
                line_began = taken if b"\n" in block else line_began + taken - came
        except TimeoutError:
            why = (
                f"its journal stood still for {self._host.timeout:g} s; if it is only slow, raise "
                f"timeout in {self._host.hosts_file}"
            )
        except OSError as error:
            why = f"the connection broke: {error}"
        finally:
            said = channel.close()
        self._why = why or said

    def records(
        self, problems: list[Problem], wanted: Callable[[], bool]
    ) -> Iterator[tuple[bytes, Record]]:
        """The lines that come, with their records, as long as they are wanted."""
        wrong = ""
        whole = False
        try:
            for line in self._lines(wanted):
                record = decode(line)
                if record and record.host == self._index:
                    yield line, record
                elif load(line) == WHOLE:
                    whole = True
                else:
                    wrong = wrong or _error(line)
        except LineTooLong as error:
            wrong = str(error)
        if wanted() and not whole:
            wrong = wrong or self._why or "its journal broke off"
        if wrong:
            name = f"{self._host.name}: "
            problems.append((self._index, name + wrong.removeprefix(name)))

    def _lines(self, wanted: Callable[[], bool]) -> Iterator[bytes]:
        cutter = LineCutter(self._limits.line)
        for block in self._come(wanted):
            yield from cutter.feed(block)

    def _come(self, wanted: Callable[[], bool]) -> Iterator[bytes]:
        while wanted():
            try:
                block = self._blocks.get(timeout=LOOK)
            except Empty:
                continue
            if not block:
                return
            self._room.release()
            yield block

    def finish(self) -> None:
        """Nothing more is taken. Its channel is closed in the background, since a wedged one takes
        seconds."""
        self._over = True
        self._room.release(ROOM)
        if self._channel:
            threading.Thread(target=self._channel.close, name="closing", daemon=True).start()


def _error(line: bytes) -> str:
    """What a line says that is no record of its host."""
    found = load(line) or {}
    return str(
        found.get("error")
        or f"no record of its own in its journal: {one_line(line.decode(errors='replace'))[:SHOWN]}"
    )
