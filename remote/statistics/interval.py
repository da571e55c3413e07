"""The interval of one cell's value, from its repetitions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from statistics import NormalDist

import numpy as np
from numpy.typing import ArrayLike, NDArray

from remote.statistics import student

LEVEL = 0.95
"""How often an interval is to hold the true value."""
ENOUGH = 20
"""Values from which a bootstrap interval holds what it says."""
DRAWS = 10_000
SEED = 1

Numbers = NDArray[np.float64]


class Scale(StrEnum):
    """How values compare."""

    RATIO = "ratio"
    """On their logarithms: times, sizes."""
    DIFFERENCE = "difference"
    """As they are: accuracies, losses."""

    def forward(self, values: ArrayLike) -> Numbers:
        """Where the values may be added. NaN where there is no logarithm."""
        array = np.asarray(values, dtype=np.float64)
        if self is Scale.DIFFERENCE:
            return array
        return np.log(array, out=np.full(array.shape, np.nan), where=array > 0)

    def back(self, value: float) -> float:
        """From there to the value as it was measured."""
        if self is Scale.DIFFERENCE:
            return float(value)
        return math.inf if value > 700 else math.exp(value)


class Method(StrEnum):
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
    method: Method
    level: float = LEVEL

    @property
    def percent(self) -> float:
        """Half its width in percent of the value: the 2 of "1.20 s ± 2 %". NaN if not known."""
        if self.low == self.high == self.value:
            return 0.0
        return (self.high - self.low) / 2 / abs(self.value) * 100 if self.value else math.nan

    def holds(self, value: float) -> bool:
        """Whether the value is between the bounds."""
        return self.low <= value <= self.high

    def inverse(self, factor: float = 1.0) -> Interval:
        """The interval of factor / value, of a positive one: a speed-up from a ratio of times."""
        value, low, high = (
            factor / each if each else math.inf for each in (self.value, self.high, self.low)
        )
        return Interval(value, low, high, self.runs, self.method, self.level)


def interval(
    values: ArrayLike, scale: Scale = Scale.RATIO, level: float = LEVEL, seed: int = SEED
) -> Interval:
    """The interval of a cell that is shown: by t of few values, by bootstrap from `ENOUGH` on.

    Its value is the geometric mean of times, and the mean of other values. Values that are not
    finite do not count, nor times that are not positive.
    """
    count = int(np.isfinite(scale.forward(values)).sum())
    if count < ENOUGH:
        return by_t(values, scale, level)
    return by_bootstrap(values, scale, level, seed)


def by_t(values: ArrayLike, scale: Scale = Scale.RATIO, level: float = LEVEL) -> Interval:
    """The t interval of the mean, of logarithms on the scale of ratios."""
    numbers = _finite(values, scale)
    count = len(numbers)
    middle = float(numbers.mean()) if count else math.nan
    if count < 2:
        return around(middle, math.nan, count, Method.NONE, scale, level)
    error = float(numbers.std(ddof=1)) / math.sqrt(count)
    reach = student.bound(level, count - 1) * error
    method = Method.T_LOGS if scale is Scale.RATIO else Method.T
    return around(middle, reach, count, method, scale, level)


def by_bootstrap(
    values: ArrayLike, scale: Scale = Scale.RATIO, level: float = LEVEL, seed: int = SEED
) -> Interval:
    """The bootstrap interval of the mean, corrected for bias and acceleration: BCa (Efron, "Better
    bootstrap confidence intervals", JASA 82, 1987). By t where the values are fewer than two."""
    numbers = _finite(values, scale)
    count = len(numbers)
    if count < 2:
        return by_t(values, scale, level)
    middle = float(numbers.mean())
    picks = np.random.default_rng(seed).integers(count, size=(DRAWS, count))
    means = numbers[picks].mean(axis=1)
    low, high = np.quantile(means, _corrected(numbers, means, level))
    value, low, high = (scale.back(float(each)) for each in (middle, low, high))
    return Interval(value, low, high, count, Method.BOOTSTRAP, level)


def around(
    middle: float, reach: float, runs: int, method: Method, scale: Scale, level: float
) -> Interval:
    """The interval of middle ± reach, both where the values of the scale may be added."""
    value, low, high = (scale.back(each) for each in (middle, middle - reach, middle + reach))
    return Interval(value, low, high, runs, method, level)


def geometric_mean(ratios: Sequence[float]) -> float:
    """The geometric mean of ratios: the only mean of them that does not depend on which of the two
    is the reference (Fleming and Wallace, CACM 29, 1986). NaN of none."""
    return math.exp(float(np.log(ratios).mean())) if len(ratios) else math.nan


def _finite(values: ArrayLike, scale: Scale) -> Numbers:
    numbers = scale.forward(values)
    return numbers[np.isfinite(numbers)]


def _corrected(numbers: Numbers, means: Numbers, level: float) -> tuple[float, float]:
    """Which quantiles of the bootstrapped means bound the BCa interval."""
    normal = NormalDist()
    middle = numbers.mean()
    below = ((means < middle).sum() + (means <= middle).sum()) / 2 / len(means)
    if not 0 < below < 1:  # all values are equal
        return (1 - level) / 2, (1 + level) / 2
    bias = normal.inv_cdf(below)
    others = (numbers.sum() - numbers) / (len(numbers) - 1)  # each without one value
    apart = others.mean() - others
    spread = float((apart**2).sum())
    acceleration = float((apart**3).sum()) / (6 * spread**1.5) if spread else 0.0

    def corrected(tail: float) -> float:
        z = bias + normal.inv_cdf(tail)
        return normal.cdf(bias + z / (1 - acceleration * z))

    return corrected((1 - level) / 2), corrected((1 + level) / 2)


FEWEST = 3
"""Runs of a cell from which its own interval is shown: by t, that of two is 13 times as wide as the
runs are apart, and reaches from losses below zero to some beyond any that was seen."""


def known(value: Interval) -> Interval:
    """The interval, without bounds where it rests on too few runs."""
    if value.runs >= FEWEST or value.method is Method.EXACT:
        return value
    return replace(value, low=math.nan, high=math.nan, method=Method.NONE)
