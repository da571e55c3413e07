"""Steps as rows of numbers, in the order in which they arrived."""

from __future__ import annotations

import zlib
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from remote.metrics.steps import SERIES, WHOLE_NUMBERS, Floats, Ints, StepTable
from remote.record.step_chunks import PlacedBlock
from training.wire.rank_events import StepFinished
from training.wire.records import COUNT, SECONDS
from training.wire.step_block import FLOATS, INTEGERS, StepBlock

_COMPUTE, _SECONDS, _DATA, _SYNC = map(FLOATS.index, ("compute", "seconds", "data", "sync"))
_ALL_INTEGERS = ("microseconds", *INTEGERS)
"""The columns of integers of a block, in order."""
_FLOAT = np.dtype("<f4")
_INTEGER = np.dtype("<i8")
_STEP_BYTES = len(FLOATS) * _FLOAT.itemsize + len(_ALL_INTEGERS) * _INTEGER.itemsize
_IS_BOUNDED = np.array([name in StepFinished.bounds for name in FLOATS])
_FLOAT_BOUNDS = np.array([bounds for name in FLOATS if (bounds := StepFinished.bounds.get(name))])
_LATEST_MICROSECOND = int(SECONDS[1] * 1e6)
_MOST = {"loss_known": 1, "microseconds": _LATEST_MICROSECOND}
_MOST_INTEGERS = np.array([_MOST.get(name, COUNT[1]) for name in _ALL_INTEGERS], dtype=np.int64)
_SAFE = 2.0**62
"""What is less as a float has not overflowed as an integer."""
PACKED = 1 << 16
"""Steps that become rows together, which is much faster than one by one."""
_measurements: Callable[[StepFinished], tuple[float, ...]] = attrgetter(*SERIES)


class HostClock(NamedTuple):
    """What a host's clock is to the session's."""

    offset: float
    """The seconds by which it is ahead."""
    began: float
    """Nothing of the host happened before this time of the session's clock."""


class ArrivedStep(NamedTuple):
    """A step of an attempt that ended at a Unix time."""

    step: StepFinished
    attempt: int
    when: float


class ArrivedBlock(NamedTuple):
    """A block of steps of an attempt."""

    block: StepBlock | PlacedBlock
    attempt: int
    latest_time: float
    """No step of it ended later, by the clock of the host."""
    clock: HostClock


class StepRows(NamedTuple):
    """Steps, each with the attempt that made it."""

    whole_numbers: Ints
    """Rank, step, epoch and attempt of each step: rows x 4."""
    figures: Floats
    """The Unix time at which each step ended, and its `SERIES`: rows x (1 + series)."""

    def __len__(self) -> int:
        return len(self.whole_numbers)

    @property
    def rank(self) -> Ints:
        """Return the rank of each step."""
        return self.whole_numbers[:, WHOLE_NUMBERS.index("rank")]

    @property
    def step(self) -> Ints:
        """Return the number of each step."""
        return self.whole_numbers[:, WHOLE_NUMBERS.index("step")]

    def select(self, rows: NDArray[np.bool_] | NDArray[np.int64] | slice) -> StepRows:
        """Return some of the rows: those that are marked True, or at these places."""
        return StepRows(self.whole_numbers[rows], self.figures[rows])

    def find_begin(self) -> float:
        """Return the Unix time at which the first of these steps began; infinite if there are
        none."""
        step_seconds = np.nan_to_num(self.figures[:, 1 + SERIES.index("seconds")])
        return float((self.figures[:, 0] - step_seconds).min(initial=np.inf))


def join_rows(parts: list[StepRows]) -> StepRows:
    """Return all rows of the parts, in their order."""
    # With an empty part, as of no parts the number of columns is not known.
    no_whole_numbers = np.empty((0, 1 + len(WHOLE_NUMBERS)), np.int64)
    no_figures = np.empty((0, 1 + len(SERIES)))
    whole_numbers, figures = zip((no_whole_numbers, no_figures), *parts, strict=True)
    return StepRows(np.concatenate(whole_numbers), np.concatenate(figures))


