"""Are the final losses or accuracies of two cells the same?"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from remote.statistics.interval import Interval, ValueScale, t_interval

LEVEL = 0.90
"""Of the interval: two one-sided tests at 5 % find two cells equal within a margin if and only if
the 90 % interval of their difference lies within it (Schuirmann, "A comparison of the two one-sided
tests procedure", Journal of Pharmacokinetics and Biopharmaceutics 15, 1987)."""
ROUNDING = 1e-6
"""How far equal values may be apart, as a share of them: float32 numbers that are summed in another
order differ in their last digits."""


@dataclass(frozen=True)
class Equivalence:
    """How close the final values of two cells are."""

    difference: Interval
    """Cell - reference, over runs of one repetition."""
    is_same: bool
    """All values are equal within `ROUNDING`."""

    @property
    def within(self) -> float:
        """Return the smallest margin within which the cells are shown to be equal: the X of "equal
        within X". NaN if there are too few values."""
        return max(abs(self.difference.low), abs(self.difference.high))


def measure_equivalence(cell: ArrayLike, reference: ArrayLike) -> Equivalence:
    """Compare final values: one per repetition, in the same order, NaN if there is none.

    That all cells of a study are equal needs no correction for several tests: each has to pass.
    """
    differences = np.subtract(cell, reference)
    difference = t_interval(differences, ValueScale.DIFFERENCE, LEVEL)
    return Equivalence(difference, are_same(cell, reference))


def are_same(first: ArrayLike, second: ArrayLike) -> bool:
    """Return True if there are pairs of values, and in all of them both are equal within
    `ROUNDING`. NaN is no value."""
    pairs = np.column_stack([first, second])
    known_pairs = pairs[np.isfinite(pairs).all(axis=1)]
    return bool(len(known_pairs)) and np.allclose(
        known_pairs[:, 0], known_pairs[:, 1], rtol=ROUNDING, atol=0
    )
