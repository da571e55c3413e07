"""The interval of one cell's value, from its repetitions."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from enum import StrEnum
from statistics import NormalDist

import numpy as np
from numpy.typing import ArrayLike, NDArray

from remote.statistics.student_t import t_bound

LEVEL = 0.95
"""How often an interval is to hold the true value."""
ENOUGH_FOR_BOOTSTRAP = 20
"""Values from which a bootstrap interval holds what it says."""
DRAWS = 10_000
SEED = 1
FEWEST = 3
"""Runs of a cell from which its own interval is shown: by t, that of two is 13 times as wide as the
runs are apart, and reaches from losses below zero to some beyond any that was seen."""
LARGEST_LOGARITHM = 700.0
"""Above it, the number itself is beyond what a float can hold."""

Numbers = NDArray[np.float64]


class ValueScale(StrEnum):
    """How values compare."""

    RATIO = "ratio"
    """On their logarithms: times, sizes."""
    DIFFERENCE = "difference"
    """As they are: accuracies, losses."""

    def forward(self, values: ArrayLike) -> Numbers:
        """Return the values as numbers that may be added; NaN if there is no logarithm."""
        array = np.asarray(values, dtype=np.float64)
        if self is ValueScale.DIFFERENCE:
            return array
        # A time of 0 or less is a fault of a clock: it becomes NaN without numpy's warning.
        return np.log(array, out=np.full(array.shape, np.nan), where=array > 0)

    def back(self, value: float) -> float:
        """Return the value as it was measured, from a number that may be added."""
        if self is ValueScale.DIFFERENCE:
            return float(value)
        # `math.exp` raises OverflowError there.
        return math.inf if value > LARGEST_LOGARITHM else math.exp(value)


class IntervalMethod(StrEnum):
    """How an interval was found."""

    T = "t"
    T_LOGS = "t on logarithms"
    BOOTSTRAP = "bootstrap"
    BLOCKS = "block bootstrap"
    EXACT = "exact"
    """By definition: the value is its own bounds."""
    NONE = "none"
    """Too few values: the bounds are NaN."""


@dataclass(frozen=True)
class Interval:
    """A value with the bounds between which the true one lies."""

    value: float
    low: float
    high: float
    runs: int
    """How many values it rests on."""
    method: IntervalMethod
    level: float = LEVEL

    @property
    def percent(self) -> float:
        """Return half the width in percent of the value: the 2 of "1.20 s ± 2 %"."""
        # An exact value, which may be 0.
        if self.low == self.high == self.value:
            return 0.0
        if not self.value:
            return math.nan
        return (self.high - self.low) / 2 / abs(self.value) * 100

    def holds(self, value: float) -> bool:
        """Return True if the value is between the bounds."""
        return self.low <= value <= self.high

    def inverse(self, factor: float = 1.0) -> Interval:
        """Return the interval of factor / value: a speed-up from a ratio of times."""
        return replace(
            self,
            value=_divide(factor, self.value),
            # The bounds change places, since the inverse falls as the ratio rises.
            low=_divide(factor, self.high),
            high=_divide(factor, self.low),
        )


def _divide(factor: float, value: float) -> float:
    return factor / value if value else math.inf


def mean_interval(values: ArrayLike, scale: ValueScale = ValueScale.RATIO) -> Interval:
    """Return the interval of a cell: by t of few values, by bootstrap from 20 on.

    Its value is the geometric mean of times, and the mean of other values. Values that are not
    finite do not count, nor times that are not positive.
    """
    count = int(np.isfinite(scale.forward(values)).sum())
    if count < ENOUGH_FOR_BOOTSTRAP:
        return t_interval(values, scale)
    return bootstrap_interval(values, scale)


def t_interval(
    values: ArrayLike, scale: ValueScale = ValueScale.RATIO, level: float = LEVEL
) -> Interval:
    """Return the t interval of the mean, of logarithms on the scale of ratios."""
    added_values = _finite_numbers(values, scale)
    num_values = len(added_values)
    middle_value = float(added_values.mean()) if num_values else math.nan
    if num_values < 2:
        return symmetric_interval(
            middle_value, math.nan, num_values, IntervalMethod.NONE, scale, level
        )
    standard_error = float(added_values.std(ddof=1)) / math.sqrt(num_values)
    reach = t_bound(level, num_values - 1) * standard_error
    return symmetric_interval(middle_value, reach, num_values, t_method(scale), scale, level)


def bootstrap_interval(
    values: ArrayLike, scale: ValueScale = ValueScale.RATIO, level: float = LEVEL
) -> Interval:
    """Return the bootstrap interval of the mean, corrected for bias and acceleration: BCa (Efron,
    "Better bootstrap confidence intervals", JASA 82, 1987)."""
    numbers = _finite_numbers(values, scale)
    if len(numbers) < 2 or np.ptp(numbers) == 0:  # equal values have no acceleration
        return t_interval(values, scale, level)
    places = np.random.default_rng(SEED).integers(0, len(numbers), (DRAWS, len(numbers)))
    drawn_means = numbers[places].mean(axis=1)
    mean = float(numbers.mean())
    normal = NormalDist()
    bias = normal.inv_cdf(_share_below(drawn_means, mean))
    # The means without each value are as far from their mean, but for a factor, as the values are.
    deviations = numbers - mean
    acceleration = float((deviations**3).sum() / (6 * (deviations**2).sum() ** 1.5))
    shares = []
    for share in ((1 - level) / 2, (1 + level) / 2):
        shift = bias + normal.inv_cdf(share)
        shares.append(normal.cdf(bias + shift / (1 - acceleration * shift)))
    low, high = np.quantile(drawn_means, shares).tolist()
    return Interval(
        scale.back(mean),
        scale.back(low),
        scale.back(high),
        len(numbers),
        IntervalMethod.BOOTSTRAP,
        level,
    )


def _share_below(drawn_means: Numbers, mean: float) -> float:
    """Return the share of means below the mean of the values; those that are equal count half."""
    return float(((drawn_means < mean).mean() + (drawn_means <= mean).mean()) / 2)


def symmetric_interval(
    middle: float, reach: float, runs: int, method: IntervalMethod, scale: ValueScale, level: float
) -> Interval:
    """Return the interval of middle ± reach, numbers of the scale that may be added."""
    low = scale.back(middle - reach)
    high = scale.back(middle + reach)
    return Interval(scale.back(middle), low, high, runs, method, level)


def t_method(scale: ValueScale) -> IntervalMethod:
    """Return what a t interval on this scale is called."""
    return IntervalMethod.T_LOGS if scale is ValueScale.RATIO else IntervalMethod.T


def hide_few(value: Interval) -> Interval:
    """Return the interval, without bounds if it rests on too few runs."""
    if value.runs >= FEWEST or value.method is IntervalMethod.EXACT:
        return value
    return replace(value, low=math.nan, high=math.nan, method=IntervalMethod.NONE)


def _finite_numbers(values: ArrayLike, scale: ValueScale) -> Numbers:
    numbers = scale.forward(values)
    return numbers[np.isfinite(numbers)]
