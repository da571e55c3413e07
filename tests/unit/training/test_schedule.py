"""What the ranks do after which step."""

from __future__ import annotations

import pytest

from training.job import Job
from training.schedule import Schedule


def schedule(job: Job, *, compares: bool = True) -> Schedule:
    return Schedule.of(job, 10, compares=compares)


@pytest.mark.parametrize(
    ("job", "steps"), [(Job(), 10), (Job(epochs=3), 30), (Job(steps=25), 25), (Job(steps=4), 4)]
)
def test_a_run_has_the_steps_of_its_job(job: Job, steps: int) -> None:
    assert schedule(job).steps == steps


def test_epochs_have_ten_steps_but_the_last_may_be_cut_off() -> None:
    cut_off = schedule(Job(steps=25))
    assert [cut_off.epoch(step) for step in (0, 1, 10, 11, 25)] == [1, 1, 1, 2, 3]
    assert [cut_off.epoch_end(step) for step in (0, 9, 10, 24)] == [10, 10, 20, 25]
    assert [step for step in range(1, 26) if cut_off.ends_epoch(step)] == [10, 20, 25]


@pytest.mark.parametrize(
    ("every", "saved"), [("", []), ("4", [4, 8, 12, 16, 20, 24, 25]), ("epoch", [10, 20, 25])]
)
def test_checkpoints_are_saved_every_so_many_steps_and_at_the_end(
    every: str, saved: list[int]
) -> None:
    run = schedule(Job(steps=25, checkpoint_every=every))
    assert [step for step in range(1, 26) if run.saves(step)] == saved
    within = [step for step in saved if step not in (10, 20, 25)]
    assert [step for step in range(1, 26) if run.saves_within_epoch(step)] == within


def test_ranks_meet_to_compare_and_to_save() -> None:
    run = schedule(Job(steps=25, checkpoint_every="8", log_every=5))
    assert [step for step in range(1, 26) if run.meets(step)] == [5, 8, 10, 15, 16, 20, 24, 25]
    assert [run.next_stop(step) for step in (0, 5, 8, 16, 24)] == [5, 8, 10, 20, 25]


def test_ranks_whose_models_differ_do_not_compare_them() -> None:
    run = schedule(Job(steps=25, log_every=5), compares=False)
    assert not any(run.meets(step) for step in range(1, 26))
    assert run.next_stop(3) == 10
