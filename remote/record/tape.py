"""A recorded run at any of its times: forwards record by record, backwards from the nearest copy of
its state."""

from __future__ import annotations

from bisect import bisect
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from operator import attrgetter
from pathlib import Path
from typing import NamedTuple

from remote.plan.plan import Plan
from remote.record import snapshots
from remote.record.events_file import (
    EventsReader,
    Remark,
    compile_scan,
    compile_scan_for_others,
    find_lines,
)
from remote.record.snapshots import RunMoment
from remote.run.apply import apply_record
from remote.run.output.script_readings import expander
from remote.run.run_state import RunState
from training.wire.events import Record, split_steps
from training.wire.rank_events import Epoch, Evaluated, StepFinished
from training.wire.step_block import StepBlock

OF_STEPS = (StepBlock, StepFinished, Epoch, Evaluated)
"""Steps of a rank, and what it tells between them of all since the last one."""
COPIES = 64
"""Copies of the state that are kept of a run, and so the parts of it that jumping back re-reads."""
MEMORY = 256 << 20
"""Bytes of copies that are kept. If there are more, every second one is dropped."""
APART = 1 << 20
"""Bytes of records between two copies, at the least."""
LARGE = 2 << 20
"""Bytes of records beyond which a preview leaves some out, as reading all of them takes long. These
and the following are counted with the columns of steps."""
WHOLE = 1 << 18
"""Bytes at the beginning and at the end of which a preview reads all records."""
END_OF_RANK = 1 << 13
"""Bytes at the end, for each rank, of which it reads a few steps of each block: its last ones are
among them."""
LONGEST_BLOCK = 3.0
"""Seconds after a step within which the block that has it is recorded, where no connection was
slow: agents send what ranks told once a second."""
LINES = 4_000
"""About how many of the lines with steps and samples a preview reads in between."""
PLACES = 8
"""At how many places it reads them, at the least."""
LINES_OF_RANK = 8
"""How many it reads of each rank at a place: as many blocks of each."""
BLOCK_LINES = 4
"""As many lines a block of steps counts for. About as many of its steps are applied."""
BLOCK = 1 << 16
"""Bytes that a preview reads or passes over at once, with the columns of steps."""
SMALLEST_BLOCK = 1 << 12
"""Bytes of lines that it reads at once, at the least."""
FREQUENT = ("steps", "step", "text", "hostsample", "ranksample", "gpusample")
RARE = compile_scan_for_others(FREQUENT)
"""Finds the events that a preview always reads. The others come by the thousand, and each says
little."""
STEPS = compile_scan(("steps",))
_offset_of = attrgetter("offset")


class StateCopy(NamedTuple):
    """The state of a run after `offset` bytes of its records, with what expands the next ones,
    frozen by this process and compressed."""

    now: float
    offset: int
    data: bytes


