"""Stable or not, outliers, warm-up, equal final losses, two runs by their steps."""

from __future__ import annotations

import math

import numpy as np
import pytest

from remote.statistics.comparison import Finding
from remote.statistics.equivalence import measure_equivalence
from remote.statistics.stability import check_stability, count_warm_up
from remote.statistics.steps import choose_block_length, compare_steps, time_to_target

# Stability ----------------------------------------------------------------------------------------


def test_runs_that_agree_are_stable(stats):
    found = check_stability([1.00, 1.02, 0.99, math.nan, 1.01])
    assert found.is_stable
    assert found.runs == 4
    assert found.variation == pytest.approx(stats.variation([1.00, 1.02, 0.99, 1.01], ddof=1))


def test_a_wide_spread_is_named():
    assert check_stability([1.0, 1.2, 0.9]).warnings == (
        "the standard deviation is 15% of the mean",
    )


def test_extremes_are_named():
    steady = [1.0] * 60
    assert check_stability([*steady, 1.55]).warnings == (
        "the maximum is 54% greater than the mean",
    )
    assert check_stability([*steady, 0.45]).warnings == (
        "the minimum is 55% smaller than the mean",
    )


@pytest.mark.parametrize("values", [[], [1.0], [1.0, 1.0]])
def test_few_runs_are_not_called_unstable(values):
    assert check_stability(values).is_stable


# Warm-up ------------------------------------------------------------------------------------------


def test_slow_first_steps_are_the_warm_up():
    steady = 1 + 0.01 * np.sin(np.arange(40))
    assert count_warm_up([3.0, 1.2, *steady]) == 2
    assert count_warm_up(steady) == 0


def test_a_slow_step_later_is_no_warm_up():
    steady = 1 + 0.01 * np.sin(np.arange(40))
    steady[5] = 3.0
    assert count_warm_up(steady) == 0


def test_a_warm_up_is_at_most_half():
    assert count_warm_up([9.0, 8.0, 7.0, 1.0, 1.0, 1.0]) == 3
    assert count_warm_up([9.0, 1.0, 1.0]) == 0


# Equivalence --------------------------------------------------------------------------------------


def test_what_is_apart_by_rounding_is_the_same():
    assert measure_equivalence([2.1, 2.2], [2.1 + 2e-7, 2.2]).is_same
    assert not measure_equivalence([2.1, 2.2], [2.1 + 2e-5, 2.2]).is_same


def test_equal_losses_are_equal():
    found = measure_equivalence([2.1, 2.2, math.nan], [2.1, 2.2, 2.3])
    assert found.is_same
    assert found.within == 0
    assert found.difference.runs == 2


def test_losses_are_equal_within_what_two_one_sided_tests_show(stats):
    first, second = np.array([2.107, 2.120, 2.099, 2.111]), np.array([2.101, 2.125, 2.097, 2.104])
    found = measure_equivalence(first, second)
    assert not found.is_same
    lower = stats.ttest_1samp(first - second, -found.within, alternative="greater").pvalue
    upper = stats.ttest_1samp(first - second, found.within, alternative="less").pvalue
    assert max(lower, upper) == pytest.approx(0.05)


def test_one_run_each_shows_no_margin():
    found = measure_equivalence([2.1], [2.2])
    assert found.difference.value == pytest.approx(-0.1)
    assert math.isnan(found.within)
    assert not found.is_same


def test_no_common_repetition_is_not_equal():
    assert not measure_equivalence([2.1, math.nan], [math.nan, 2.1]).is_same


# Two runs by their steps --------------------------------------------------------------------------


def correlated(generator, steps: int, pull: float, noise: float) -> np.ndarray:
    """Seconds of steps around 1 whose noise keeps the share `pull` of that of the step before.
    Shape: (500, steps)."""
    values = generator.standard_normal((500, steps + 50))
    for at in range(1, steps + 50):
        values[:, at] = pull * values[:, at - 1] + math.sqrt(1 - pull**2) * values[:, at]
    return 1 + noise * values[:, 50:]


def test_two_equal_runs_seldom_differ_however_their_steps_are_correlated(stats):
    generator = np.random.default_rng(3)
    first, second = (correlated(generator, 400, 0.7, 0.1) for _ in range(2))
    pairs = zip(first, second, strict=True)
    shown = [compare_steps(*pair, between=0).finding is not Finding.NOT_SHOWN for pair in pairs]
    assert np.mean(shown) <= 0.09
    naive = stats.ttest_ind(first, second, axis=1).pvalue < 0.05
    assert np.mean(naive) > 0.25  # what steps taken as independent would show


def test_a_run_of_faster_steps_is_faster():
    steps = correlated(np.random.default_rng(4), 60, 0.3, 0.05)
    found = compare_steps(steps[0] * 0.8, steps[1])
    assert found.finding is Finding.FASTER
    assert found.ratio.holds(0.8)
    assert found.p < 0.01
    assert compare_steps(steps[1], steps[0] * 0.8).finding is Finding.SLOWER


def test_a_difference_that_runs_of_equal_settings_have_is_not_shown():
    steps = np.full(60, 1.0)
    steps[::2] = 1.001
    found = compare_steps(steps * 1.05, steps)
    assert found.finding is Finding.NOT_SHOWN
    assert compare_steps(steps * 1.05, steps, between=0).finding is Finding.SLOWER


def test_runs_without_steps_show_nothing():
    assert math.isnan(compare_steps([], [1.0, 1.0]).ratio.value)
    single = compare_steps([2.0], [1.0, 1.0])
    assert single.ratio.value == pytest.approx(2.0)
    assert single.finding is Finding.NOT_SHOWN


@pytest.mark.parametrize("pull", [0.3, 0.5, 0.8])
def test_blocks_are_as_long_as_the_correlation_asks(pull):
    """The best length for this process is known in closed form (Politis and White 2004)."""
    best = (6 * pull**2 / (1 - pull**2) ** 2 * 1000) ** (1 / 3)
    lengths = [
        choose_block_length(run) for run in correlated(np.random.default_rng(6), 1000, pull, 1)[:60]
    ]
    assert np.median(lengths) == pytest.approx(best, rel=0.4)


def test_constant_steps_need_no_blocks():
    assert choose_block_length(np.ones(50)) == 1


# Targets ------------------------------------------------------------------------------------------


def test_time_to_target():
    seconds, accuracy = [10, 20, 30, 40], [0.2, 0.5, 0.4, 0.7]
    assert time_to_target(seconds, accuracy, 0.5) == 20
    assert time_to_target(seconds, accuracy, 0.9) == math.inf
    loss = [2.3, 1.0, 1.9, 0.9]
    assert time_to_target(seconds, loss, 1.0, is_falling=True) == 20
    assert time_to_target(seconds, loss, 1.5, is_falling=True, window=2) == 30
    assert time_to_target([], [], 0.5) == math.inf
