"""The loss that a script prints, beside the one that the watch sees."""

from __future__ import annotations

import math

import pytest

from remote.run.findings.training_loss import find_training_loss, is_mean_beside_prints
from remote.run.run_state import RunState
from tests.kit.histories import said
from tests.kit.scripts import script, seen, started
from tui.run.outcome import result_captions


def watched_run(
    printed: dict[int, float], seen_losses: dict[int, float], *, steps: int = 40
) -> RunState:
    """Two ranks make steps, of which rank 0 prints the loss of some."""
    history = started(script(1, 2, watch=True))
    for step in range(1, steps + 1):
        for rank, loss in seen_losses.items():
            history.say(0, seen(rank, step, loss, compute=0.5, sync=0.1), after=0.1)
        if step in printed:
            history.say(0, said(0, f"step={step} loss={printed[step]}", "stdout"), after=0.1)
    return history.state()


def losses(state: RunState) -> list[float]:
    return [rank.loss for rank in state.ranks]


def test_a_printed_loss_goes_before_that_of_the_watch() -> None:
    state = watched_run({10: 0.51, 20: 0.52, 30: 0.53}, {0: 0.5, 1: 0.75})
    assert losses(state) == [0.53, 0.75]
    assert not state.progress.prints_other_loss


def test_if_only_some_ranks_print_a_loss_all_show_that_of_their_steps() -> None:
    state = watched_run({10: 0.51, 20: 0.52, 30: 0.53}, {0: 0.5, 1: 0.75})
    assert [rank.recent_loss for rank in state.ranks] == [0.5, 0.75]
    assert find_training_loss(state) == 0.625
    assert is_mean_beside_prints(state)
    (caption,) = (line for line in result_captions(state) if "loss: " in line)
    assert caption.endswith("loss: mean of the last 20 steps of each rank, not the printed one")


def test_if_all_ranks_print_a_loss_all_show_it() -> None:
    history = started(script(1, 2, watch=True))
    for step in range(1, 11):
        for rank in range(2):
            history.say(0, seen(rank, step, 0.5, compute=0.5, sync=0.1), after=0.1)
            history.say(0, said(rank, f"step={step} loss=0.{rank + 6}", "stdout"), after=0.1)
    state = history.state()
    assert [rank.recent_loss for rank in state.ranks] == [0.6, 0.7]
    (caption,) = (line for line in result_captions(state) if "loss: " in line)
    assert caption.endswith("loss: the newest that each rank prints")


def test_a_loss_that_was_printed_long_ago_does_not() -> None:
    state = watched_run({1: 0.51, 5: 0.53}, {0: 0.5, 1: 0.75})
    assert losses(state) == [0.5, 0.75]


def test_the_losses_of_the_watch_are_hidden_if_the_script_prints_another_quantity() -> None:
    state = watched_run({5: 208.5, 10: 207.5}, {0: 27_000.0, 1: 27_500.0})
    assert state.progress.prints_other_loss
    assert state.ranks[0].loss == 207.5
    assert math.isnan(state.ranks[1].loss)
    assert [rank.tells_loss for rank in state.ranks] == [True, False]
    assert all(math.isnan(rank.pace.mean("loss")) for rank in state.ranks)
    assert not state.progress.diverged


def test_a_log_without_the_watch_has_its_losses_as_before() -> None:
    history = started(script(1, 2))
    for step in range(1, 6):
        history.say(0, said(0, f"step={step} loss={step}.5", "stdout"), after=0.1)
    (first, second) = losses(history.state())
    assert first == 5.5
    assert math.isnan(second)


@pytest.mark.parametrize("printed", [{}, {10: math.nan}])
def test_without_a_printed_loss_nothing_is_hidden(printed: dict[int, float]) -> None:
    state = watched_run(printed, {0: 0.5, 1: 0.75}, steps=9)
    assert losses(state) == [0.5, 0.75]
