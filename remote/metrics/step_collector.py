"""Collects the steps of a run in bounded memory: all of a short run, a sample of a long one."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from remote.metrics.step_rows import (
    PACKED,
    ArrivedBlock,
    ArrivedStep,
    HostClock,
    StepRows,
    join_rows,
    make_table,
    pack_arrived,
)
from remote.metrics.steps import StepTable
from remote.record.step_chunks import PlacedBlock
from training.wire.events import Record
from training.wire.rank_events import StepFinished
from training.wire.step_block import StepBlock

WINDOW = 64
"""Steps that are kept or left out together. The first window has all iterations that the assignment
times; and where ranks wait for each other only every few steps, a step needs its neighbours."""
MOST_ROWS = 1 << 19
"""Rows that are kept, about: they take 70 MB."""


class StepCollector:
    """Collects the steps of a run, in order of arrival.

    Of a run with more than `MOST_ROWS` it keeps every second window of `WINDOW` steps, every fourth
    of a longer one, and so on: the same windows of all ranks, so that ranks can be compared at each
    step. The first window of each rank is always kept.
    """

    def __init__(self) -> None:
        self.stride = 1
        """One in so many windows is kept."""
        self.resumed_steps: dict[int, int] = {}
        """For each attempt, the step after which it began."""
        # In order of arrival. Many are made rows at once, which is much faster.
        self._pending: list[ArrivedStep | ArrivedBlock] = []
        self._num_pending = 0
        """Steps of these."""
        self._parts: list[StepRows] = []
        self._num_rows = 0
        self._first_steps: dict[int, int] = {}
        """The first step that was heard of each rank."""
        self._begin = np.inf

    def add(self, step: StepFinished, attempt: int, when: float) -> None:
        """Take in a step of an attempt that ended at this Unix time."""
        self._first_steps.setdefault(step.rank, step.step)
        self._add(ArrivedStep(step, attempt, when), 1)

    def add_block(self, block: StepBlock | PlacedBlock, record: Record, clock: HostClock) -> None:
        """Take in the steps of a block in a record. One that is damaged has none."""
        if not self._may_keep(block):
            return
        self._first_steps.setdefault(block.rank, block.step - block.count + 1)
        self._add(ArrivedBlock(block, record.attempt, record.time, clock), block.count)

    def resume(self, attempt: int, step: int) -> None:
        """Note that an attempt begins after this step: later ones of attempts before it did not
        happen."""
        # All ranks of an attempt report this; the first one is as good as any.
        self.resumed_steps.setdefault(attempt, step)

    def table(self, started: float) -> tuple[StepTable, float]:
        """Return the steps, and the Unix time at which the first one began.

        That is not before the run has `started`, whatever a host says, and that time itself if
        there are no steps.
        """
        self._pack()
        time_zero = max(started, self._begin) if self._num_rows else started
        return make_table(join_rows(self._parts), self.resumed_steps, time_zero), time_zero

    def _add(self, arrived: ArrivedStep | ArrivedBlock, num_steps: int) -> None:
        self._pending.append(arrived)
        self._num_pending += num_steps
        if self._num_pending >= PACKED:
            self._pack()

    def _pack(self) -> None:
        rows = pack_arrived(self._pending)
        self._pending = []
        self._num_pending = 0
        self._begin = min(self._begin, rows.find_begin())
        self._keep(rows)
        while self._num_rows > MOST_ROWS and self.stride < MOST_ROWS:
            self.stride *= 2
            all_rows = join_rows(self._parts)
            self._parts = []
            self._num_rows = 0
            self._keep(all_rows)

    def _keep(self, rows: StepRows) -> None:
        if self.stride > 1:
            rows = rows.select(self._are_kept(rows))
        if len(rows):
            self._parts.append(rows)
            self._num_rows += len(rows)

    def _are_kept(self, rows: StepRows) -> NDArray[np.bool_]:
        ranks, rank_places = np.unique(rows.rank, return_inverse=True)
        first_steps = np.array([self._first_steps[rank] for rank in ranks.tolist()])[rank_places]
        is_first_window = (rows.step >= first_steps) & (rows.step < first_steps + WINDOW)
        windows = (rows.step - self._base) // WINDOW
        return np.asarray((windows % self.stride == 0) | is_first_window)

    def _may_keep(self, block: StepBlock | PlacedBlock) -> bool:
        """Return False if a block has no step that is kept, by the numbers that it says it has."""
        first_step = block.step - block.count + 1
        first_kept = self._first_steps.get(block.rank)
        if first_kept is None or first_step < first_kept + WINDOW:
            return True
        first_window = (first_step - self._base) // WINDOW
        last_window = (block.step - self._base) // WINDOW
        return last_window // self.stride * self.stride >= first_window

    @property
    def _base(self) -> int:
        """Return the step at which the first window begins."""
        return next(iter(self._first_steps.values()), 0)
