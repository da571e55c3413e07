"""Whether the repetitions of a cell agree."""

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
FAR_OFF = 10.0
"""Robust standard deviations from the median from which a value is an outlier, as in hyperfine."""
UNUSUAL = 3.5
"""The same from which a value is unusual: what Iglewicz and Hoaglin advise ("How to detect and
handle outliers", 1993)."""


@dataclass(frozen=True)
class Stability:
    """How the values of a cell vary."""

    runs: int
    variation: float
    """Coefficient of variation: standard deviation over mean. NaN of fewer than two."""
    outliers: tuple[int, ...]
    """Indices of values far from the others."""
    warnings: tuple[str, ...]
    """Why it is not stable, as parts of a sentence."""

    @property
    def stable(self) -> bool:
        """Whether nothing was found. A single run is not known to be unstable."""
        return not self.warnings


def stability(values: ArrayLike) -> Stability:
    """Check the repetitions of a cell, as `pyperf check` does. NaN is no run, but keeps its
    index. pyperf's limit of 1 ms per value is left out: a value is the mean of many steps."""
    array = np.asarray(values, dtype=np.float64)
    runs = array[np.isfinite(array)]
    if not len(runs):
        return Stability(0, math.nan, (), ())
    mean = float(runs.mean())
    variation = float(runs.std(ddof=1)) / abs(mean) if len(runs) > 1 and mean else math.nan
    warnings = []
    if variation >= UNSTABLE:
        warnings.append(f"the standard deviation is {variation:.0%} of the mean")
    for name, extreme in (("minimum", runs.min()), ("maximum", runs.max())):
        share = (float(extreme) - mean) / abs(mean) if mean else 0.0
        if abs(share) >= FAR:
            than = "greater" if share > 0 else "smaller"
            warnings.append(f"the {name} is {abs(share):.0%} {than} than the mean")
    return Stability(len(runs), variation, outliers(array), tuple(warnings))


def outliers(values: ArrayLike) -> tuple[int, ...]:
    """The indices of values far off the median. NaN is none, and does not count."""
    array = np.asarray(values, dtype=np.float64)
    runs = array[np.isfinite(array)]
    if len(runs) < 3:
        return ()
    return tuple(np.flatnonzero(abs(scores(array, runs)) > FAR_OFF).tolist())


def warm_up(seconds: ArrayLike) -> int:
    """How many steps at the start of a run are slower than is usual in its second half: those
    before the first that is not. At most half of them."""
    array = np.asarray(seconds, dtype=np.float64)
    half = len(array) // 2
    if half < 2:
        return 0
    usual = scores(array[:half], array[half:]) <= UNUSUAL
    return int(usual.argmax()) if usual.any() else half


def scores(values: Numbers, of: Numbers) -> Numbers:
    """How many robust standard deviations the values are from the median `of` others: those that
    normal values have where half of them are as far from it (1.4826 × median absolute deviation).
    """
    middle = float(np.median(of))
    spread = 1.4826 * float(np.median(abs(of - middle)))
    return (values - middle) / max(spread, 1e-9 * abs(middle), 1e-300)
