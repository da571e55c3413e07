"""A recorded run at any of its times: forwards record by record, backwards from the nearest copy of
its state."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from remote.plan.plan import Plan
from remote.record.events_file import EventsReader, compile_scan_for_others, select_lines
from remote.run.apply import apply_record
from remote.run.output.script_readings import Expand, expander
from remote.run.run_state import RunState
from training.wire.events import Record

COPIES = 64
"""Copies of the state that are kept of a run, and so the parts of it that jumping back re-reads."""
MEMORY = 256 << 20
"""Bytes of copies that are kept. If there are more, every second one is dropped."""
APART = 1 << 20
"""Bytes of records between two copies, at the least."""
LARGE = 8 << 20
"""Bytes of records beyond which a preview leaves some out, as reading all of them takes long."""
WHOLE = 1 << 18
"""Bytes at the beginning and at the end of which a preview reads all records."""
STEPS = 4_000
"""About how many steps a preview reads in between."""
PLACES = 16
"""At how many places it reads them, at the least."""
BLOCK = 1 << 16
"""Bytes that a preview reads or passes over at once."""
RARE = compile_scan_for_others(("step", "text", "hostsample", "ranksample", "gpusample"))
"""Finds the events that a preview always reads. The others come by the thousand, and each says
little."""


class StateCopy(NamedTuple):
    """The state of a run after `offset` bytes of its records, with what expands the next ones,
    pickled by this process."""

    now: float
    offset: int
    data: bytes


class Tape:
    """The records of a run, and `state` as it was at the time up to which they have been applied.

    Times are by the session's clock. It has no lock: use it in one thread at a time.
    """

    def __init__(self, folder: Path, plan: Plan, *, rewinds: bool = True) -> None:
        """`rewinds`: keep copies of the state, for `rewind`."""
        self.plan = plan
        self._reader = EventsReader(folder, len(plan.hosts))
        self._rewinds = rewinds
        self._begin()

    def _begin(self) -> None:
        self._size = self._reader.size
        self._apart = max(APART, self._size // COPIES)
        self._copies: list[StateCopy] = []
        self._continue(RunState(self.plan), expander(self.plan), 0)

    def _continue(self, state: RunState, expand: Expand, offset: int) -> None:
        """Go on with the records behind `offset`, to which the state and `expand` belong."""
        self.state = state
        self._reader.seek(offset, expand)
        self._next: list[Record] = []

    @property
    def share(self) -> float:
        """Return how much of the records has been applied, from 0 to 1."""
        return min(1.0, self._reader.offset / self._size) if self._size else 1.0

    def close(self) -> None:
        """Close the file."""
        self._reader.close()

    def advance(self, end_time: float, line_count: int) -> bool:
        """Apply the next records up to a time, of at most so many lines. Return True if there are
        more up to that time. Raises: OtherFormat; RunFolderError."""
        for _ in range(line_count):
            self._next = self._next or self._reader.read_records()
            if not self._next:
                self._reader.check_end()
                return False
            # One line holds records of one moment, so that the first tells for all.
            if self._time_of(self._next[0]) > end_time:
                return False
            for record in self._next:
                apply_record(self.state, record)
            self._next = []
            self._keep_copy()
        return True

    def preview(self) -> None:
        """Apply all records; if they are `LARGE`, leave out most steps, samples and lines of text.
        The curves then have the same course with fewer points. Raises: OtherFormat;
        RunFolderError."""
        self._reader.require_file()
        for block in self._select_blocks():
            for record in self._reader.parser.parse(block):
                apply_record(self.state, record)

    def _select_blocks(self) -> Iterator[list[bytes]]:
        """Read to the end of the file. Yield the lines of each block that `preview` applies.

        Of what is frequent these are a few lines of all ranks at a time, as ranks wait for each
        other.
        """
        file_size = self._reader.size
        is_small = file_size <= LARGE
        group_size = 4 * self.plan.world_size
        group_distance = file_size // max(PLACES, STEPS // group_size)
        next_group = 0
        pending_lines = 0  # lines of the current group that are still to come
        offset = 0
        while block := self._reader.read_block(BLOCK):
            is_whole = is_small or offset < WHOLE or offset > file_size - WHOLE
            if offset >= next_group:
                pending_lines = group_size
                next_group = offset + group_distance
            if is_whole:
                yield block.splitlines()
            elif pending_lines:
                block_lines = block.splitlines()
                yield block_lines[:pending_lines]
                yield [line for line in block_lines[pending_lines:] if RARE.search(line)]
                pending_lines = max(0, pending_lines - len(block_lines))
            else:
                yield select_lines(block, RARE.search)
            offset = self._reader.offset

    def rewind(self, target_time: float) -> None:
        """Go back to a known time at or before `target_time`; `state` is another one then."""
        for state_copy in reversed(self._copies):
            if state_copy.now <= target_time:
                state, expand = pickle.loads(state_copy.data)
                self._continue(state, expand, state_copy.offset)
                return
        self._continue(RunState(self.plan), expander(self.plan), 0)

    def renew(self) -> None:
        """Begin anew if the file has been replaced."""
        if self._reader.is_replaced():
            self._begin()

    def _time_of(self, record: Record) -> float:
        host = self.state.host(record.host)
        return record.time - host.offset if host else record.time

    def _keep_copy(self) -> None:
        """Keep a copy of the state, if the last one is far behind."""
        newest_offset = self._copies[-1].offset if self._copies else 0
        if not self._rewinds or self._reader.offset - newest_offset < self._apart:
            return
        pickled_state = pickle.dumps(
            (self.state, self._reader.parser.expand), pickle.HIGHEST_PROTOCOL
        )
        self._copies.append(StateCopy(self.state.now, self._reader.offset, pickled_state))
        if (
            sum(len(state_copy.data) for state_copy in self._copies) > MEMORY
        ):  # the state of many ranks
            del self._copies[::2]
            self._apart *= 2


def preview_tape(folder: Path, plan: Plan) -> Tape:
    """Return a tape at its end, at which `Tape.preview` brought it: much faster than by all records
    of a long run. Raises: OtherFormat; RunFolderError."""
    tape = Tape(folder, plan, rewinds=False)
    try:
        tape.preview()
    except BaseException:
        tape.close()
        raise
    return tape


def is_large(folder: Path) -> bool:
    """Return True if a run has so many records that reading all of them takes long."""
    return EventsReader(folder).size > LARGE