class Tape:
    """The records of a run, and `state` as it was at the time up to which they have been applied.

    Times are by the session's clock. It has no lock: use it in one thread at a time.
    """

    def __init__(self, folder: Path, plan: Plan, *, rewinds: bool = True) -> None:
        """Begin at the newest snapshot of the run, or before the first record. `rewinds`: keep
        copies of the state, for `rewind`."""
        self.plan = plan
        self._folder = folder
        self._reader = EventsReader(folder, len(plan.hosts))
        self._rewinds = rewinds
        self._begin()

    def _begin(self) -> None:
        self._size = self._reader.size
        self._apart = max(int(APART / self._reader.density), self._size // COPIES)
        self._copies: list[StateCopy] = []
        newest_moment = snapshots.find_newest(self._folder, self.plan)
        self._continue(newest_moment or self._beginning())
        self._saved_offset = self._reader.offset

    def _beginning(self) -> RunMoment:
        return RunMoment(RunState(self.plan), expander(self.plan), 0)

    def _continue(self, moment: RunMoment) -> None:
        """Go on from a moment of the run."""
        self.state = moment.state
        self._reader.continue_from(moment)
        self._next: list[Record] = []
        """What is left of the current line."""
        self._lines_ahead = deque[list[Record]]()
        """What is left of lines that were read for the steps of other ranks."""

    @property
    def share(self) -> float:
        """Return how much of the records has been applied, from 0 to 1."""
        return min(1.0, self._reader.offset / self._size) if self._size else 1.0

    @property
    def is_far_behind(self) -> bool:
        """Return True if so many records are still to be applied that this takes long."""
        return (self._reader.size - self._reader.offset) * self._reader.density > LARGE

    def close(self) -> None:
        """Close the file."""
        self._reader.close()

    def remark_on_left_out(self, remark: Remark | None) -> None:
        """Say how many records were left out, if any were."""
        self._reader.remark_on_left_out(remark)

    def save(self) -> None:
        """Write a snapshot of the state, if it saves a reader much time. All of the record has been
        applied."""
        offset = self._reader.offset
        # Of records that are left out, each reader is told.
        new_bytes = (offset - self._saved_offset) * self._reader.density
        if new_bytes < snapshots.APART or self._reader.parser.left_out:
            return
        self._saved_offset = offset
        with suppress(OSError):  # it is only a cache
            snapshots.write_snapshot(self._folder, self.plan, self._moment())

    def _moment(self) -> RunMoment:
        return RunMoment(self.state, self._reader.parser.expand, self._reader.offset)

    def advance(self, end_time: float, record_count: int) -> bool:
        """Apply the next records up to a time: about so many, as those of a line come together.
        Each step of a block is one. Return True if there are more up to that time. Raises:
        OtherFormat; RunFolderError."""
        while record_count > 0:
            self._next = self._next or self._read_line()
            if not self._next:
                self._reader.check_end()
                return False
            record_count -= sum(map(_count_steps, self._next))
            if not self._apply_line(end_time):
                self._apply_steps_behind(end_time)
                return False
            # Only then all records up to this place have been applied, and none beyond it.
            if not self._lines_ahead:
                self._keep_copy()
        return True

    def _apply_line(self, end_time: float) -> bool:
        """Apply the records of the line up to a time. Return True if these are all."""
        while self._next:
            record = self._next.pop(0)
            if self._time_of(record) <= end_time:
                apply_record(self.state, record)
            elif isinstance(record.event, StepBlock):  # which may begin before that time
                self._next = [*split_steps(record), *self._next]
            else:
                self._next.insert(0, record)
                return False
        return True

    def _apply_steps_behind(self, end_time: float) -> None:
        """Apply the steps up to a time that stand behind a record of later, and what they came to.

        The steps of a second come as a block of each rank, one rank after the other. Without this,
        the first ranks would be up to a block ahead of the others at any time in it, and the ends
        of epochs up to a block behind.
        """
        self._read_ahead(end_time + LONGEST_BLOCK)
        pending_ranks = set[int]()
        pending_lines = [
            self._apply_steps_of_line(line_records, end_time, pending_ranks)
            for line_records in (self._next, *self._lines_ahead)
        ]
        # Something is left of the first line: the record of later.
        self._next = pending_lines[0]
        self._lines_ahead = deque(filter(None, pending_lines[1:]))

    def _apply_steps_of_line(
        self, line_records: Sequence[Record], end_time: float, pending_ranks: set[int]
    ) -> list[Record]:
        """Apply the steps up to a time, but for those of ranks of which earlier ones are pending.
        Return the records that are left, and add their ranks to the pending ones."""
        pending_records = list[Record]()
        for record in line_records:
            if not isinstance(record.event, OF_STEPS):
                pending_records.append(record)
                continue
            rank = record.event.rank
            for step in (record,) if rank in pending_ranks else split_steps(record):
                if rank in pending_ranks or self._time_of(step) > end_time:
                    pending_ranks.add(rank)
                    pending_records.append(step)
                else:
                    apply_record(self.state, step)
        return pending_records

    def _read_ahead(self, end_time: float) -> None:
        """Read the next lines, up to one that has a record of after this time."""
        line_records = self._lines_ahead[-1] if self._lines_ahead else self._next
        while line_records and all(self._time_of(record) <= end_time for record in line_records):
            line_records = self._reader.read_records()
            if line_records:
                self._lines_ahead.append(line_records)

    def _read_line(self) -> list[Record]:
        """Return the records of the next line."""
        return self._lines_ahead.popleft() if self._lines_ahead else self._reader.read_records()

    def preview(self) -> None:
        """Apply all records from here on; if they are `LARGE`, leave out most steps, samples and
        lines of text. The curves then have the same course with fewer points. Raises: OtherFormat;
        RunFolderError."""
        self._reader.require_file()
        for line, is_sample in self._select_lines():
            records = list(self._reader.parser.parse((line,)))
            for record in _sample_steps(records) if is_sample else records:
                apply_record(self.state, record)

    def _select_lines(self) -> Iterator[tuple[bytes, bool]]:
        """Read to the end of the file. Yield the lines that `preview` applies, each with whether it
        stands for others.

        Of what is frequent these are a few lines of all ranks at a time, as ranks wait for each
        other.
        """
        begin = self._reader.offset
        file_size = self._reader.size
        is_small = not self.is_far_behind
        # Most of a record may be columns, which are not in the file.
        density = self._reader.density
        whole_size = WHOLE / density
        end = file_size - END_OF_RANK * self.plan.world_size / density
        group_size = LINES_OF_RANK * self.plan.world_size
        group_distance = (file_size - begin) // max(PLACES, LINES // group_size)
        next_group = begin
        pending_lines = 0  # lines of the current group that are still to come
        offset = begin
        while block := self._reader.read_block(max(SMALLEST_BLOCK, int(BLOCK / density))):
            is_whole = is_small or offset < begin + whole_size or offset > file_size - whole_size
            if offset >= min(next_group, end):
                pending_lines = group_size
                next_group = offset + group_distance
            if is_whole:
                yield from ((line, False) for line in block.splitlines())
            elif pending_lines > 0:
                for line in block.splitlines():
                    if pending_lines > 0 or RARE.search(line):
                        yield line, True
                    pending_lines -= BLOCK_LINES if STEPS.search(line) else 1
            else:
                yield from ((line, True) for line in find_lines(block, RARE))
            offset = self._reader.offset

    def rewind(self, target_time: float) -> None:
        """Go back to a known time at or before `target_time`; `state` is another one then."""
        earlier_copies = [copy for copy in self._copies if copy.now <= target_time]
        newest_copy = earlier_copies[-1] if earlier_copies else None
        copy_offset = newest_copy.offset if newest_copy else 0
        moment = snapshots.find_newest(self._folder, self.plan, target_time, copy_offset)
        if moment is None:
            moment = self._thaw(newest_copy) if newest_copy else self._beginning()
        self._continue(moment)

    def _thaw(self, state_copy: StateCopy) -> RunMoment:
        frozen_state = snapshots.decompress(state_copy.data)
        state, expand = snapshots.thaw(frozen_state, self.plan)
        return RunMoment(state, expand, state_copy.offset)

    def renew(self) -> None:
        """Begin anew if the file has been replaced."""
        if self._reader.is_replaced():
            self._begin()

    def _time_of(self, record: Record) -> float:
        host = self.state.host(record.host)
        return record.time - host.offset if host else record.time

    def _keep_copy(self) -> None:
        """Keep a copy of the state, if the last one before it is far behind."""
        if not self._rewinds:
            return
        moment = self._moment()
        place = bisect(self._copies, moment.offset, key=_offset_of)
        previous_offset = self._copies[place - 1].offset if place else 0
        if moment.offset - previous_offset < self._apart:
            return
        data = snapshots.compress(snapshots.freeze(moment.state, moment.expand))
        state_copy = StateCopy(self.state.now, moment.offset, data)
        self._copies.insert(place, state_copy)
        # The state of many ranks is large.
        if sum(len(state_copy.data) for state_copy in self._copies) > MEMORY:
            del self._copies[::2]
            self._apart *= 2


def _count_steps(record: Record) -> int:
    return record.event.count if isinstance(record.event, StepBlock) else 1


def _sample_steps(records: Sequence[Record]) -> Iterator[Record]:
    """Yield a few of the steps of a block, with its last one, and all other records."""
    for record in records:
        # A power of two, so that ranks whose blocks are of about one size have steps in common.
        distance = 1 << max(0, (_count_steps(record) // BLOCK_LINES).bit_length() - 1)
        parts = split_steps(record)
        for part in parts:
            is_left_out = isinstance(part.event, StepFinished) and part.event.step % distance
            if not is_left_out or part is parts[-1]:
                yield part


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
