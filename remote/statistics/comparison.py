"""Compares cells of a study: ratios with intervals, and a test that counts all comparisons."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import ArrayLike

from remote.statistics.block_model import (
    DRAWS,
    BlockModel,
    CellPair,
    cell_variances,
    contrast_errors,
    draw_null,
    find_outlier,
)
from remote.statistics.interval import (
    LEVEL,
    Interval,
    IntervalMethod,
    Numbers,
    ValueScale,
    symmetric_interval,
    t_interval,
    t_method,
)

OUTLIER_ALPHA = 0.01
"""Of studies whose noise is normal, the share that loses a run as an outlier."""
OUTLIER_SHARE = 5
"""Of so many runs of a cell one may be left out: what happens more often is the cell's own."""
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
    left_out: tuple[tuple[int, int], ...]
    """Runs that were left out as outliers: (block, cell), to be named in a report."""


def compare_cells(
    table: ArrayLike,
    pairs: Sequence[CellPair],
    scale: ValueScale = ValueScale.RATIO,
    together: bool = True,
    draws: int = DRAWS,
) -> Comparisons:
    """Compare cells with their references.

    `table` is blocks x cells: one value per run, NaN if there is none. With `together` the level
    holds for all pairs at once: of studies without a difference, 5 % report any. Without, it holds
    for each pair alone. `draws` says how exactly.
    """
    added_values = scale.forward(table)
    # The bounds are those of all runs, outliers too: so they are drawn once for a study.
    whole_model = BlockModel.of(np.isfinite(added_values))
    model, left_out = _leave_out_outliers(added_values, whole_model)
    values = added_values[model.present]
    residuals = model.rest @ values
    noise = _measure_noise(model, values, residuals)
    run_counts = [int(model.present[:, list(pair)].sum(axis=0).min()) for pair in pairs]
    weights = model.contrasts(pairs)
    middles = _differences(weights, values, run_counts)
    reaches = np.full(len(pairs), np.nan)
    p_values = np.full(len(pairs), np.nan)
    # Pairs that no common block connects have no difference, and stay NaN.
    known_indices = np.flatnonzero(np.isfinite(middles)).tolist()
    if known_indices and noise == 0:
        # Without noise, as accuracies may be equal in all runs, t would divide by zero.
        reaches[known_indices] = 0.0
        p_values[known_indices] = middles[known_indices] == 0
    elif known_indices and noise > 0:
        errors = contrast_errors(model, weights[known_indices], cell_variances(model, residuals))
        null_draws = draw_null(
            whole_model, [pairs[index] for index in known_indices], together, draws=draws
        )
        bounds, p_values[known_indices] = _judge(middles[known_indices] / errors, null_draws)
        reaches[known_indices] = bounds * errors
    comparisons = []
    for index, (cell, reference) in enumerate(pairs):
        reach = float(reaches[index])
        method = IntervalMethod.NONE if math.isnan(reach) else t_method(scale)
        ratio = symmetric_interval(
            float(middles[index]), reach, run_counts[index], method, scale, LEVEL
        )
        finding = judge_ratio(ratio, scale)
        comparisons.append(Comparison(cell, reference, ratio, float(p_values[index]), finding))
    return Comparisons(tuple(comparisons), noise, left_out)


def _differences(weights: Numbers, values: Numbers, runs: Sequence[int]) -> Numbers:
    """Return the difference of each pair; NaN if one of its cells has no run."""
    differences = weights @ values
    differences[abs(differences) <= TINY * abs(values).max(initial=0)] = 0.0
    differences[np.array(runs) == 0] = np.nan
    return differences


def _judge(t_values: Numbers, null_draws: Numbers) -> tuple[Numbers, Numbers]:
    """Return the |t| up to which no difference is shown, and the p-values.

    They agree: p is at most 5 % if and only if |t| is above the bound.
    """
    draws = null_draws.shape[1]
    smaller_counts = [
        np.searchsorted(row, abs(value)) for row, value in zip(null_draws, t_values, strict=True)
    ]
    bounds = null_draws[:, math.ceil(LEVEL * (draws + 1)) - 1]
    # One is added to both, as for any test by draws: a p-value is never 0.
    return bounds, (draws - np.array(smaller_counts) + 1) / (draws + 1)


def judge_ratio(ratio: Interval, scale: ValueScale) -> Finding:
    """Return what the interval of a ratio or difference shows."""
    is_ratio = scale is ValueScale.RATIO
    equal_value = 1.0 if is_ratio else 0.0
    if ratio.high < equal_value:
        return Finding.FASTER if is_ratio else Finding.LOWER
    if ratio.low > equal_value:
        return Finding.SLOWER if is_ratio else Finding.HIGHER
    return Finding.NOT_SHOWN


def _leave_out_outliers(
    numbers: Numbers, model: BlockModel
) -> tuple[BlockModel, tuple[tuple[int, int], ...]]:
    """Leave out runs that do not fit, one by one, and return which these are."""
    left_out: list[tuple[int, int]] = []
    allowed_outliers = []
    for runs in model.present.sum(axis=0):
        # Of two runs nobody knows which one is the outlier.
        allowed_outliers.append(math.ceil(runs / OUTLIER_SHARE) if runs > 2 else 0)
    while True:
        values = numbers[model.present]
        residuals = model.rest @ values
        if _measure_noise(model, values, residuals) == 0:
            break
        run = find_outlier(model, values, residuals, OUTLIER_ALPHA)
        if run is None:
            break
        block, cell = np.argwhere(model.present)[run].tolist()
        if not allowed_outliers[cell]:
            break
        allowed_outliers[cell] -= 1
        left_out.append((block, cell))
        # One at a time: an outlier shifts the effects by which the next one is judged.
        model = model.without(block, cell)
    return model, tuple(left_out)


def _measure_noise(model: BlockModel, values: Numbers, residuals: Numbers) -> float:
    if model.freedom < 1:
        return math.nan
    noise = math.sqrt(float(residuals @ residuals) / model.freedom)
    return noise if noise > TINY * abs(values).max() else 0.0


# Over several cells -------------------------------------------------------------------------------


def measure_speed_ups(times: ArrayLike, baseline: int, draws: int = DRAWS) -> dict[int, Interval]:
    """Return time of the baseline / time of the cell for each cell, a column of `times`.

    `times` is blocks x cells. The level holds for each cell alone.
    """
    values = np.asarray(times)
    # The baseline against itself is no comparison: its ratio is 1 by definition, see below.
    pairs = [(cell, baseline) for cell in range(values.shape[1]) if cell != baseline]
    comparisons = compare_cells(values, pairs, together=False, draws=draws)
    speed_ups = {pair.cell: pair.ratio.inverse() for pair in comparisons.pairs}
    runs = int(np.isfinite(values[:, baseline]).sum())
    speed_ups[baseline] = Interval(1.0, 1.0, 1.0, runs, IntervalMethod.EXACT)
    return speed_ups


def mean_ratio(
    table: ArrayLike, pairs: Sequence[CellPair], scale: ValueScale = ValueScale.RATIO
) -> Interval:
    """Return the geometric mean of the pairs' ratios: how much faster one method is over several
    cells. On the scale of differences it is the mean difference.

    Its interval rests on the means of single blocks; a block in which a pair is not whole does not
    count.
    """
    values = scale.forward(table)
    cells = [cell for cell, _ in pairs]
    references = [reference for _, reference in pairs]
    differences = (values[:, cells] - values[:, references]).mean(axis=1)
    if scale is ValueScale.RATIO:
        differences = np.exp(differences)
    return t_interval(differences, scale)
