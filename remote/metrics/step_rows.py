"""Steps as rows of numbers, in the order in which they arrived."""

from __future__ import annotations

import zlib
from binascii import a2b_base64
from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from remote.metrics.steps import SERIES, WHOLE_NUMBERS, Floats, Ints, StepTable
from training.wire.rank_events import StepFinished
from training.wire.records import COUNT, SECONDS
from training.wire.step_block import FLOATS, INTEGERS, StepBlock

_COMPUTE, _SECONDS, _DATA, _SYNC = map(FLOATS.index, ("compute", "seconds", "data", "sync"))
_ALL_INTEGERS = ("microseconds", *INTEGERS)
"""The columns of integers of a block, in order."""
_FLOAT = np.dtype("<f4")
_INTEGER = np.dtype("<i8")
_UNBOUNDED = (-np.inf, np.inf)
_FLOAT_BOUNDS = np.array([StepFinished.bounds.get(name, _UNBOUNDED) for name in FLOATS])
_IS_BOUNDED = np.array([name in StepFinished.bounds for name in FLOATS])
_MOST_INTEGERS = np.array(
    [1 if name == "loss_known" else COUNT[1] for name in _ALL_INTEGERS], dtype=np.int64
)
_SAFE = 2.0**62
"""What is less as a float has not overflowed as an integer."""

_measurements: Callable[[StepFinished], tuple[float, ...]] = attrgetter(*SERIES)


class HostClock(Protocol):
    """What a host's clock is to the session's."""

    @property
    def offset(self) -> float:
        """Return the seconds by which it is ahead."""

    @property
    def began(self) -> float:
        """Return the time before which nothing of the host happened, by the session's clock."""


class ArrivedStep(NamedTuple):
    """A step of an attempt that ended at a Unix time."""

    step: StepFinished
    attempt: int
    when: float


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


def pack_rows(steps: Sequence[ArrivedStep]) -> StepRows:
    """Return the rows of steps."""
    whole_rows = [(step.rank, step.step, step.epoch, attempt) for step, attempt, _ in steps]
    figure_rows = [(when, *_measurements(step)) for step, _, when in steps]
    return StepRows(np.array(whole_rows, np.int64), np.array(figure_rows, np.float64))


def make_table(rows: StepRows, resumed_steps: dict[int, int], time_zero: float) -> StepTable:
    """Return the steps that count, see `StepTable`. `resumed_steps`: for each attempt, the step
    after which it began."""
    lasting_rows = _find_lasting(rows.whole_numbers, resumed_steps)
    whole_numbers = rows.whole_numbers[lasting_rows, : len(WHOLE_NUMBERS)]
    figures = rows.figures[lasting_rows]
    figures[:, 0] -= time_zero
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


def unpack_rows(block: StepBlock, attempt: int, latest_time: float, clock: HostClock) -> StepRows:
    """Return the steps of a block, none later than `latest_time` by the clock of its host.
    They are those of `StepBlock.unpack`, in a fifth of the time.

    Raises: ValueError, if the block is damaged, or a number is out of bounds.
    """
    floats, integers = _unpack(block)
    microseconds, epoch, step, *more_integers, _ = integers
    times = np.minimum(microseconds / 1e6, latest_time)
    columns = dict(zip(FLOATS, floats, strict=True))
    columns |= zip(INTEGERS[2:], more_integers, strict=False)
    figures = np.empty((block.count, 1 + len(SERIES)))
    figures[:, 0] = to_session_times(times, clock)
    for place, name in enumerate(SERIES, 1):
        figures[:, place] = columns[name]
    whole_numbers = np.empty((block.count, 1 + len(WHOLE_NUMBERS)), np.int64)
    for place, numbers in enumerate((block.rank, step, epoch, attempt)):
        whole_numbers[:, place] = numbers
    return StepRows(whole_numbers, figures)


def to_session_times(times: Floats, clock: HostClock) -> Floats:
    """Return times of a host's clock by the session's."""
    # A host whose clock is wrong, or that lies, has nothing from before it began.
    return np.maximum(times - clock.offset, clock.began)


def _unpack(block: StepBlock) -> tuple[Floats, Ints]:
    """Return the columns of a block: those of `FLOATS` and of `_ALL_INTEGERS`. Raises: ValueError,
    if it is damaged, or a number is out of bounds."""
    count = block.count
    floats_size = len(FLOATS) * count * _FLOAT.itemsize
    size = floats_size + len(_ALL_INTEGERS) * count * _INTEGER.itemsize
    inflater = zlib.decompressobj()
    try:
        # Bounded, as a few bytes may stand for gigabytes.
        planes = inflater.decompress(a2b_base64(block.columns), size + 1)
    except zlib.error as error:
        raise ValueError(f"columns: {error}") from None
    if len(planes) != size or not inflater.eof:
        raise ValueError(f"columns: they are not those of {count} steps")
    floats = _join_planes(planes[:floats_size], _FLOAT, count).astype(np.float64)
    # The rest of `seconds`, as which `compute` is packed, is worked out in 64 bits.
    rests = floats[_SECONDS] - floats[_DATA] - floats[_SYNC]
    floats[_COMPUTE] = (floats[_COMPUTE] + rests).astype(np.float32)
    differences = _join_planes(planes[floats_size:], _INTEGER, count)
    if np.abs(differences.cumsum(axis=1, dtype=np.float64)).max() > _SAFE:
        raise ValueError("columns: a number is out of bounds")
    integers = differences.cumsum(axis=1)
    _check_bounds(floats, integers)
    return floats, integers


def _join_planes(planes: bytes, kind: np.dtype[np.generic], count: int) -> NDArray[np.generic]:
    """Put the bytes of each number beside each other again. Return columns x steps."""
    numbers = np.frombuffer(planes, np.uint8).reshape(kind.itemsize, -1).T
    return np.ascontiguousarray(numbers).view(kind).reshape(-1, count)


def _check_bounds(floats: Floats, integers: Ints) -> None:
    """Raises: ValueError, if a number is out of bounds."""
    low, high = _FLOAT_BOUNDS.T[:, :, None]
    # Not `floats < low`, which NaN would pass.
    are_floats_valid = ((floats >= low) & (floats <= high)).all(axis=1) | ~_IS_BOUNDED
    are_integers_valid = (integers >= 0).all() and (integers <= _MOST_INTEGERS[:, None]).all()
    is_time_valid = integers[0].max() / 1e6 <= SECONDS[1]
    if not (are_floats_valid.all() and are_integers_valid and is_time_valid):
        raise ValueError("columns: a number is out of bounds")
