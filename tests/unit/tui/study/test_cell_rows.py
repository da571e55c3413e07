"""The rows of the table of a study: the best values, and values that are alike."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from remote.study.folder import RunEnded, TrialOutcome
from remote.study.progress import StudyProgress
from remote.study.results import StudyResult, compute_results
from remote.study.study import Trial
from remote.study.study_file import parse_study, read_bundled_studies
from tests.kit.acted_study import TEXT
from tui.study.cell_rows import (
    find_best_cells,
    fold_same_cells,
    lay_out_cells,
    make_fact_columns,
)


def test_only_a_value_that_is_best_alone_has_a_word() -> None:
    text = TEXT.replace("nodes = [1, 2]", "nodes = [1]")
    progress = StudyProgress(parse_study("three", text))
    for place, (cell, seconds) in enumerate(
        zip(progress.cells.values(), (0.1, 0.1, 0.2), strict=True)
    ):
        for repetition in (1, 2):
            trial = Trial(cell.cell, repetition).key
            progress.apply(
                RunEnded(trial, f"run-{place}-{repetition}", TrialOutcome.COUNTED, seconds)
            )
    result = compute_results(progress)
    assert find_best_cells(result) == set()
    first, *others = result.cells
    slower = replace(first, value=others[-1].value)
    assert find_best_cells(replace(result, cells=(slower, *others))) == {others[0].cell.key}


@pytest.fixture
def guessing() -> StudyResult:
    """The results of a study whose runs guess: the split of the images changes next to nothing."""
    losses: Mapping[str, float] = {
        "batch 100": 2.3008,
        "batch 20": 2.2498,
        "batch 20, split by label": 2.24981,
    }
    study = parse_study("lenet-ring-quick", read_bundled_studies()["lenet-ring"], quick=True)
    progress = StudyProgress(study)
    for trial in study.trials():
        loss = losses[trial.cell.label("setting")] + trial.repetition / 100
        progress.apply(RunEnded(trial.key, trial.key, TrialOutcome.COUNTED, loss, seconds=2.0))
    return compute_results(progress)


def test_steps_are_listed_where_they_differ(guessing: StudyResult) -> None:
    groups = [(row,) for row in guessing.cells]
    facts = make_fact_columns(guessing, groups, 60)
    assert [column.title for column in facts.columns[:2]] == ["duration", "steps"]
    assert [row[1].text for row in facts.rows] == ["10", "50", "50"] * 2
    assert [column.title for column in make_fact_columns(guessing, groups, 20).columns] == [
        "duration",
        "steps",
    ]
    assert not make_fact_columns(guessing, groups, 5).columns


@pytest.mark.parametrize(
    ("room", "words"),
    [
        (70, "test loss of each run, 2.26 to 2.32"),
        (52, "loss of each run, 2.26 to 2.32"),
        (46, "loss of runs, 2.26 to 2.32"),
        (42, "each run, 2.26 to 2.32"),
    ],
)
def test_the_axis_of_the_values_has_its_ends_in_its_title(
    guessing: StudyResult, room: int, words: str
) -> None:
    groups = [(row,) for row in guessing.cells]
    facts = make_fact_columns(guessing, groups, room)
    column = facts.columns[-1]
    assert column.title.strip() == words
    drawn = [row[-1].text for row in facts.rows]
    assert max(map(len, drawn)) == column.width - 1, "the greatest value is at the end"
    assert column.title.index(words) == min(text.index("●") for text in drawn)


def test_without_room_for_its_title_there_is_no_axis(guessing: StudyResult) -> None:
    facts = make_fact_columns(guessing, [(row,) for row in guessing.cells], 35)
    assert [column.title for column in facts.columns] == ["duration", "steps"]


def test_cells_with_the_same_values_in_every_run_are_one_row(guessing: StudyResult) -> None:
    groups = fold_same_cells(guessing)
    table = lay_out_cells(guessing, groups, 120)
    assert [row[0] for row in table.rows] == ["all_reduce, ring"] * 3
    assert [row[3] for row in table.rows] == ["4/4"] * 3, "the runs of both"
    assert "against all_reduce" not in table.head, "the head says it"
    assert table.head[0] == "method (same)"
    other = replace(guessing.cells[-1], is_same=False)
    parted = replace(guessing, cells=(*guessing.cells[:-1], other))
    groups = fold_same_cells(parted)
    assert [len(group) for group in groups] == [2, 2, 1, 1]
    table = lay_out_cells(parted, groups, 120)
    assert table.head[0] == "method"
    assert [row[-1] for row in table.rows[:3]] == ["the same", "the same", "reference"]
    assert table.rows[-1][0] == "ring"


def test_equal_times_are_no_reason_for_one_row() -> None:
    progress = StudyProgress(parse_study("three", TEXT))
    for trial in progress.study.trials():
        progress.apply(RunEnded(trial.key, trial.key, TrialOutcome.COUNTED, 0.1))
    result = compute_results(progress)
    assert len(fold_same_cells(result)) == len(result.cells)


def test_the_start_of_the_hosts_is_no_part_of_a_duration(guessing: StudyResult) -> None:
    slow_run = replace(guessing.cells[0].runs[0], seconds=60.0)
    slow_cell = replace(guessing.cells[0], runs=(slow_run, *guessing.cells[0].runs[1:]))
    result = replace(guessing, cells=(slow_cell, *guessing.cells[1:]), first_run=slow_run.run)
    groups = [(row,) for row in result.cells]
    durations = [row[0].text for row in make_fact_columns(result, groups, 60).rows]
    assert durations == ["2 s"] * 6
    alone = replace(slow_cell, runs=(slow_run,))
    result = replace(result, cells=(alone, *guessing.cells[1:]))
    groups = [(row,) for row in result.cells]
    assert make_fact_columns(result, groups, 60).rows[0][0].text == "1:00", "there is no other"
