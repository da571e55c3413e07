"""The least times of the assignment's section D."""

from __future__ import annotations

import pytest

from remote.statistics.bandwidth import BEST

GRADIENTS = 9_231_114 * 4  # of VGG-11, in bytes
GIGABIT = 125e6  # in bytes per second


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [("gather, then scatter", 1.77), ("gather and scatter in buckets", 0.89), ("ring", 0.44)],
)
def test_best_seconds_are_those_of_the_assignment(pattern, expected):
    assert round(BEST[pattern](4) * GRADIENTS / GIGABIT, 2) == expected
