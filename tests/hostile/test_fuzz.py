"""A few of the random records and mutated run directories of `tests.hostile.fuzz`."""

from __future__ import annotations

import pytest

from tests.hostile.fuzz.cases import Outcome, read_folders, run_stories
from tests.hostile.fuzz.mistakes import MISTAKES, Mistake

NO_PATIENCE = 0.0
"""pytest-timeout has the timer, and sees to it that no test waits for ever."""
CASES = 150
"""Seeds within which a mistake is found."""
PART = 10


def test_random_records_raise_nothing_but_clear_errors() -> None:
    outcome = run_stories(1, 12, NO_PATIENCE)
    assert outcome.done >= 1_000
    assert not outcome.failures, told(outcome)


def test_mutated_run_directories_raise_nothing_but_clear_errors() -> None:
    outcome = read_folders(1, 20, NO_PATIENCE)
    assert not outcome.failures, told(outcome)


@pytest.mark.parametrize("mistake", MISTAKES.values(), ids=MISTAKES)
def test_a_planted_mistake_is_found(mistake: Mistake) -> None:
    with mistake.made():
        assert any(
            mistake.run(first, PART, NO_PATIENCE).failures for first in range(1, CASES, PART)
        )


def told(outcome: Outcome) -> str:
    return "\n".join(f"seed {one.seed}: {one.given}\n{one.error}" for one in outcome.failures)
