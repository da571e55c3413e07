"""Simulations of random faults, each from its seed."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.simulation.patches import simulated
from tests.simulation.scenario import draw_scenario
from tests.simulation.shrink import problem_of

SEEDS, PART = 100, 25
"""`test_mistakes` runs the seeds that show planted mistakes, `make simulate` many more."""


@pytest.fixture(scope="module", autouse=True)
def world() -> Iterator[None]:
    """Agents and sessions live in the simulated world."""
    with simulated():
        yield


@pytest.mark.parametrize("first", range(0, SEEDS, PART))
def test_all_holds_whatever_comes(first: int) -> None:
    """`python -m tests.simulation --seed N` tells the story of a seed that fails."""
    for seed in range(first, first + PART):
        assert not problem_of(draw_scenario(seed)), f"seed {seed}"
