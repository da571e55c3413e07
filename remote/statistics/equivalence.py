"""Whether two cells end with the same loss or accuracy."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from remote.statistics.interval import Interval, Scale, by_t

LEVEL = 0.90
"""Of the interval: two one-sided tests at 5 % find two cells equal within a margin if and only if
the 90 % interval of their difference lies within it (Schuirmann, "A comparison of the two one-sided
tests procedure", Journal of Pharmacokinetics and Biopharmaceutics 15, 1987)."""


@dataclass(frozen=True)
class Equivalence:
    """How close the final values of two cells are."""

    difference: Interval
    """Cell - reference, over runs of one repetition."""
    exact: bool
    """Whether all values are equal to the last digit."""

    @property
    def within(self) -> float:
        """The smallest margin within which they are shown to be equal: the X of "equal within X".
        NaN if there are too few values."""
        return max(abs(self.difference.low), abs(self.difference.high))


def equivalence(cell: ArrayLike, reference: ArrayLike) -> Equivalence:
    """Compare final values: one per repetition, in the same order, NaN where there is none.

    That all cells of a study are equal needs no correction for several tests: each has to pass.
    """
    first, second = (np.asarray(each, dtype=np.float64) for each in (cell, reference))
    both = np.isfinite(first) & np.isfinite(second)
    difference = by_t((first - second)[both], Scale.DIFFERENCE, LEVEL)
    exact = bool(both.any()) and bool((first == second)[both].all())
    return Equivalence(difference, exact)
