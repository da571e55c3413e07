"""Student's t distribution.

scipy has it as well, but takes twice the room of all other packages of a launcher together.
"""

from __future__ import annotations

import math
from statistics import NormalDist

_HALVINGS = 200
"""More than the bits of a float, with the powers of two up to the largest."""


def t_bound(level: float, freedom: float) -> float:
    """Return the t that |T| does not exceed with probability `level`, less than 1.

    `freedom` is a whole number, or infinite: the distribution is normal then.
    """
    if math.isinf(freedom):
        return NormalDist().inv_cdf((1 + level) / 2)
    low, high = 0.0, 1.0
    while _share_within(high, int(freedom)) < level:
        low, high = high, 2 * high
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if middle in (low, high):
            break
        if _share_within(middle, int(freedom)) < level:
            low = middle
        else:
            high = middle
    return high


def t_probability(t: float, freedom: float) -> float:
    """Return the probability that |T| exceeds |t|: the p-value of a two-sided test. `freedom`: see
    `t_bound`."""
    if math.isinf(freedom):
        return 2 * NormalDist().cdf(-abs(t))
    return max(0.0, 1 - _share_within(abs(t), int(freedom)))


def _share_within(t: float, freedom: int) -> float:
    """Return the probability that |T| does not exceed t, which is not negative.

    Abramowitz and Stegun, Handbook of Mathematical Functions, 1964, 26.7.3 and 26.7.4.
    """
    angle = math.atan(t / math.sqrt(freedom))
    cosine = math.cos(angle)
    is_odd = freedom % 2 == 1
    term = cosine if is_odd else 1.0
    total = 0.0 if freedom == 1 else term
    for factor in range(3 if is_odd else 2, freedom - 1, 2):
        term *= (factor - 1) / factor * cosine**2
        total += term
    share = math.sin(angle) * total
    return 2 / math.pi * (angle + share) if is_odd else share
