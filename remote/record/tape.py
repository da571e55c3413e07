"""A recorded run at any of its times: forwards record by record, backwards from the nearest copy of
its state."""

from __future__ import annotations

import os
import pickle
import re
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple

from remote.limits import LIMITS
from remote.plan.plan import Plan
from remote.record import files
from remote.record.follow import Tail
from remote.record.layout import EVENTS
from remote.record.read import RunFolderError, Sieve
from remote.run.apply import apply_record
from remote.run.output.script_readings import Expand, expander
from remote.run.run_state import RunState
from training.wire.events import Record

COPIES = 64
"""Copies of the state that are kept of a run, and so the parts of it that jumping back re-reads."""
MEMORY = 256 << 20
"""Bytes of copies that are kept: of more, every second one goes."""
APART = 1 << 20
"""Bytes of records between two copies, at the least."""
LARGE = 8 << 20
"""Bytes of records beyond which `overview` is much faster than reading all."""
WHOLE = 1 << 18
"""Bytes at the beginning and at the end that `overview` takes in without a gap."""
STEPS = 4_000
PLACES = 16
"""About how many of the other steps it takes in, and at how many places at the least."""
BLOCK = 1 << 16
"""Bytes that it looks at at once."""
NEWS = re.compile(rb'"event\\?":\\?"(?!step|text|hostsample|ranksample|gpusample)')
"""What a line holds that tells of more than steps and samples. It is far faster than to decode the
line."""


class Copy(NamedTuple):
    """The state of a run after `offset` bytes of its records, with what takes those behind apart,
    pickled by this process."""

    now: float
    offset: int
    state: bytes


class Tape:
    """The records of a run, and `state` as it was at the time up to which they have been taken in.

    Times are by the session's clock. Nothing is locked: one thread at a time.
    """

    def __init__(self, folder: Path, plan: Plan, *, rewinds: bool = True) -> None:
        """`rewinds`: one goes back, for which copies of the state are kept."""
        self.plan = plan
        self._tail = Tail(folder, len(plan.hosts))
        self._rewinds = rewinds
        self._begin()

    def _begin(self) -> None:
        self._size = self._tail.size
        self._apart = max(APART, self._size // COPIES)
        self._copies: list[Copy] = []
        self.play(RunState(self.plan), expander(self.plan), 0)

    def play(self, state: RunState, expand: Expand, offset: int) -> None:
        """Go on with the records behind `offset`, to which the state and `expand` belong."""
        self.state = state
        self._tail.seek(offset, expand)
        self._next: list[Record] = []

    @property
    def share(self) -> float:
        """How much of the records has been taken in, from 0 to 1."""
        return min(1.0, self._tail.offset / self._size) if self._size else 1.0

    def close(self) -> None:
        """Close the file."""
        self._tail.close()

    def advance(self, until: float, lines: int) -> bool:
        """Take in the next records up to a time, at most so many lines. Returns whether there are
        more up to that time. Raises: OtherFormat; RunFolderError."""
        for _ in range(lines):
            self._next = self._next or self._tail.read_line()
            if not self._next or self._when(self._next[0]) > until:
                return False
            for record in self._next:
                apply_record(self.state, record)
            self._next = []
            self._keep_copy()
        return True

    def rewind(self, when: float) -> None:
        """Go back to a known time at or before `when`; `state` is another one then."""
        copy = next((one for one in reversed(self._copies) if one.now <= when), None)
        if copy:
            state, expand = pickle.loads(copy.state)
            self.play(state, expand, copy.offset)
        else:
            self.play(RunState(self.plan), expander(self.plan), 0)

    def renew(self) -> None:
        """Begin anew where the file has been replaced."""
        if self._tail.is_replaced():
            self._begin()

    def _when(self, record: Record) -> float:
        host = self.state.host(record.host)
        return record.time - host.offset if host else record.time

    def _keep_copy(self) -> None:
        """Keep a copy of the state, if the last one is far behind."""
        newest = self._copies[-1].offset if self._copies else 0
        if not self._rewinds or self._tail.offset - newest < self._apart:
            return
        data = pickle.dumps((self.state, self._tail.expand), pickle.HIGHEST_PROTOCOL)
        self._copies.append(Copy(self.state.now, self._tail.offset, data))
        if sum(len(copy.state) for copy in self._copies) > MEMORY:  # the state of many ranks
            del self._copies[::2]
            self._apart *= 2


def overview(folder: Path, plan: Plan) -> Tape:
    """A tape at its end, of a run with very many steps, with the state that it would have if it had
    made fewer: its curves have the same course, and all is there that its launchers, hosts and
    ranks say beside steps, samples and what the ranks' programs print.

    Raises: OtherFormat; RunFolderError.
    """
    made = Tape(folder, plan, rewinds=False)
    sieve = Sieve(folder.name, len(plan.hosts), expander(plan))
    try:
        with files.opened(folder / EVENTS) as file:
            end = _end(file)
            for record in sieve.records(_thinned(file, end, plan.world_size)):
                apply_record(made.state, record)
    except OSError as error:
        raise RunFolderError(f"{folder} holds no run: {EVENTS}: {error.strerror}") from error
    made.play(made.state, sieve.expand, end)
    return made


def is_large(folder: Path) -> bool:
    """Whether a run has so many records that reading all takes long."""
    return Tail(folder, 0).size > LARGE


def _end(file: BinaryIO) -> int:
    """Bytes of whole lines: another one may just be being written."""
    begin = max(0, file.seek(0, os.SEEK_END) - LIMITS.line)
    file.seek(begin)
    return begin + file.read().rfind(b"\n") + 1


def _thinned(file: BinaryIO, size: int, ranks: int) -> Iterator[bytes]:
    """The first `size` bytes of records, by lines, without most steps and samples in the middle.
    What is left of these are a few of all ranks at a time, as ranks wait for each other."""
    due = left = 0
    group = 4 * ranks
    file.seek(0)
    while (offset := file.tell()) < size:
        block = file.read(min(BLOCK, size - offset))
        if not block:  # somebody has cut the file
            return
        if not block.endswith(b"\n"):
            block += file.readline(LIMITS.line)
        is_whole = offset < WHOLE or offset > size - WHOLE
        if offset >= due:
            left = group
            due = offset + size // max(PLACES, STEPS // group)
        if is_whole or left or NEWS.search(block):
            lines = block.split(b"\n")
            taken = len(lines) if is_whole else left
            yield from lines[:taken]
            yield from filter(NEWS.search, lines[taken:])
            left = max(0, left - len(lines))
