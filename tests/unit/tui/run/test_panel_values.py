"""Numbers as a person reads them."""

from __future__ import annotations

import math

import pytest

from remote import format
from remote.run.run_state import RunState
from remote.run.state.rank_state import RankState
from tests.kit.histories import History, plan, stepped
from training.formatting import format_loss
from tui.kit.inks import DARK
from tui.run.components import rank_cells as row
from tui.run.components.header_figures import header_figures


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0.0000"),
        (0.03125, "0.0312"),
        (2.302585, "2.3026"),
        (12.3456, "12.346"),
        (1782.3912, "1782.4"),
        (0.00003217, "3.2e-5"),
        (11483713536.0, "1.1e10"),
        (3684328976949551753295002861568.0, "3.7e30"),
        (math.nan, "nan"),
        (math.inf, "inf"),
    ],
)
def test_a_loss_has_as_many_digits_as_say_something(value: float, text: str) -> None:
    assert format_loss(value) == text


@pytest.mark.parametrize(("step", "text"), [(0, "-"), (12, "nan")])
def test_a_table_tells_a_loss_that_is_nan_from_one_that_is_not_known(step: int, text: str) -> None:
    rank = RankState(0, 0, 0, step=step)
    assert format.loss(rank.recent_loss) == text
    scale = row.TrendScale("ready", [0.0], 0.0)
    view = row.RowContext([rank], RunState(plan(1)), now=0.0, inks=DARK, scale=scale)
    assert row.loss_cell(view).text == text


def test_the_trend_of_a_slow_rank_shows_and_touches_no_row_above() -> None:
    history = History(plan(2)).training()
    for step in range(1, 41):
        history.rank(0, stepped(0, step, 0.5, ready=0.05))
        history.rank(1, stepped(1, step, 0.5, ready=0.3 if step % 2 else 0.4))
    run = history.state()
    scale = row.TrendScale("ready", [0.05, 0.35], 0.2)
    fast, slow = (
        row.trend_cell(row.RowContext([rank], run, now=0.0, inks=DARK, scale=scale)).text
        for rank in run.ranks
    )
    assert len(set(fast)) == 1
    assert len(set(slow)) == 2, "its steps differ"
    assert max(fast) < min(slow) <= max(slow) < "█"


def test_the_pace_of_a_live_run_is_of_its_last_steps_that_of_an_ended_one_of_all() -> None:
    """The first step takes 9 s, the next 20 1 s each; of the last 20 every second takes 4 s."""
    history = History(plan(2)).training()
    for step in range(1, 42):
        seconds = 9.0 if step == 1 else 1.0 if step < 22 or step % 2 else 4.0
        for rank in range(2):
            history.rank(rank, stepped(rank, step, seconds, sync=seconds / 2, samples=8))
    assert shown(history.state()) == {"samples/s": "6.4", "step": "2.50 s", "sync": "50%"}
    ended = history.done(0, 1).closed()
    assert shown(ended) == {"samples/s": "9.14", "step": "1.75 s", "sync": "50%"}


def shown(run: RunState) -> dict[str, str]:
    """The figures of the pace, by their labels."""
    values = {figure.label: figure.value for figure in header_figures(run)}
    return {label: values[label] for label in ("samples/s", "step", "sync")}


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.00082, "0.8 ms"), (0.052, "52 ms"), (0.9994, "999 ms"), (1.25, "1.25 s"), (math.nan, "-")],
)
def test_the_seconds_of_a_step_have_their_unit(value: float, text: str) -> None:
    assert format.step_time(value) == text
