"""Numbers as a person reads them."""

from __future__ import annotations

import math

import pytest

from remote import format
from remote.run.rank import RankState
from remote.run.state import RunState
from tests.kit.histories import plan
from training import figures
from tui.panels.parts import row


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0.0000"),
        (0.03125, "0.0312"),
        (2.302585, "2.3026"),
        (1782.3912, "1782.4"),
        (0.00003217, "3.217e-05"),
        (11483713536.0, "1.148e+10"),
        (3684328976949551753295002861568.0, "3.684e+30"),
        (math.nan, "nan"),
        (math.inf, "inf"),
    ],
)
def test_a_loss_has_as_many_digits_as_say_something(value: float, text: str) -> None:
    assert figures.loss(value) == text


@pytest.mark.parametrize(("step", "text"), [(0, "-"), (12, "nan")])
def test_a_table_tells_a_loss_that_is_nan_from_one_that_is_not_known(step: int, text: str) -> None:
    rank = RankState(0, 0, 0, step=step)
    assert format.loss(rank.loss, step) == text
    scale = row.Scale("ready", [0.0], 0.0)
    view = row.View([rank], RunState(plan(1)), now=0.0, dark=True, scale=scale)
    assert row._loss(view).text == text
