"""How much the mean of steps to come may differ from that of the steps so far."""

from __future__ import annotations

import math
from itertools import pairwise

BLOCKS = 16
"""Blocks of steps at the most; there are at least half as many once there are enough steps."""
LEAST = 6
"""Blocks from which on a spread is known."""
SURE = 2.0
"""Standard deviations on each side: the mean to come is within these in 19 of 20 cases, if the pace
varies as it did."""
STICKY = 0.8
"""The greatest correlation of a block with the next one that counts."""


class Blocks:
    """The means of equally long blocks of steps, over the whole run: they grow with it."""

    def __init__(self) -> None:
        self._means: list[float] = []
        self._size = 1
        self._made = 0
        self._sum = 0.0

    def append(self, seconds: float) -> bool:
        """Take in a step. Returns whether a block is whole."""
        self._sum += seconds
        self._made += 1
        if self._made < self._size:
            return False
        self._means.append(self._sum / self._size)
        self._made = 0
        self._sum = 0.0
        if len(self._means) == BLOCKS:
            pairs = zip(self._means[::2], self._means[1::2], strict=True)
            self._means = [(one + other) / 2 for one, other in pairs]
            self._size *= 2
        return True

    def spread(self, steps: int) -> float:
        """By which share of itself the mean of so many steps to come may differ; 0 while little is
        known. Slow times last: neighbouring blocks tell less than others would."""
        number = len(self._means)
        if number < LEAST or steps <= 0:
            return 0.0
        mean = sum(self._means) / number  # `fmean` raises where a sum is too large
        if not mean > 0 or not math.isfinite(mean):
            return 0.0
        offs = [one - mean for one in self._means]
        squares = sum(off * off for off in offs)
        together = sum(one * other for one, other in pairwise(offs))
        alike = min(STICKY, max(0.0, together / squares)) if squares else 0.0
        variance = squares / (number - 1) * (1 + alike) / (1 - alike)
        to_come = max(1.0, steps / self._size)
        return SURE * math.sqrt(variance * (1 / number + 1 / to_come)) / mean
