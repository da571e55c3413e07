"""Ratios of cells, the test of a difference and its correction, against scipy on fixed data."""

from __future__ import annotations

import math

import numpy as np
import pytest

from remote.statistics.block_model import SHARED, BlockModel, draw_null
from remote.statistics.comparison import Finding, compare_cells, mean_ratio, measure_speed_ups
from remote.statistics.interval import IntervalMethod, ValueScale

TIMES = np.array(  # five repetitions of gather/scatter, all_reduce, DDP; the machine drifts
    [
        [1.30, 0.93, 0.66],
        [1.36, 0.95, 0.71],
        [1.29, 0.91, 0.65],
        [1.45, 1.02, 0.72],
        [1.33, 0.97, 0.69],
    ]
)
ALL = [(1, 0), (2, 0)]


def anova(logs: np.ndarray) -> tuple[float, int]:
    """The residual variance of a table without holes, by the textbook."""
    blocks, cells = logs.shape
    means = logs.mean(axis=0) + logs.mean(axis=1, keepdims=True) - logs.mean()
    freedom = (blocks - 1) * (cells - 1)
    return float(((logs - means) ** 2).sum() / freedom), freedom


def test_two_cells_are_compared_as_scipy_compares_paired_values(stats):
    logs = np.log(TIMES[:, :2])
    expected = stats.ttest_rel(logs[:, 1], logs[:, 0])
    bounds = expected.confidence_interval(0.95)
    (found,) = compare_cells(TIMES[:, :2], [(1, 0)]).pairs
    assert found.p == pytest.approx(expected.pvalue, rel=0.1, abs=1e-4)
    assert np.log([found.ratio.low, found.ratio.high]) == pytest.approx(tuple(bounds), rel=0.01)
    assert found.ratio.value == pytest.approx(stats.gmean(TIMES[:, 1] / TIMES[:, 0]))
    assert (found.finding, found.ratio.runs) == (Finding.FASTER, 5)


def test_p_values_of_two_cells_are_scipys(stats):
    drawn = draw_null(BlockModel.of(np.ones((5, 2), bool)), [(1, 0)], together=True)
    for t in (0.5, 1.5, 2.776, 5.0):
        assert (drawn > t).mean() == pytest.approx(2 * stats.t.sf(t, 4), abs=0.005)


def test_noise_is_the_residual_deviation():
    variance, _ = anova(np.log(TIMES))
    found = compare_cells(TIMES, ALL)
    assert found.noise == pytest.approx(math.sqrt(variance))


@pytest.mark.parametrize(("cells", "freedom"), [(3, 8), (5, 16), (7, 24)])
def test_with_one_variance_for_all_the_correction_is_dunnetts(stats, cells, freedom):
    """Comparisons with one reference are correlated by 1/2."""
    pairs = [(cell, 0) for cell in range(1, cells)]
    drawn = draw_null(BlockModel.of(np.ones((5, cells), bool)), pairs, together=True, shared=1e9)
    bound = np.full(cells - 1, np.quantile(drawn[0], 0.95))
    correlation = np.full((cells - 1, cells - 1), 0.5) + 0.5 * np.eye(cells - 1)
    exact = stats.multivariate_t(shape=correlation, df=freedom, seed=1)
    assert exact.cdf(bound, lower_limit=-bound, maxpts=20_000) == pytest.approx(0.95, abs=0.004)


@pytest.mark.parametrize("cells", [3, 5, 7])
def test_the_bound_is_that_of_simulated_studies(cells):
    """The moderated |t| of whole studies, from the textbook's formulas."""
    values = np.random.default_rng(cells).normal(0, 1, (20_000, 5, cells))
    means = values.mean(axis=1)
    rest = (
        values
        - means[:, None]
        - values.mean(axis=2, keepdims=True)
        + values.mean(axis=(1, 2), keepdims=True)
    )
    freedom = 4 * (cells - 1) / cells
    squares = (rest**2).sum(axis=1)
    variance = (squares + SHARED * squares.mean(axis=1, keepdims=True) / freedom) / (
        freedom + SHARED
    )
    error = np.sqrt((variance[:, 1:] + variance[:, :1]) / 5)
    largest = (abs(means[:, 1:] - means[:, :1]) / error).max(axis=1)
    pairs = [(cell, 0) for cell in range(1, cells)]
    drawn = draw_null(BlockModel.of(np.ones((5, cells), bool)), pairs, together=True)
    assert (largest > np.quantile(drawn[0], 0.95)).mean() == pytest.approx(0.05, abs=0.006)


def test_p_values_are_dunnetts_where_there_are_many_blocks(stats):
    """scipy's test knows no blocks. Of many, few degrees of freedom go to them."""
    table = np.random.default_rng(8).normal(10, 0.4, (30, 4)) + np.array([0, 0.1, 0.2, 0.15])
    found = compare_cells(table, [(1, 0), (2, 0), (3, 0)], ValueScale.DIFFERENCE)
    expected = stats.dunnett(*table.T[1:], control=table[:, 0], rng=np.random.default_rng(1))
    assert [each.p for each in found.pairs] == pytest.approx(expected.pvalue, abs=0.05)


def test_intervals_together_are_wider_and_agree_with_the_findings():
    together, alone = compare_cells(TIMES, ALL), compare_cells(TIMES, ALL, together=False)
    for wide, narrow in zip(together.pairs, alone.pairs, strict=True):
        assert wide.ratio.low < narrow.ratio.low
        assert wide.p >= narrow.p
        assert (wide.p <= 0.05) is not wide.ratio.holds(1.0)


