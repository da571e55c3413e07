"""Intervals of one cell, against scipy and against a known truth."""

from __future__ import annotations

import math

import numpy as np
import pytest

from remote.statistics.interval import (
    ENOUGH_FOR_BOOTSTRAP,
    Interval,
    IntervalMethod,
    ValueScale,
    bootstrap_interval,
    mean_interval,
    t_interval,
)
from remote.statistics.student_t import t_bound, t_probability

TIMES = [1.304, 1.355, 1.291, 1.402, 1.318]


@pytest.mark.parametrize("freedom", [1, 2, 8, 200])
def test_t_is_scipys(stats, freedom):
    for t in (0.0, 0.3, 2.5, -4.0, 30.0):
        expected = 2 * stats.t.sf(abs(t), freedom)
        assert t_probability(t, freedom) == pytest.approx(expected, abs=1e-13)
    assert t_bound(0.95, freedom) == pytest.approx(stats.t.ppf(0.975, freedom))


def test_with_infinite_freedom_t_is_normal(stats):
    assert t_bound(0.95, math.inf) == pytest.approx(stats.norm.ppf(0.975))
    assert t_probability(1.5, math.inf) == pytest.approx(2 * stats.norm.sf(1.5))


def test_t_interval_of_times_is_scipys_on_logarithms(stats):
    logs = np.log(TIMES)
    expected = np.exp(stats.t.interval(0.95, 4, logs.mean(), stats.sem(logs)))
    found = t_interval(TIMES)
    assert (found.low, found.high) == pytest.approx(tuple(expected))
    assert found.value == pytest.approx(stats.gmean(TIMES))
    assert (found.runs, found.method) == (5, IntervalMethod.T_LOGS)


def test_t_interval_of_accuracies_is_scipys(stats):
    values = [0.0, 0.1, 0.3, 0.2]
    expected = stats.t.interval(0.9, 3, np.mean(values), stats.sem(values))
    found = t_interval(values, ValueScale.DIFFERENCE, 0.9)
    assert (found.low, found.high) == pytest.approx(expected)
    assert (found.value, found.method) == (pytest.approx(0.15), IntervalMethod.T)


def test_bootstrap_interval_is_scipys(stats):
    values = np.random.default_rng(5).lognormal(0.2, 0.3, 30)
    values[:4] *= 3  # a skew, which the acceleration is for
    expected = stats.bootstrap(
        (np.log(values),), np.mean, n_resamples=20_000, method="BCa", rng=np.random.default_rng(7)
    ).confidence_interval
    found = bootstrap_interval(values)
    width = expected.high - expected.low
    assert math.log(found.low) == pytest.approx(expected.low, abs=0.02 * width)
    assert math.log(found.high) == pytest.approx(expected.high, abs=0.02 * width)


def test_bootstrap_repeats():
    values = np.random.default_rng(5).lognormal(0.2, 0.3, 30)
    assert bootstrap_interval(values) == bootstrap_interval(values)


@pytest.mark.parametrize(
    ("runs", "method"),
    [
        (2, IntervalMethod.T_LOGS),
        (ENOUGH_FOR_BOOTSTRAP - 1, IntervalMethod.T_LOGS),
        (ENOUGH_FOR_BOOTSTRAP, IntervalMethod.BOOTSTRAP),
    ],
)
def test_the_number_of_runs_chooses_the_interval(runs, method):
    values = np.random.default_rng(1).lognormal(0, 0.03, runs)
    assert mean_interval([*values, math.nan, math.inf]).method is method


def test_of_five_runs_t_covers_what_it_says_and_a_bootstrap_does_not():
    """Why few runs are shown by t. The truth is 1, the noise lognormal."""
    studies = np.random.default_rng(2).lognormal(0, 0.05, (200, 5))
    by_t = [t_interval(runs).holds(1.0) for runs in studies]
    by_bootstrap = [bootstrap_interval(runs).holds(1.0) for runs in studies]
    assert np.mean(by_t) >= 0.93
    assert np.mean(by_bootstrap) <= 0.89


@pytest.mark.parametrize("values", [[], [math.nan]])
def test_no_run_has_no_value(values):
    found = mean_interval(values)
    assert math.isnan(found.value)
    assert math.isnan(found.percent)
    assert found.runs == 0


def test_one_run_has_a_value_without_bounds():
    found = mean_interval([2.0])
    assert found.value == pytest.approx(2.0)
    assert math.isnan(found.low)
    assert math.isnan(found.percent)
    assert found.method is IntervalMethod.NONE


@pytest.mark.parametrize("count", [2, ENOUGH_FOR_BOOTSTRAP])
def test_equal_values_have_no_width(count):
    found = mean_interval([0.25] * count)
    assert found.percent == pytest.approx(0, abs=1e-12)
    assert found.value == pytest.approx(0.25)


def test_percent_is_half_the_width():
    assert Interval(2.0, 1.9, 2.2, 5, IntervalMethod.T).percent == pytest.approx(7.5)


def test_the_inverse_of_a_ratio_is_a_speed_up():
    found = Interval(0.5, 0.4, 0.8, 5, IntervalMethod.T).inverse(2.0)
    assert (found.value, found.low, found.high) == pytest.approx((4.0, 2.5, 5.0))
