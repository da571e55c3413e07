"""Ranks compare the models that a method has to keep equal, and where they differ a person gets to
know it."""

from __future__ import annotations

import math

import pytest

from tests.kit.histories import History, plan, said
from tests.kit.sync_ranks import Case
from tests.kit.sync_runs import Ran
from training.wire.events import PREFIX, dumps, to_object


@pytest.mark.parametrize("case", [Case("all_reduce", world=2), Case("none", world=2)], ids=str)
def test_nothing_is_said_of_equal_models_or_of_those_that_may_differ(ran: Ran, case: Case) -> None:
    assert [outcome.drift for outcome in ran(case)] == [[], []]


@pytest.mark.parametrize(
    "case",
    [Case("all_reduce", world=2, fault=fault) for fault in ("nudged", "not a number")],
    ids=str,
)
def test_a_model_that_differs_is_found_and_noted(ran: Ran, case: Case) -> None:
    first, other = ran(case)
    assert not other.drift
    if case.fault == "nudged":
        assert [drifted.step for drifted in first.drift] == [2, 4], (
            "at every second step, as the job has it"
        )
        assert all(1e-6 < drifted.difference < 1 for drifted in first.drift)
    else:
        assert [(drifted.step, drifted.difference) for drifted in first.drift] == [(2, math.inf)], (
            "after 4 all are alike"
        )

    history = History(plan(2)).training()
    lines = [PREFIX + dumps(to_object(drifted)) for drifted in first.drift]
    state = history.rank(0, said(0, "\n".join(lines), "stdout")).state()
    notes = [
        line.text
        for line in state.log.lines
        if line.stream == "note" and "models differ" in line.text
    ]
    assert len(notes) == 1, "a drift is noted where it begins"
    assert notes[0].startswith("drift: after step 2 the ranks' models differ ")
    assert ("on some ranks they are not numbers" in notes[0]) == (case.fault == "not a number")
    assert state.progress.largest_drift == max(first.drift, key=lambda drifted: drifted.difference)
