"""The mean of figures that hosts and recorded runs report, whatever these are."""

from __future__ import annotations

import math
from collections.abc import Iterable


def finite_mean(values: Iterable[float]) -> float:
    """Return the mean of the finite values, NaN if there are none."""
    finite = [*values]
    # Nearly always they all are, and `map` says so in a third of the time.
    if not all(map(math.isfinite, finite)):
        finite = [value for value in finite if math.isfinite(value)]
    if not finite:
        return math.nan
    try:
        return math.fsum(finite) / len(finite)
    except OverflowError:  # the sum is beyond all numbers, the mean is not
        return math.fsum(value / len(finite) for value in finite)
