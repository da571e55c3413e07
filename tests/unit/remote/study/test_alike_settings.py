"""Settings of a study between which no run shows a difference."""

from __future__ import annotations

import pytest

from remote.study.alike_settings import find_alike_setting, find_alike_settings
from remote.study.conclusion import effect_lines
from remote.study.folder import RunEnded, TrialOutcome
from remote.study.progress import StudyProgress
from remote.study.results import StudyResult, compute_results
from remote.study.study_file import parse_study

TEXT = """
metric = "loss"
repetitions = 2
[job]
limit = 100
processes = 4
[axes]
sync = ["all_reduce", "ring"]
setting = [
    { label = "small", batch_size = 20 },
    { label = "split", batch_size = 20, partition = "by_label" },
    { label = "faster", batch_size = 20, lr = 0.2 },
]
"""


def results(text: str, losses: dict[str, float], seed_step: float = 0.1) -> StudyResult:
    study = parse_study("settings", text)
    progress = StudyProgress(study)
    for trial in study.trials():
        loss = losses[trial.cell.label("setting")] + trial.repetition * seed_step
        progress.apply(RunEnded(trial.key, trial.key, TrialOutcome.COUNTED, loss))
    return compute_results(progress)


def test_a_split_that_changes_next_to_nothing_is_found_and_explained() -> None:
    result = results(TEXT, {"small": 2.0, "split": 2.00002, "faster": 1.5})
    (alike,) = find_alike_settings(result)
    assert (alike.axis, alike.label, alike.earlier_label) == ("setting", "split", "small")
    assert alike.difference == pytest.approx(2e-5)
    assert alike.is_split_only
    assert effect_lines(result)[-1].startswith("split is within 0.00002 of small: each step ave")
    cells = [cell for cell in result.study.cells if find_alike_setting(cell, [alike])]
    assert [cell.label("setting") for cell in cells] == ["split", "split"]


def test_other_settings_that_are_alike_have_no_known_cause() -> None:
    result = results(TEXT, {"small": 2.0, "split": 1.0, "faster": 2.0})
    (alike,) = find_alike_settings(result)
    assert (alike.label, alike.is_split_only) == ("faster", False)
    assert effect_lines(result)[-1] == "faster is as small"


def test_a_split_of_ranks_that_do_not_average_each_step_is_no_cause() -> None:
    text = TEXT.replace('"all_reduce", "ring"', '"local_sgd"')
    (alike,) = find_alike_settings(results(text, {"small": 2.0, "split": 2.0, "faster": 1.0}))
    assert not alike.is_split_only


def test_equal_means_of_runs_that_differ_are_not_alike() -> None:
    study = parse_study("settings", TEXT)
    progress = StudyProgress(study)
    for trial in study.trials():
        is_split = trial.cell.label("setting") == "split"
        loss = {False: {1: 1.0, 2: 2.0}, True: {1: 2.0, 2: 1.0}}[is_split][trial.repetition]
        loss += trial.cell.label("setting") == "faster"
        progress.apply(RunEnded(trial.key, trial.key, TrialOutcome.COUNTED, loss))
    assert find_alike_settings(compute_results(progress)) == []


def test_equal_times_are_chance() -> None:
    text = TEXT.replace('"loss"', '"step_seconds"')
    losses = {"small": 2.0, "split": 2.0, "faster": 2.0}
    assert find_alike_settings(results(text, losses)) == []