def test_a_drift_of_the_machine_drops_out():
    drift = np.array([[1.0], [1.4], [0.8], [2.0], [1.1]])
    steady, drifting = compare_cells(TIMES, ALL), compare_cells(TIMES * drift, ALL)
    for before, after in zip(steady.pairs, drifting.pairs, strict=True):
        assert after.ratio.value == pytest.approx(before.ratio.value)
        assert after.p == pytest.approx(before.p)


def test_a_missing_run_leaves_the_others_of_its_block():
    """As a regression on cells and blocks finds it."""
    table = TIMES.copy()
    table[3, 2] = math.nan
    present = np.isfinite(table)
    block, cell = np.nonzero(present)
    design = np.column_stack([cell == 1, cell == 2, *(block == each for each in range(5))])
    values, (left,), *_ = np.linalg.lstsq(design.astype(float), np.log(table[present]))
    found = compare_cells(table, ALL)
    assert [each.ratio.value for each in found.pairs] == pytest.approx(np.exp(values[:2]))
    assert found.noise == pytest.approx(math.sqrt(left / (14 - 7)))
    assert [each.ratio.runs for each in found.pairs] == [5, 4]


def test_a_cell_without_runs_is_compared_with_nothing():
    table = TIMES.copy()
    table[:, 2] = math.nan
    found = compare_cells(table, ALL)
    assert found.pairs[0].finding is Finding.FASTER
    assert found.pairs[1].finding is Finding.NOT_SHOWN
    assert math.isnan(found.pairs[1].p)
    assert math.isnan(found.pairs[1].ratio.low)
    assert found.pairs[1].ratio.method is IntervalMethod.NONE


@pytest.mark.parametrize("blocks", [0, 3])
def test_a_study_without_runs_shows_nothing(blocks):
    (found,) = compare_cells(np.full((blocks, 2), math.nan), [(1, 0)]).pairs
    assert math.isnan(found.ratio.value)
    assert found.finding is Finding.NOT_SHOWN


def test_cells_that_share_no_block_are_not_compared():
    table = np.array([[1.0, math.nan], [1.1, math.nan], [math.nan, 2.0], [math.nan, 2.1]])
    (found,) = compare_cells(table, [(1, 0)]).pairs
    assert found.finding is Finding.NOT_SHOWN
    assert math.isnan(found.ratio.value)


def test_one_repetition_shows_no_difference():
    found = compare_cells(TIMES[:1], ALL)
    assert [each.finding for each in found.pairs] == [Finding.NOT_SHOWN] * 2
    assert found.pairs[0].ratio.value == pytest.approx(0.93 / 1.30)
    assert math.isnan(found.noise)


def test_a_slow_outlier_is_left_out_and_named():
    table = TIMES.copy()
    table[1, 2] *= 1.8
    found = compare_cells(table, ALL)
    assert found.left_out == ((1, 2),)
    holed = TIMES.copy()
    holed[1, 2] = math.nan
    assert [each.ratio.value for each in found.pairs] == pytest.approx(
        [each.ratio.value for each in compare_cells(holed, ALL).pairs]
    )


def test_of_a_cell_one_run_in_five_is_left_out_at_most():
    table = np.tile(TIMES, (1, 3))
    table[[1, 3], 4] *= 1.8
    assert len(compare_cells(table, ALL).left_out) <= 1


def test_a_noisy_cell_has_a_wider_interval():
    noise = np.random.default_rng(3).normal(0, 0.02, (8, 4)) * [1, 4, 1, 1]
    found = compare_cells(np.exp(noise), [(1, 0), (2, 0), (3, 0)])
    noisy, *others = (each.ratio.percent for each in found.pairs)
    assert noisy > 1.3 * max(others)


def test_accuracies_are_compared_by_their_difference():
    table = np.array([[0.50, 0.60], [0.52, 0.61], [0.49, 0.60], [0.51, 0.62], [0.0, 0.1]])
    (found,) = compare_cells(table, [(1, 0)], ValueScale.DIFFERENCE).pairs
    assert found.finding is Finding.HIGHER
    assert found.ratio.value == pytest.approx(0.102, abs=0.01)
    (found,) = compare_cells(table[:, ::-1], [(1, 0)], ValueScale.DIFFERENCE).pairs
    assert found.finding is Finding.LOWER


def test_values_without_noise_are_equal_or_not():
    table = np.tile([2.1, 2.1, 2.2], (5, 1)) + np.arange(5)[:, None] / 10
    found = compare_cells(table, ALL, ValueScale.DIFFERENCE)
    assert found.noise == 0
    assert [each.finding for each in found.pairs] == [Finding.NOT_SHOWN, Finding.HIGHER]
    assert [each.p for each in found.pairs] == [1.0, 0.0]


# Over several cells -------------------------------------------------------------------------------


def test_mean_ratio_is_the_geometric_mean_over_cells(stats):
    table = np.hstack([TIMES, TIMES * 0.7])
    pairs = [(1, 0), (4, 3), (5, 2)]
    ratios = np.log([table[:, cell] / table[:, reference] for cell, reference in pairs])
    blocks = ratios.mean(axis=0)
    bounds = np.exp(stats.t.interval(0.95, 4, blocks.mean(), stats.sem(blocks)))
    found = mean_ratio(table, pairs)
    assert found.value == pytest.approx(np.exp(blocks.mean()))
    assert (found.low, found.high) == pytest.approx(tuple(bounds))


def test_speed_up_of_each_cell():
    found = measure_speed_ups(TIMES, 0)
    (_, ratio) = compare_cells(TIMES, ALL, together=False).pairs
    assert found[2].value == pytest.approx(1 / ratio.ratio.value)
    assert found[2].low == pytest.approx(1 / ratio.ratio.high)
    assert (found[0].low, found[0].method) == (1.0, IntervalMethod.EXACT)
