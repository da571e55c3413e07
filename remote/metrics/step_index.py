"""Knows where the steps of a long run stand in its record, so that all of them can be read part by
part in bounded memory."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np

from remote.metrics.step_rows import (
    PACKED,
    ArrivedBlock,
    ArrivedStep,
    HostClock,
    StepRows,
    join_rows,
    make_table,
    pack_rows,
    unpack_rows,
)
from remote.metrics.steps import Ints, StepTable
from remote.record.events_file import EventsReader, RunFolderError
from remote.record.step_chunks import PlacedBlock, locate_columns
from training.wire.rank_events import StepFinished
from training.wire.step_block import MOST_STEPS, StepBlock

PART_ROWS = 1 << 16
"""Rows of a part, about."""


class StepPart(NamedTuple):
    """Where the steps of a part stand: the blocks of its lines, and rows."""

    folder: Path
    first_step: int
    end_step: int
    """The step after the last one."""
    blocks: Sequence[tuple[int, HostClock]]
    """The byte at which the line of each begins, and the clock of its host."""
    rows: StepRows
    """Steps that stand in no block."""
    resumed_steps: dict[int, int]
    """See `make_table`."""
    time_zero: float
    unknown: tuple[str, ...] = ()
    """The columns that are not known."""


class StepIndex:
    """Collects where the steps of a run stand."""

    def __init__(self) -> None:
        self._offsets = array("q")
        self._first_steps = array("q")
        self._last_steps = array("q")
        self._clocks = array("d")
        self._steps: list[ArrivedStep] = []
        self._rows: list[StepRows] = []

    def add(self, step: StepFinished, attempt: int, when: float) -> None:
        """Take in a step of an attempt that ended at this Unix time."""
        self._steps.append(ArrivedStep(step, attempt, when))
        if len(self._steps) >= PACKED:
            self._pack()

    def add_block(self, block: StepBlock | PlacedBlock, line_offset: int, clock: HostClock) -> None:
        """Take in a block of steps, whose line in the record begins at this byte."""
        self._offsets.append(line_offset)
        self._first_steps.append(_first_step(block))
        self._last_steps.append(block.step)
        self._clocks.extend((clock.offset, clock.began))

    def list_parts(
        self,
        folder: Path,
        resumed_steps: dict[int, int],
        time_zero: float,
        unknown: tuple[str, ...] = (),
    ) -> Iterator[StepPart]:
        """Yield the parts of the steps, in order. `unknown` are the columns that are not known."""
        self._pack()
        rows = join_rows(self._rows)
        rows = rows.select(np.argsort(rows.step, kind="stable"))
        order = np.argsort(self._first_steps, kind="stable")
        offsets = np.array(self._offsets)[order]
        first_steps = np.array(self._first_steps, dtype=np.int64)[order]
        last_steps = np.array(self._last_steps, dtype=np.int64)[order]
        clocks = np.array(self._clocks).reshape(-1, 2)[order]
        bounds = _choose_bounds(first_steps, last_steps, rows.step)
        for first_step, end_step in pairwise(bounds):
            # A block that begins earlier may reach into the part.
            begin, end = np.searchsorted(first_steps, (first_step - MOST_STEPS, end_step)).tolist()
            places = begin + np.flatnonzero(last_steps[begin:end] >= first_step)
            row_begin, row_end = np.searchsorted(rows.step, (first_step, end_step)).tolist()
            blocks = [
                (offset, HostClock(*clock))
                for offset, clock in zip(
                    offsets[places].tolist(), clocks[places].tolist(), strict=True
                )
            ]
            own_rows = rows.select(slice(row_begin, row_end))
            yield StepPart(
                *(folder, first_step, end_step, blocks, own_rows, resumed_steps, time_zero, unknown)
            )

    def _pack(self) -> None:
        if self._steps:
            self._rows.append(pack_rows(self._steps))
            self._steps = []


def _choose_bounds(first_steps: Ints, last_steps: Ints, single_steps: Ints) -> list[int]:
    """Return the steps at which parts begin, and the one after the last."""
    begins = np.concatenate([first_steps, single_steps])
    counts = np.concatenate([last_steps - first_steps + 1, np.ones_like(single_steps)])
    order = np.argsort(begins, kind="stable")
    rows_before = np.cumsum(counts[order]) - counts[order]
    _, places = np.unique(rows_before // PART_ROWS, return_index=True)
    part_begins: list[int] = np.unique(begins[order][places]).tolist()
    last_step = max(last_steps.max(initial=0), single_steps.max(initial=0))
    return [*part_begins, int(last_step) + 1]


def read_part(part: StepPart) -> StepTable:
    """Return the steps of a part. Raises: RunFolderError, if the record has changed."""
    blocks = []
    with closing(EventsReader(part.folder)) as reader:
        for line_offset, clock in part.blocks:
            record = reader.read_packed_at(line_offset)
            if record is None or not isinstance(record.event, StepBlock):
                raise RunFolderError(f"{part.folder}: its record was changed while it was read")
            block = locate_columns(record.event, reader.chunks)
            blocks.append(ArrivedBlock(block, record.attempt, record.time, clock))
        rows, block_places = unpack_rows(blocks)
    # A host may say that a block has other steps than it has. Each is in one part all the same.
    first_steps = np.array([_first_step(block) for block, *_ in blocks], dtype=np.int64)
    last_steps = np.array([block.step for block, *_ in blocks], dtype=np.int64)
    steps = np.clip(rows.step, first_steps[block_places], last_steps[block_places])
    is_of_part = (part.first_step <= steps) & (steps < part.end_step)
    all_rows = join_rows([part.rows, rows.select(is_of_part)])
    return make_table(all_rows, part.resumed_steps, part.time_zero).without(part.unknown)


def _first_step(block: StepBlock | PlacedBlock) -> int:
    """Return the number of the first step of a block, by what it says."""
    return block.step - block.count + 1
