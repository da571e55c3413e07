"""How cells of a study differ: ratios with intervals, and a test that counts all comparisons."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import ArrayLike

from remote.statistics.interval import LEVEL, Interval, Method, Numbers, Scale, around, by_t
from remote.statistics.layout import (
    DRAWS,
    Layout,
    Pair,
    errors,
    layout,
    outlier,
    variances,
    yardstick,
)

OUTLIERS = 0.01
"""Of studies whose noise is normal, the share that loses a run as an outlier."""

TINY = 1e-12
"""Noise and differences below this share of the values are rounding."""


class Finding(StrEnum):
    """What a comparison shows of the cell."""

    FASTER = "faster"
    SLOWER = "slower"
    HIGHER = "higher"
    LOWER = "lower"
    NOT_SHOWN = "no difference shown"


@dataclass(frozen=True)
class Comparison:
    """A cell against its reference."""

    cell: int
    reference: int
    ratio: Interval
    """Cell / reference; cell - reference on the scale of differences."""
    p: float
    """How often a study without a difference shows at least this much. NaN if not known."""
    finding: Finding


@dataclass(frozen=True)
class Comparisons:
    """The comparisons of a study, in the order of the pairs."""

    pairs: tuple[Comparison, ...]
    noise: float
    """Standard deviation from run to run within a block; on the scale of ratios this is close to
    the coefficient of variation. NaN if not known."""
    freedom: int
    """Degrees of freedom of that estimate."""
    left_out: tuple[tuple[int, int], ...]
    """Runs that were left out as outliers: (block, cell), to be named in a report."""


def compare(
    table: ArrayLike,
    pairs: Sequence[Pair],
    scale: Scale = Scale.RATIO,
    level: float = LEVEL,
    together: bool = True,
    draws: int = DRAWS,
) -> Comparisons:
    """Compare cells with their references.

    `table` is blocks × cells: one value per run, NaN where there is none. With `together` the
    level holds for all pairs at once: of studies without a difference, 1 - `level` report any.
    Without, it holds for each pair alone. `draws` says how exactly.
    """
    values = scale.forward(table)
    whole = layout(np.isfinite(values))
    plan, left_out = _without_outliers(values, whole)
    runs = values[plan.present]
    residuals = plan.rest @ runs
    noise = _noise(plan, runs, residuals)
    weights = plan.contrasts(pairs)
    middles = weights @ runs
    middles[abs(middles) <= TINY * abs(runs).max(initial=0)] = 0.0  # that is rounding
    counts = np.array([plan.present[:, pair].sum(axis=0).min() for pair in map(list, pairs)])
    middles[counts == 0] = np.nan
    reach, p = np.full((2, len(pairs)), np.nan)
    known = np.flatnonzero(np.isfinite(middles)).tolist()
    if len(known) and noise == 0:
        reach[known], p[known] = 0.0, middles[known] == 0
    elif len(known) and noise > 0:
        error = errors(plan, weights[known], variances(plan, residuals))
        drawn = yardstick(whole, [pairs[at] for at in known], together, draws=draws)
        bound, p[known] = _judged(middles[known] / error, drawn, level)
        reach[known] = bound * error
    compared = tuple(
        _comparison(
            pair, float(middles[at]), float(reach[at]), float(p[at]), int(counts[at]), scale, level
        )
        for at, pair in enumerate(pairs)
    )
    return Comparisons(compared, noise, plan.freedom, left_out)


def _judged(t: Numbers, drawn: Numbers, level: float) -> tuple[Numbers, Numbers]:
    """The |t| up to which no difference is shown, and the p-values. They agree: p is at most
    1 - level, if and only if |t| is above the bound."""
    count = drawn.shape[1]
    above = [count - np.searchsorted(row, each) for row, each in zip(drawn, abs(t), strict=True)]
    bound = drawn[:, math.ceil(level * (count + 1)) - 1]
    return bound, (np.array(above) + 1) / (count + 1)


def finding(ratio: Interval, scale: Scale) -> Finding:
    """What the interval of a ratio or difference shows."""
    same, less, more = (
        (1.0, Finding.FASTER, Finding.SLOWER)
        if scale is Scale.RATIO
        else (0.0, Finding.LOWER, Finding.HIGHER)
    )
    if ratio.high < same:
        return less
    return more if ratio.low > same else Finding.NOT_SHOWN


def _comparison(
    pair: Pair, middle: float, reach: float, p: float, runs: int, scale: Scale, level: float
) -> Comparison:
    method = Method.T_LOGS if scale is Scale.RATIO else Method.T
    method = Method.NONE if math.isnan(reach) else method
    ratio = around(middle, reach, runs, method, scale, level)
    return Comparison(*pair, ratio, p, finding(ratio, scale))


def _without_outliers(values: Numbers, plan: Layout) -> tuple[Layout, tuple[tuple[int, int], ...]]:
    """Leave out runs that do not fit, one by one: of a cell at most one in five, because what
    happens more often is the cell's own."""
    left_out: list[tuple[int, int]] = []
    allowed = [math.ceil(count / 5) if count > 2 else 0 for count in plan.present.sum(axis=0)]
    while True:
        runs = values[plan.present]
        residuals = plan.rest @ runs
        worst = outlier(plan, runs, residuals, OUTLIERS) if _noise(plan, runs, residuals) else None
        if worst is None:
            return plan, tuple(left_out)
        block, cell = (int(axis[worst]) for axis in np.nonzero(plan.present))
        if not allowed[cell]:
            return plan, tuple(left_out)
        allowed[cell] -= 1
        left_out.append((block, cell))
        plan = plan.without(block, cell)


