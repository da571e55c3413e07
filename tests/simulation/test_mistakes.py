"""The simulator bites: it finds each mistake that is planted in real code."""

from __future__ import annotations

from itertools import chain

import pytest

from tests.simulation.mistakes import FOUND
from tests.simulation.patches import simulated
from tests.simulation.scenario import draw_scenario
from tests.simulation.shrink import problem_of

SEEDS = 2000


@pytest.mark.timeout(600)
@pytest.mark.parametrize("what", FOUND)
def test_a_planted_mistake_is_found(what: str) -> None:
    """The seed that found it last is looked at first; without the mistake that seed is well."""
    make, known = FOUND[what]
    with simulated():
        with make():
            seeds = chain((known,), range(SEEDS))
            found = next((seed for seed in seeds if problem_of(draw_scenario(seed))), None)
        assert found is not None, f"not found within {SEEDS} seeds"
        assert not problem_of(draw_scenario(found)), f"seed {found} fails without it"
