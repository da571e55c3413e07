"""Compares two single runs by their steps, and finds when a run reached a target."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import ArrayLike

from remote.statistics.comparison import Comparison, judge_ratio
from remote.statistics.interval import (
    LEVEL,
    IntervalMethod,
    Numbers,
    ValueScale,
    symmetric_interval,
)
from remote.statistics.student_t import t_bound, t_probability

BETWEEN_RUNS = 0.03
"""Coefficient of variation from one run to the next, which a single run cannot show."""


def compare_steps(
    first: ArrayLike, second: ArrayLike, between: float = BETWEEN_RUNS, freedom: int = 0
) -> Comparison:
    """Compare the mean step times of two runs: first / second.

    Each array has a run's seconds per iteration, as a mean over ranks, without its warm-up. The
    interval allows for the noise of iterations by a block bootstrap, because they are correlated;
    and for noise from run to run, which is `between`: assumed, or measured with so many degrees of
    `freedom`, see `pooled_spread`.
    """
    known_runs = []
    for seconds in (first, second):
        array = np.asarray(seconds, dtype=np.float64)
        known_runs.append(array[np.isfinite(array)])
    fewest_steps = min(map(len, known_runs))
    middle_ratio = math.nan
    reach = math.nan
    p = math.nan
    method = IntervalMethod.NONE
    if fewest_steps:
        ratio_of_means = known_runs[0].mean() / known_runs[1].mean()
        middle_ratio = math.log(ratio_of_means)
    if fewest_steps > 1:
        method = IntervalMethod.BLOCKS
        run_variance = 2 * between**2
        step_variance = _mean_variance(known_runs[0]) + _mean_variance(known_runs[1])
        # Noise that was measured from run to run already holds that of the iterations.
        standard_error = math.sqrt(
            max(run_variance, step_variance) if freedom else run_variance + step_variance
        )
        freedom_of_error = freedom or math.inf
        reach = t_bound(LEVEL, freedom_of_error) * standard_error
        p = (
            t_probability(middle_ratio / standard_error, freedom_of_error)
            if standard_error
            else float(not middle_ratio)
        )
    ratio = symmetric_interval(middle_ratio, reach, fewest_steps, method, ValueScale.RATIO, LEVEL)
    return Comparison(0, 1, ratio, p, judge_ratio(ratio, ValueScale.RATIO))


def pooled_spread(groups: Iterable[Sequence[float]]) -> tuple[float, int]:
    """Return how much values of the same group differ, and the degrees of freedom of that.

    It is the standard deviation of their logarithms, pooled over all groups; NaN and 0 if no group
    has two values.
    """
    squares = 0.0
    freedom = 0
    for group in groups:
        if len(group) > 1:
            logarithms = np.log(np.asarray(group, dtype=np.float64))
            squares += float(((logarithms - logarithms.mean()) ** 2).sum())
            freedom += len(group) - 1
    return (math.sqrt(squares / freedom), freedom) if freedom else (math.nan, 0)


def _mean_variance(values: Numbers) -> float:
    """Return the variance of the logarithm of the mean under the circular block bootstrap.

    For a mean it has a closed form, so nothing is drawn (Künsch, Annals of Statistics 17, 1989).
    """
    length = choose_block_length(values)
    # The values begin again after their end, so that blocks go around it.
    circle = np.concatenate([[0.0], values, values[: length - 1]])
    totals = np.cumsum(circle)
    block_means = (totals[length:] - totals[:-length]) / length
    return float((block_means / values.mean()).var() * length / len(values))


def choose_block_length(values: Numbers) -> int:
    """Return how many neighbours a block of a circular bootstrap needs.

    It follows from how far their correlation reaches (Politis and White, Econometric Reviews 23,
    2004; corrected by Patton, Politis and White in 28, 2009).
    """
    count = len(values)
    quiet_lags = max(5, math.ceil(math.log10(count)))
    most_lags = min(math.ceil(math.sqrt(count)) + quiet_lags, count - 1)
    deviations = values - values.mean()
    products = [deviations[lag:] @ deviations[: count - lag] for lag in range(most_lags + 1)]
    covariances = np.array(products) / count
    variance = covariances[0]
    if not variance > 0:
        return 1
    limit = 2 * math.sqrt(math.log10(count) / count) * variance
    is_correlated = abs(covariances) > limit
    # The correlation ends before the first lags in a row without any.
    end = most_lags
    for lag in range(1, most_lags):
        if not is_correlated[lag : lag + quiet_lags].any():
            end = lag
            break
    lags = np.arange(1, min(2 * max(1, end - 1), most_lags) + 1)
    window = np.minimum(1, 2 * (1 - lags / len(lags))) * covariances[lags]
    spectrum = float(variance + 2 * window.sum())
    if spectrum <= 0:
        return 1
    slope = float((window * lags).sum())
    length: float = (6 * (slope / spectrum) ** 2 * count) ** (1 / 3)
    longest = math.ceil(min(3 * math.sqrt(count), count / 3))
    return max(1, min(round(length), longest))


def time_to_target(
    seconds: ArrayLike,
    values: ArrayLike,
    target: float,
    is_falling: bool = False,
    window: int = 1,
) -> float:
    """Return the first of `seconds` at which the values reach the target; infinite if they never
    do.

    Values that are falling, as a loss does, reach it from above. The mean of `window` values
    counts, because the loss of one batch may be low by chance.
    """
    times = np.asarray(seconds, dtype=np.float64)
    curve = np.asarray(values, dtype=np.float64)
    if len(curve) < window:
        return math.inf
    means = np.convolve(curve, np.ones(window) / window, "valid")
    is_reached = means <= target if is_falling else means >= target
    if not is_reached.any():
        return math.inf
    return float(times[window - 1 :][is_reached.argmax()])
