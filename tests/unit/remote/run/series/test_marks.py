"""What happened in a run, for charts: each once, and of very many each n-th."""

from __future__ import annotations

import pytest

from remote.run.series.marks import CHECKPOINT, EPOCH, MOST, RESTART, STALL, TEST, Marks


def steps_of(marks: Marks, letter: str) -> list[int]:
    return [mark.step for mark in marks.all() if mark.letter == letter]


def test_an_epoch_has_one_mark_also_if_ranks_report_several_at_once() -> None:
    marks = Marks()
    for _rank in range(4):
        for step in (23, 46, 69):
            marks.add(EPOCH, step, float(step))
    assert steps_of(marks, EPOCH) == [23, 46, 69]


@pytest.mark.parametrize("letter", [EPOCH, TEST, CHECKPOINT])
def test_what_is_reached_again_after_a_restart_is_marked_again(letter: str) -> None:
    marks = Marks()
    for step in (10, 20, 30):
        marks.add(letter, step, 0.0)
    marks.rewind(15)
    assert steps_of(marks, letter) == [10]
    marks.add(letter, 20, 0.0)
    assert steps_of(marks, letter) == [10, 20]


def test_stalls_and_restarts_may_come_at_any_step() -> None:
    marks = Marks()
    for step in (100, 60):
        marks.add(STALL, step, 0.0)
    for _ in range(2):
        marks.add(RESTART, 50, 0.0)
    assert steps_of(marks, STALL) == [100, 60]
    assert steps_of(marks, RESTART) == [50, 50]


@pytest.mark.parametrize("count", [MOST, MOST + 1, 3 * MOST, 10 * MOST])
def test_of_very_many_marks_each_nth_is_kept_from_the_first_on(count: int) -> None:
    marks = Marks()
    for step in range(1, count + 1):
        for _rank in range(2):
            marks.add(EPOCH, step, 0.0)
    kept = steps_of(marks, EPOCH)
    assert kept == list(range(1, count + 1, marks.strides[EPOCH]))
    assert MOST / 2 <= len(kept) <= MOST
