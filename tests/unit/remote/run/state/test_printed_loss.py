"""The loss that a script prints, beside the one that the watch sees."""

from __future__ import annotations

import math

import pytest

from remote.run.findings.training_loss import find_training_loss, is_mean_beside_prints
from remote.run.run_state import RunState
from tests.kit.histories import block_of, said
from tests.kit.scripts import script, seen, started
from training.wire.events import Event
from training.wire.rank_events import StepFinished
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
    remarks = [line.text for line in state.log.lines if "another quantity" in line.text]
    assert remarks == [
        "printed loss taken for another quantity: rank 0 prints 208 at step 5, where backward() "
        "is called on 27000"
    ]
    (caption,) = (line for line in result_captions(state) if "loss: " in line)
    assert caption.endswith("which is another quantity than that of its steps")


def test_a_loss_whose_line_names_no_step_is_another_quantity_without_one() -> None:
    history = started(script(1, 2, watch=True))
    for step in range(1, 31):
        for rank in range(2):
            history.say(0, seen(rank, step, 0.5, compute=0.5, sync=0.1), after=0.1)
        history.say(0, said(0, "epoch=1 loss=4.0", "stdout"), after=0.1)
    state = history.state()
    remarks = [line.text for line in state.log.lines if "another quantity" in line.text]
    assert remarks == [
        "printed loss taken for another quantity: rank 0 prints 4, where backward() is called on "
        "0.5"
    ]


@pytest.mark.parametrize("is_late", [False, True])
@pytest.mark.parametrize("factor", [1, 8])
def test_a_loss_that_falls_quickly_is_compared_at_the_step_that_its_line_names(
    is_late: bool, factor: int
) -> None:
    """Lines of quick steps come long before or after what the watch reports of these."""
    history = started(script(1, 2, watch=True))
    step_losses = [32.0, 20.0, *[0.1] * 98]
    lines = [f"step={step} loss={factor * step_losses[step - 1]}" for step in range(1, 100, 10)]
    for rank in range(2):
        first_steps = [
            StepFinished(rank, 0, step, step_losses[step - 1], 0.01, 0.0, 0.006, 0.003)
            for step in range(1, 101)
        ]
        parts = first_steps[:1], first_steps[1:]
        events: list[Event] = [block_of(part, history.now) for part in parts]
        if rank == 0:
            events.insert(2 if is_late else 1, said(0, "\n".join(lines), "stdout"))
        history.say(0, *events)
    state = history.state()
    assert state.progress.prints_other_loss == (factor > 1)
    assert len([line for line in state.log.lines if "another quantity" in line.text]) == (
        factor > 1
    )


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
