"""Scales of y for rows of cells: their ticks stand at round values and at equal distances.

A scale is made from its ticks: first how many rows lie between two of them and how much that is,
then where it ends. So a tick is never moved to the next row, which would bend the scale.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from msgspec import Struct

from remote.run.series.definitions import Unit
from tui.charts.axis import (
    HUGE,
    TINY,
    Axis,
    exact_axis,
    log_axis,
    log_tick_labels,
    round_step,
    tick_label,
    widen_if_empty,
)
from tui.charts.units import axis_scale

TICK_DOT = 0.25
"""How far above the lower end of its row a tick stands, in rows: the dot next to the middle."""
ROUNDING = 1e-9
WHOLE = 100.0
"""Percent; a share that cannot be more has no tick above that."""
MAX_ROWS_PER_TICK = 9
SMALL_RATIOS = {2: 1.2, 5: 1.5}
"""Ratios of two ticks of a log scale that is too short for powers of ten, with their costs: 0.04
and 0.008 are harder to read."""
MAX_POWERS = 50
"""Powers of ten from which on a log scale has no ticks: nobody measures that."""
ANCHORS = (2, 5)
"""Ticks of a log scale may be these times powers of ten, in place of powers alone."""
MIN_ROWS_FOR_THREE = 8
SPARSE_COST = 1.25
"""With so many rows, a scale with less than three ticks may be so much finer and is not taken."""
MIN_USED_SHARE = 0.4
"""A log scale of which values use less is a linear one."""


class RowScale(Struct, frozen=True):
    """An axis and its ticks."""

    axis: Axis
    ticks: tuple[tuple[int, str], ...]
    """The rows of the ticks, counted from the top, and their texts."""


class _Candidate(Struct, frozen=True):
    """A scale that might be taken. Positions count rows from the tick 0 on."""

    row_size: float
    """What a row stands for, in values or their logarithms."""
    rows_per_tick: int
    offset: float
    """The value at position 0."""
    cost: float
    """How coarse it is, and how hard to read."""
    first: int = 0
    """The position of the lowest row."""

    def placed(self, low: float, high: float, rows: int) -> _Candidate | None:
        """Return the scale from a row at `low` on, or None if it ends below `high`."""
        lowest = (low - self.offset) / self.row_size
        first = math.floor(lowest + TICK_DOT + ROUNDING)
        top = first - TICK_DOT + rows - TICK_DOT
        if top < (high - self.offset) / self.row_size - ROUNDING:
            return None
        return _Candidate(self.row_size, self.rows_per_tick, self.offset, self.cost, first)

    def ticks(self, rows: int) -> list[tuple[int, int]]:
        """Return the rows of the ticks, and which multiple of the step each is."""
        return [
            (rows - 1 - index, (self.first + index) // self.rows_per_tick)
            for index in range(rows)
            if (self.first + index) % self.rows_per_tick == 0
        ]

    def ends(self, rows: int) -> tuple[float, float]:
        """Return the values of the lowest and the highest dot."""
        low = self.offset + (self.first - TICK_DOT) * self.row_size
        return low, low + (rows - TICK_DOT) * self.row_size


def value_scale(low: float, high: float, rows: int, unit: Unit, *, log: bool) -> RowScale:
    """Return the scale of `rows` rows that shows the values from `low` to `high` in a unit."""
    if rows == 1:
        return RowScale(log_axis(low, high) if log else exact_axis(low, high), ())
    scale, unit_name = axis_scale(max(abs(low), abs(high)), unit)
    make_scale = _log_scale if log else _linear_scale
    made = make_scale(low / scale, high / scale, rows)
    axis = Axis(made.axis.low * scale, made.axis.high * scale, made.axis.log)
    ticks = tuple(
        (row, text + unit_name if text != "0" else text)
        for row, text in made.ticks
        if not (unit is Unit.SHARE and high <= WHOLE < float(text))
    )
    return RowScale(axis, ticks)


def _linear_scale(low: float, high: float, rows: int) -> RowScale:
    low, high = widen_if_empty(low, high)
    best = _best(_linear_candidates(high - low, rows), low, high, rows)
    step = best.row_size * best.rows_per_tick
    texts = tuple((row, tick_label(number * step, step)) for row, number in best.ticks(rows))
    return RowScale(Axis(*best.ends(rows)), texts)


def _linear_candidates(size: float, rows: int) -> Iterator[_Candidate]:
    for rows_per_tick in _tick_distances(rows):
        step = round_step(rows_per_tick * size / rows)
        for _ in range(4):
            row_size = step / rows_per_tick
            cost = row_size * _density_cost(rows_per_tick, rows)
            yield _Candidate(row_size, rows_per_tick, 0.0, cost)
            step = round_step(1.01 * step)


def _log_scale(low: float, high: float, rows: int) -> RowScale:
    low = min(max(low, TINY), HUGE)
    high = min(max(high, low), HUGE)
    ends = math.log10(low), math.log10(high)
    if ends[1] - ends[0] > MAX_POWERS:
        return RowScale(log_axis(low, high), ())
    best = _best(_log_candidates(ends[1] - ends[0], rows), *ends, rows)
    bottom, top = best.ends(rows)
    # Ratios such as 2 would leave most of the rows empty, and so short a scale is almost linear.
    if ends[1] - ends[0] < MIN_USED_SHARE * (top - bottom):
        return _linear_scale(low, high, rows)
    step = best.row_size * best.rows_per_tick
    ticks = best.ticks(rows)
    values = [float(f"{10 ** (best.offset + n * step):.6g}") for _, n in ticks]
    texts = tuple(zip((row for row, _ in ticks), log_tick_labels(values), strict=True))
    return RowScale(Axis(10**bottom, 10**top, log=True), texts)


def _log_candidates(size: float, rows: int) -> Iterator[_Candidate]:
    for rows_per_tick in _tick_distances(rows):
        powers = max(1, math.ceil(rows_per_tick * size / rows))
        # The last one has room for all, wherever its ticks are.
        steps = [(float(power), 1, 1.0) for power in (powers, powers + 1, 2 * powers, 4 * powers)]
        steps += [(float(powers), anchor, 1.1) for anchor in ANCHORS]
        steps += [(math.log10(ratio), 1, cost) for ratio, cost in SMALL_RATIOS.items()]
        for step, anchor, step_cost in steps:
            row_size = step / rows_per_tick
            cost = row_size * step_cost * _density_cost(rows_per_tick, rows)
            yield _Candidate(row_size, rows_per_tick, math.log10(anchor), cost)


def _tick_distances(rows: int) -> range:
    """Return the distances of ticks, in rows, of which two may fit."""
    return range(1, max(2, min(rows, MAX_ROWS_PER_TICK + 1)))


def _density_cost(rows_per_tick: int, rows: int) -> float:
    """Return by how much worse a scale is with ticks so close to each other."""
    least = 1 if rows < 4 else 2 if rows < 12 else 3
    return 1.0 if rows_per_tick >= least else 1.5


def _best(candidates: Iterator[_Candidate], low: float, high: float, rows: int) -> _Candidate:
    """Return the best scale that has room for all values, and has two ticks if there can be."""

    def rating(scale: _Candidate) -> tuple[bool, float]:
        num_ticks = len(scale.ticks(rows))
        is_sparse = num_ticks < 3 and rows >= MIN_ROWS_FOR_THREE
        return num_ticks < 2, scale.cost * (SPARSE_COST if is_sparse else 1.0)

    placed = [scale.placed(low, high, rows) for scale in candidates]
    return min((scale for scale in placed if scale), key=rating)
