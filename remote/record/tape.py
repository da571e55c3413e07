"""A recorded run at any of its times: forwards record by record, backwards from the nearest copy of
its state."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple

from remote.events import decode
from remote.plan.plan import Plan
from remote.record import files
from remote.record.layout import EVENTS
from remote.record.read import RunFolderError, Sieve
from remote.run.state import RunState
from training.wire.events import Record

COPIES = 64
"""Copies of the state that are kept of a run, and so the parts of it that jumping back re-reads."""
MEMORY = 256 << 20
"""Bytes of copies that are kept: of more, every second one goes."""
APART = 1 << 20
"""Bytes of records between two copies, at the least."""
TAIL = 1 << 18
"""Bytes at the end of the records, which hold the last ones."""
LARGE = 8 << 20
"""Bytes of records beyond which `overview` is much faster than reading all."""
STEPS = 4_000
"""About how many of the steps `overview` takes in: which is a fraction of a second."""
WHOLE = 500
"""Steps at the beginning that `overview` takes in without a gap; at the end those in `TAIL`."""
LINE = 600
"""About how many bytes the record of a step takes."""
STEP = rb"\"event\":\"step\""
"""What a line that tells of a step holds, and hardly any other."""


class Copy(NamedTuple):
    """The state of a run after `offset` bytes of its records, pickled by this process."""

    now: float
    offset: int
    state: bytes


class Tape:
    """The records of a run, and `state` as it was at the time up to which they have been taken in.

    Times are by the session's clock. Nothing is locked: one thread at a time.
    """

    def __init__(self, folder: Path, plan: Plan) -> None:
        """Raises: RunFolderError, where there are no records."""
        self.plan, self._folder = plan, folder
        self._file = _opened(folder)
        self._size = folder.joinpath(EVENTS).stat().st_size
        self._copies: list[Copy] = []
        self._apart = max(APART, self._size // COPIES)
        self._begin()

    def _begin(self) -> None:
        self.state = RunState(self.plan)
        self._sieve = Sieve(self._folder.name, len(self.plan.hosts))
        self._offset = 0
        self._next: list[Record] = []
        self._file.seek(0)

    @property
    def share(self) -> float:
        """How much of the records has been taken in, from 0 to 1."""
        return min(1.0, self._offset / self._size) if self._size else 1.0

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def advance(self, until: float, lines: int) -> bool:
        """Take in the next records up to a time, at most so many lines. Returns whether there are
        more up to that time. Raises: OtherFormat."""
        for _ in range(lines):
            self._next = self._next or self._read()
            if not self._next or self._when(self._next[0]) > until:
                return False
            for record in self._next:
                self.state.apply(record)
            self._next = []
            self._keep_copy()
        return True

    def rewind(self, when: float) -> None:
        """Go back to a known time at or before `when`; `state` is another one then."""
        self._begin()
        copy = next((one for one in reversed(self._copies) if one.now <= when), None)
        if copy:
            self.state = pickle.loads(copy.state)
            self._offset = copy.offset
            self._file.seek(copy.offset)

    def _read(self) -> list[Record]:
        """The records of the next line that has some; none at the end."""
        while line := self._file.readline():
            if not line.endswith(b"\n"):  # it is just being written
                self._file.seek(self._offset)
                return []
            self._offset += len(line)
            if records := list(self._sieve.records([line])):
                return records
        return []

    def _when(self, record: Record) -> float:
        host = self.state.host(record.host)
        return record.time - host.offset if host else record.time

    def _keep_copy(self) -> None:
        """Keep a copy of the state, if the last one is far behind."""
        newest = self._copies[-1].offset if self._copies else 0
        if self._offset - newest < self._apart:
            return
        data = pickle.dumps(self.state, pickle.HIGHEST_PROTOCOL)
        self._copies.append(Copy(self.state.now, self._offset, data))
        if sum(len(copy.state) for copy in self._copies) > MEMORY:  # the state of many ranks
            del self._copies[::2]
            self._apart *= 2


def span(folder: Path) -> tuple[float, float]:
    """The times of the first and last record. Raises: RunFolderError, where there are none."""
    with _opened(folder) as file:
        first = next(filter(None, map(decode, file)), None)
        if first is None:
            raise RunFolderError(f"{folder} holds no run: {EVENTS} has no records")
        file.seek(max(0, file.seek(0, 2) - TAIL))
        times = [record.time for record in map(decode, file.read().split(b"\n")) if record]
    return first.time, max([first.time, *times[-1:]])


def overview(folder: Path, plan: Plan) -> RunState:
    """The last state of a run with very many steps as it would be if it had made fewer: its curves
    have the same course, and what its launchers, hosts and ranks say beside steps is all there.

    Raises: OtherFormat; RunFolderError.
    """
    state, sieve = RunState(plan), Sieve(folder.name, len(plan.hosts))
    for record in sieve.records(_thinned(folder, plan.world_size)):
        state.apply(record)
    return state


def is_large(folder: Path) -> bool:
    """Whether a run has so many records that reading all takes long."""
    return (folder / EVENTS).stat().st_size > LARGE


def _thinned(folder: Path, ranks: int) -> Iterator[bytes]:
    """The lines of the records, without most steps in the middle. What is left of these are a few
    of all ranks at a time, as ranks wait for each other."""
    group, number, offset = 4 * ranks, 0, 0
    with _opened(folder) as file:
        size = file.seek(0, 2)
        stride = max(1, size // (STEPS * LINE))
        file.seek(0)
        for line in file:
            offset += len(line)
            if STEP not in line:
                yield line
                continue
            number += 1
            if number <= WHOLE or offset > size - TAIL or number // group % stride == 0:
                yield line


def _opened(folder: Path) -> BinaryIO:
    try:
        return files.opened(folder / EVENTS)
    except OSError as error:
        raise RunFolderError(f"{folder} holds no run: {EVENTS}: {error.strerror}") from error
