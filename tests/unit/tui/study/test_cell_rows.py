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
from tui.study.cell_rows import find_best_cells, lay_out_cells, make_fact_columns


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


def test_alike_values_name_the_setting_that_has_the_same(guessing: StudyResult) -> None:
    layout = lay_out_cells(guessing, 120)
    assert layout.names_alike
    texts = [" ".join(row) for row in layout.table.rows]
    assert sum("≈ batch 20" in text for text in texts) == 2
    assert all("≈" not in text for text in texts if "split by label" not in text)
    # The settings themselves go first.
    narrow_layout = lay_out_cells(guessing, 80)
    assert not narrow_layout.names_alike
    assert not any("≈" in " ".join(row) for row in narrow_layout.table.rows)


def test_steps_are_listed_where_they_differ(guessing: StudyResult) -> None:
    facts = make_fact_columns(guessing, 60)
    assert [column.title for column in facts.columns[:2]] == ["duration", "steps"]
    assert [row[1].text for row in facts.rows] == ["10", "50", "50"] * 2
    assert facts.has_axis
    assert not make_fact_columns(guessing, 20).has_axis
    assert not make_fact_columns(guessing, 5).columns