def pack_arrived(arrived: Sequence[ArrivedStep | ArrivedBlock]) -> StepRows:
    """Return the rows of steps and of those of blocks, in their order."""
    are_blocks = np.array([isinstance(one, ArrivedBlock) for one in arrived], dtype=bool)
    rows, block_places = unpack_rows([one for one in arrived if isinstance(one, ArrivedBlock)])
    step_rows = pack_rows([one for one in arrived if isinstance(one, ArrivedStep)])
    row_places = np.r_[np.flatnonzero(are_blocks)[block_places], np.flatnonzero(~are_blocks)]
    return join_rows([rows, step_rows]).select(np.argsort(row_places, kind="stable"))


def pack_rows(steps: Sequence[ArrivedStep]) -> StepRows:
    """Return the rows of steps."""
    whole_rows = [(step.rank, step.step, step.epoch, attempt) for step, attempt, _ in steps]
    figure_rows = [(when, *_measurements(step)) for step, _, when in steps]
    # `reshape`, since an array of no rows has no columns.
    return StepRows(
        np.array(whole_rows, np.int64).reshape(-1, 1 + len(WHOLE_NUMBERS)),
        np.array(figure_rows, np.float64).reshape(-1, 1 + len(SERIES)),
    )


def make_table(rows: StepRows, resumed_steps: dict[int, int], time_zero: float) -> StepTable:
    """Return the steps that count, see `StepTable`. `resumed_steps`: for each attempt, the step
    after which it began."""
    lasting_rows = _find_lasting(rows.whole_numbers, resumed_steps)
    whole_numbers = rows.whole_numbers[lasting_rows, : len(WHOLE_NUMBERS)]
    figures = rows.figures[lasting_rows]
    # To microseconds, as they are measured: a Unix time has no more digits.
    figures[:, 0] = np.round(figures[:, 0] - time_zero, 6)
    return StepTable(*whole_numbers.T, *figures.T)


def _find_lasting(whole_numbers: Ints, resumed_steps: dict[int, int]) -> Ints:
    """Return the rows that count, ordered by rank and step."""
    rank, step, _, attempt = whole_numbers.T
    has_happened = np.ones(len(whole_numbers), dtype=bool)
    for later_attempt, resumed_step in resumed_steps.items():
        has_happened &= (attempt >= later_attempt) | (step <= resumed_step)
    row_order = np.flatnonzero(has_happened)
    # Of rows of the same rank and step, the last one to arrive comes last, and counts.
    row_order = row_order[np.lexsort((row_order, step[row_order], rank[row_order]))]
    is_same_rank = np.diff(rank[row_order]) == 0
    is_same_step = np.diff(step[row_order]) == 0
    is_last = np.r_[~(is_same_rank & is_same_step), True]
    # Of no rows there are no differences, and the one True is too many.
    lasting_rows: Ints = row_order[is_last[: len(row_order)]]
    return lasting_rows


# Blocks -------------------------------------------------------------------------------------------


def unpack_rows(blocks: Sequence[ArrivedBlock]) -> tuple[StepRows, Ints]:
    """Return the steps of blocks, in their order, and the place of the block of each.

    They are those of `StepBlock.unpack`, but many times as fast where there are many. A block that
    is damaged, or has a number out of bounds, has none.
    """
    counts = np.array([arrived.block.count for arrived in blocks], dtype=np.int64)
    begins = np.cumsum(counts) - counts
    num_rows = int(counts.sum())
    whole_numbers = np.empty((num_rows, 1 + len(WHOLE_NUMBERS)), np.int64)
    figures = np.empty((num_rows, 1 + len(SERIES)))
    are_valid = np.zeros(num_rows, dtype=bool)
    for places, planes in _inflate(blocks):
        group = [blocks[place] for place in places]
        floats, integers = _join_planes(planes, group[0].block.count)
        microseconds, epoch, step, *more_integers, _ = integers
        columns = dict(zip(FLOATS, floats, strict=True))
        columns |= zip(INTEGERS[2:], more_integers, strict=False)
        # Blocks x steps, as all columns are.
        rows = begins[places][:, None] + np.arange(group[0].block.count)
        are_valid[rows] = _are_valid(floats, integers)[:, None]
        figures[rows, 0] = _find_times(microseconds / 1e6, group)
        for column, name in enumerate(SERIES, 1):
            figures[rows, column] = columns[name]
        ranks = np.array([arrived.block.rank for arrived in group])[:, None]
        attempts = np.array([arrived.attempt for arrived in group])[:, None]
        for column, numbers in enumerate((ranks, step, epoch, attempts)):
            whole_numbers[rows, column] = numbers
    block_places = np.repeat(np.arange(len(blocks)), counts)
    return StepRows(whole_numbers, figures).select(are_valid), block_places[are_valid]


