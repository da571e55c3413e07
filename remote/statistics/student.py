"""Student's t distribution for whole degrees of freedom, in closed form (Abramowitz and Stegun,
"Handbook of Mathematical Functions", 26.7.3 and 26.7.4)."""

from __future__ import annotations

import math
from functools import lru_cache


def outside(t: float, freedom: int) -> float:
    """The probability that |T| exceeds |t|: the p-value of a two-sided test."""
    angle = math.atan(abs(t) / math.sqrt(freedom))
    cosine = math.cos(angle)
    odd = freedom % 2
    term = cosine if odd else 1.0
    total = 0.0
    for power in range(1 + odd, freedom, 2):
        total += term
        term *= cosine * cosine * power / (power + 1)
    within = math.sin(angle) * total
    if odd:
        within = 2 / math.pi * (angle + within)
    return min(1.0, max(0.0, 1 - within))


@lru_cache(maxsize=1024)
def bound(level: float, freedom: int) -> float:
    """The t that |T| does not exceed with probability `level`, such as 0.95."""
    low = 0.0
    high = 1.0
    while outside(high, freedom) > 1 - level:
        high *= 2
    while high - low > 1e-12 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if outside(middle, freedom) > 1 - level else (low, middle)
    return high