def _noise(plan: Layout, runs: Numbers, residuals: Numbers) -> float:
    if plan.freedom < 1:
        return math.nan
    noise = math.sqrt(float(residuals @ residuals) / plan.freedom)
    return noise if noise > TINY * abs(runs).max() else 0.0


# Over several cells -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Scaling:
    """What more workers bring to a cell."""

    cell: int
    speed_up: Interval
    """Time of the baseline / time of the cell."""
    efficiency: Interval
    """Speed-up over how many times as many workers: 1 at best, if nothing else changes."""


def scaling(
    times: ArrayLike,
    baseline: int,
    workers: Sequence[int],
    level: float = LEVEL,
    draws: int = DRAWS,
) -> tuple[Scaling, ...]:
    """The speed-up and efficiency of each cell against the baseline, a column of `times`: blocks ×
    cells. The level holds for each cell alone. `workers` has one number per cell."""
    cells = [cell for cell in range(len(workers)) if cell != baseline]
    pairs = [(cell, baseline) for cell in cells]
    found = compare(times, pairs, level=level, together=False, draws=draws)
    ratios = {each.cell: each.ratio for each in found.pairs}
    runs = int(np.isfinite(np.asarray(times)[:, baseline]).sum())
    ratios[baseline] = Interval(1.0, 1.0, 1.0, runs, Method.EXACT, level)
    return tuple(
        Scaling(cell, ratio.inverse(), ratio.inverse(workers[baseline] / workers[cell]))
        for cell, ratio in sorted(ratios.items())
    )


def mean_ratio(
    table: ArrayLike, pairs: Sequence[Pair], scale: Scale = Scale.RATIO, level: float = LEVEL
) -> Interval:
    """The geometric mean of the pairs' ratios: how much faster one method is over several cells.
    On the scale of differences the mean difference.

    Its interval rests on the means of single blocks; one in which a pair is not whole does not
    count.
    """
    values = scale.forward(table)
    cells, references = (list(column) for column in zip(*pairs, strict=True))
    apart = (values[:, cells] - values[:, references]).mean(axis=1)
    if scale is Scale.RATIO:
        apart = np.exp(apart)
    return by_t(apart, scale, level)
