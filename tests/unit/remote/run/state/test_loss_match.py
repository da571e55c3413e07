"""The first loss that a script prints, compared with those of its steps."""

from __future__ import annotations

import pytest

from remote.run.state.loss_match import LossMatch

FALLING = [32.0, 20.0, 8.0, 2.0, 0.5, *[0.1] * 60]
"""Losses of steps from 1 on: they fall quickly, as at the beginning of a training."""


def matched(printed: float, step: int, *, after: int, names_step: bool = True) -> float:
    """Return how far a loss is out of its range that is printed once the watch is `after` a
    step."""
    match = LossMatch()
    match.take_steps(1, FALLING[:after])
    match.take_print(printed, step if names_step else after, names_step=names_step)
    for number, loss in enumerate(FALLING[after:], start=after + 1):
        match.take_steps(number, [loss])
    match.end()
    return match.ratio


@pytest.mark.parametrize("after", [1, 2, 5, 12, 40, 65])
@pytest.mark.parametrize("step", [1, 2, 5, 12])
@pytest.mark.parametrize("factor", [1.0, 4.0, 1 / 8])
def test_a_loss_is_compared_at_the_step_that_it_names_whenever_it_comes(
    after: int, step: int, factor: float
) -> None:
    ratio = matched(factor * FALLING[step - 1], step, after=after)
    on_time = matched(factor * FALLING[step - 1], step, after=step)
    assert ratio == pytest.approx(on_time)
    assert (ratio == 1) or factor != 1
    # From the second step on, the mean of the steps until then is far above the loss of the step.
    assert (ratio >= 2.5) or factor == 1 or step > 2


def test_the_mean_of_all_steps_so_far_is_no_other_quantity() -> None:
    assert matched(sum(FALLING[:12]) / 12, 12, after=40) == pytest.approx(1)


def test_a_line_that_counts_from_0_or_comes_before_the_step_is_compared_with_the_next_one() -> None:
    assert matched(2.0, 3, after=3) == 1


@pytest.mark.parametrize("after", [1, 5, 40])
def test_a_loss_without_a_step_is_compared_with_all_losses(after: int) -> None:
    assert matched(0.15, 0, after=after, names_step=False) == pytest.approx(1.0)
    assert matched(96.0, 0, after=after, names_step=False) == pytest.approx(3.0)


def test_only_the_first_printed_loss_counts() -> None:
    match = LossMatch()
    match.take_steps(1, FALLING[:20])
    match.take_print(20.0, 2, names_step=True)
    match.take_print(4000.0, 12, names_step=True)
    assert match.ratio == 1


def test_losses_that_are_long_gone_are_those_of_the_whole_range() -> None:
    match = LossMatch()
    match.take_steps(1, FALLING + [0.1] * 3000)
    match.take_print(32.0, 1, names_step=True)
    match.take_steps(3066, [0.1])
    assert match.ratio == 1


def test_losses_of_0_and_less_have_nothing_to_compare_with_and_are_waited_for_once() -> None:
    match = LossMatch()
    match.take_steps(1, [2.0, -1.0, 0.5])
    match.take_print(4.0, 3, names_step=False)
    match.take_steps(4, [0.5] * 30)
    assert not match.is_awaited
    match.take_print(4.0, 33, names_step=False)
    assert not match.is_awaited
    assert match.ratio == 1