def to_session_time(time: float, clock: HostClock) -> float:
    """Return a time of a host's clock by the session's."""
    # A host whose clock is wrong, or that lies, has nothing from before it began.
    return max(time - clock.offset, clock.began)


def _find_times(times: Floats, group: Sequence[ArrivedBlock]) -> Floats:
    """Return the times of the steps of blocks by the session's clock."""
    latest_times = np.array([arrived.latest_time for arrived in group])[:, None]
    offsets = np.array([arrived.clock.offset for arrived in group])[:, None]
    begins = np.array([arrived.clock.began for arrived in group])[:, None]
    return np.asarray(np.maximum(np.minimum(times, latest_times) - offsets, begins))


def _inflate(blocks: Sequence[ArrivedBlock]) -> Iterator[tuple[list[int], NDArray[np.uint8]]]:
    """Yield the planes of all blocks with equally many steps as blocks x bytes, with the places of
    these blocks. Those that cannot be inflated are left out."""
    planes_by_size: dict[int, list[tuple[int, bytes]]] = defaultdict(list)
    for place, (block, *_) in enumerate(blocks):
        size = block.count * _STEP_BYTES
        inflater = zlib.decompressobj()
        with suppress(ValueError, zlib.error):
            # Bounded, as a few bytes may stand for gigabytes.
            planes = inflater.decompress(block.packed, size + 1)
            if len(planes) == size and inflater.eof:
                planes_by_size[size].append((place, planes))
    for size, placed_planes in planes_by_size.items():
        places, all_planes = zip(*placed_planes, strict=True)
        yield [*places], np.frombuffer(b"".join(all_planes), np.uint8).reshape(-1, size)


def _join_planes(planes: NDArray[np.uint8], count: int) -> tuple[Floats, Ints]:
    """Return the columns of blocks of so many steps: those of `FLOATS`, and those of
    `_ALL_INTEGERS`, each as columns x blocks x steps."""
    floats_size = len(FLOATS) * count * _FLOAT.itemsize
    floats = _join_bytes(planes[:, :floats_size], _FLOAT, count).astype(np.float64)
    # The rest of `seconds`, as which `compute` is packed, is worked out in 64 bits.
    with np.errstate(invalid="ignore", over="ignore"):
        rests = floats[_SECONDS] - floats[_DATA] - floats[_SYNC]
        floats[_COMPUTE] = (floats[_COMPUTE] + rests).astype(np.float32)
    differences = _join_bytes(planes[:, floats_size:], _INTEGER, count)
    integers = differences.cumsum(axis=-1)
    has_overflowed = np.abs(differences.cumsum(axis=-1, dtype=np.float64)) > _SAFE
    integers[has_overflowed] = -1
    return floats, integers


def _join_bytes(planes: NDArray[np.uint8], kind: np.dtype[Any], count: int) -> NDArray[Any]:
    """Put the bytes of each number beside each other again. Return columns x blocks x steps."""
    num_blocks = len(planes)
    bytes_of_numbers = planes.reshape(num_blocks, kind.itemsize, -1, count).transpose(2, 0, 3, 1)
    return np.ascontiguousarray(bytes_of_numbers).view(kind)[..., 0]


def _are_valid(floats: Floats, integers: Ints) -> NDArray[np.bool_]:
    """Return for each block whether all its numbers are within their bounds."""
    low, high = _FLOAT_BOUNDS.T[:, :, None, None]
    bounded_floats = floats[_IS_BOUNDED]
    # Not `floats < low`, which NaN would pass.
    are_floats_valid = ((bounded_floats >= low) & (bounded_floats <= high)).all(axis=(0, 2))
    most = _MOST_INTEGERS[:, None, None]
    are_integers_valid = ((integers >= 0) & (integers <= most)).all(axis=(0, 2))
    return np.asarray(are_floats_valid & are_integers_valid)
