"""How well the repetitions of a cell agree."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from remote.statistics.interval import Numbers

UNSTABLE = 0.10
"""Standard deviation over mean from which a cell is unstable, as in `pyperf check`."""
FAR = 0.50
"""Distance from the mean, as its share, from which an extreme makes a cell unstable, as there."""
UNUSUAL = 3.5
"""The same from which a value is unusual: what Iglewicz and Hoaglin advise ("How to detect and
handle outliers", 1993)."""
NORMAL_SPREAD = 1.4826
"""Standard deviation over median absolute deviation of normal values."""


@dataclass(frozen=True)
class Stability:
    """How the values of a cell vary."""

    runs: int
    variation: float
    """Coefficient of variation: standard deviation over mean. NaN of fewer than two."""
    warnings: tuple[str, ...]
    """Why it is not stable, as parts of a sentence."""

    @property
    def is_stable(self) -> bool:
        """Return True if nothing was found. A single run is not known to be unstable."""
        return not self.warnings


def check_stability(values: ArrayLike) -> Stability:
    """Check the repetitions of a cell, as `pyperf check` does.

    NaN is no run. pyperf's limit of 1 ms per value is left out: a value is the
    mean of many steps.
    """
    array = np.asarray(values, dtype=np.float64)
    known_values = array[np.isfinite(array)]
    if not len(known_values):
        return Stability(0, math.nan, ())
    mean_value = float(known_values.mean())
    variation = math.nan
    if len(known_values) > 1 and mean_value:
        variation = float(known_values.std(ddof=1)) / abs(mean_value)
    warnings = []
    if variation >= UNSTABLE:
        warnings.append(f"the standard deviation is {variation:.0%} of the mean")
    extreme_share = (
        float(max(known_values - mean_value, key=abs)) / abs(mean_value) if mean_value else 0.0
    )
    if abs(extreme_share) >= FAR:
        extreme = "maximum" if extreme_share > 0 else "minimum"
        than_word = "greater" if extreme_share > 0 else "smaller"
        warnings.append(f"the {extreme} is {abs(extreme_share):.0%} {than_word} than the mean")
    return Stability(len(known_values), variation, tuple(warnings))


def count_warm_up(seconds: ArrayLike) -> int:
    """Return how many steps at the start of a run are slower than is usual in its second half.

    Those count that come before the first usual one, at most half of all.
    """
    array = np.asarray(seconds, dtype=np.float64)
    half_length = len(array) // 2
    if half_length < 2:
        return 0
    # The second half is what the steps settle at, so the first one is judged by it.
    is_usual = robust_scores(array[:half_length], array[half_length:]) <= UNUSUAL
    return int(is_usual.argmax()) if is_usual.any() else half_length


def robust_scores(values: Numbers, others: Numbers) -> Numbers:
    """Return how many robust standard deviations the values are from the median of others.

    The robust standard deviation is the median absolute deviation, scaled to be the standard
    deviation of normal values.
    """
    middle = float(np.median(others))
    spread = NORMAL_SPREAD * float(np.median(abs(others - middle)))
    # Equal values have no spread; those apart from them by rounding are no outliers.
    return (values - middle) / max(spread, 1e-9 * abs(middle), 1e-300)
