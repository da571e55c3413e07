"""Two single runs, compared by their steps; and when a run reached a target."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from statistics import NormalDist

import numpy as np
from numpy.typing import ArrayLike

from remote.statistics import student
from remote.statistics.interval import LEVEL, Method, Numbers, Scale, around
from remote.statistics.ratio import Comparison, finding

BETWEEN_RUNS = 0.03
"""Coefficient of variation from one run to the next, which a single run cannot show."""


def compare_steps(
    first: ArrayLike,
    second: ArrayLike,
    between: float = BETWEEN_RUNS,
    freedom: int = 0,
    level: float = LEVEL,
) -> Comparison:
    """Compare the mean step times of two runs: first / second.

    Each array has a run's seconds per iteration, as a mean over ranks, without its warm-up. The
    interval allows for the noise of iterations by a block bootstrap, because they are correlated;
    and for noise from run to run, which is assumed to be `between`.

    `freedom`: with so many degrees of freedom `between` was measured, see `spread`. That noise
    holds the noise of iterations, which only counts where it is larger.
    """
    runs = [np.asarray(each, dtype=np.float64) for each in (first, second)]
    runs = [each[np.isfinite(each)] for each in runs]
    fewest = min(map(len, runs))
    middle = reach = p = math.nan
    if fewest:
        middle = math.log(runs[0].mean() / runs[1].mean())
    if fewest > 1:
        noises = 2 * between**2, sum(_variance(each) for each in runs)
        error = math.sqrt(max(noises) if freedom else sum(noises))
        reach = _bound(level, freedom) * error
        p = _outside(abs(middle) / error, freedom) if error else float(not middle)
    method = Method.BLOCKS if fewest > 1 else Method.NONE
    ratio = around(middle, reach, fewest, method, Scale.RATIO, level)
    return Comparison(0, 1, ratio, p, finding(ratio, Scale.RATIO))


def _bound(level: float, freedom: int) -> float:
    """How many standard errors an interval reaches, by t where the noise was measured."""
    return student.bound(level, freedom) if freedom else NormalDist().inv_cdf((1 + level) / 2)


def _outside(errors: float, freedom: int) -> float:
    return student.outside(errors, freedom) if freedom else 2 * NormalDist().cdf(-errors)


def spread(groups: Iterable[Sequence[float]]) -> tuple[float, int]:
    """How much values of the same group differ: the standard deviation of their logarithms, pooled
    over all groups, and its degrees of freedom. NaN and 0 where no group has two values."""
    logs = [np.log(np.asarray(group, dtype=np.float64)) for group in groups if len(group)]
    freedom = sum(len(group) - 1 for group in logs)
    if not freedom:
        return math.nan, 0
    squares = sum(float(((group - group.mean()) ** 2).sum()) for group in logs)
    return math.sqrt(squares / freedom), freedom


def _variance(values: Numbers) -> float:
    """The variance of the logarithm of the mean under the circular block bootstrap: for a mean it
    has a closed form, so nothing is drawn (Künsch, Annals of Statistics 17, 1989)."""
    length = block_length(values)
    totals = np.cumsum(np.concatenate([[0.0], values, values[: length - 1]]))
    sums = totals[length:] - totals[:-length]  # of all blocks, also of those around the end
    return float((sums / length / values.mean()).var() * length / len(values))


def block_length(values: Numbers) -> int:
    """How many neighbours a block of a circular bootstrap needs, from how far their correlation
    reaches (Politis and White, Econometric Reviews 23, 2004; corrected by Patton, Politis and White
    in 28, 2009)."""
    count = len(values)
    quiet = max(5, math.ceil(math.log10(count)))  # lags without correlation that end it
    most = min(math.ceil(math.sqrt(count)) + quiet, count - 1)
    apart = values - values.mean()
    covariances = np.array([apart[lag:] @ apart[: count - lag] for lag in range(most + 1)]) / count
    if not covariances[0] > 0:
        return 1
    correlated = abs(covariances) > 2 * math.sqrt(math.log10(count) / count) * covariances[0]
    end = next((at for at in range(1, most) if not correlated[at : at + quiet].any()), most)
    lags = np.arange(1, min(2 * max(1, end - 1), most) + 1)
    window = np.minimum(1, 2 * (1 - lags / len(lags))) * covariances[lags]
    spread = float(covariances[0] + 2 * window.sum())
    if spread <= 0:
        return 1
    length: float = (6 * (float((window * lags).sum()) / spread) ** 2 * count) ** (1 / 3)
    return max(1, min(round(length), math.ceil(min(3 * math.sqrt(count), count / 3))))


def time_to_target(
    seconds: ArrayLike, values: ArrayLike, target: float, falling: bool = False, window: int = 1
) -> float:
    """The first of `seconds` at which the values are at or above the target, or at or below it
    where they are `falling`, as a loss does. Infinite if they never are.

    `window`: of so many values the mean counts, because the loss of one batch may be low by chance.
    """
    times, curve = (np.asarray(each, dtype=np.float64) for each in (seconds, values))
    if len(curve) < window:
        return math.inf
    means = np.convolve(curve, np.ones(window) / window, "valid")
    reached = means <= target if falling else means >= target
    return float(times[window - 1 :][reached.argmax()]) if reached.any() else math.inf
