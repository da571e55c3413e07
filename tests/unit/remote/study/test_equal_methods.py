"""Methods that compute the same numbers: what they prove, and what short runs leave open."""

from __future__ import annotations

from dataclasses import replace

import pytest

from remote.study.conclusion import guess_text, lack_text, proof_text
from remote.study.equal_methods import find_equal_methods
from remote.study.folder import RunEnded, TrialOutcome
from remote.study.guessing import Guesses
from remote.study.length import TrainingLength
from remote.study.progress import StudyProgress
from remote.study.results import StudyResult, compute_results
from remote.study.study_file import parse_study

TEXT = """
metric = "loss"
repetitions = 2
[job]
dataset = "digits"
limit = 100
processes = 4
epochs = 10
[axes]
sync = ["all_reduce", "ring", "local_sgd"]
setting = [
    { label = "small", batch_size = 20 },
    { label = "split", batch_size = 20, partition = "by_label" },
    { label = "large", batch_size = 100 },
]
"""
EQUAL = TEXT.replace(', "local_sgd"', "")
BEATEN = "10 epochs barely beat guessing (best run 2.25, guessing 2.30)"


def results(text: str, losses: dict[str, float], *, local_sgd: float = 0.0) -> StudyResult:
    """The results of a study with these losses of each setting; of local SGD they are so much
    higher."""
    study = parse_study("settings", text)
    progress = StudyProgress(study)
    for trial in study.trials():
        loss = losses[trial.cell.label("setting")] + trial.repetition / 100
        if trial.cell.label("sync") == "local_sgd":
            loss += local_sgd
        progress.apply(RunEnded(trial.key, trial.key, TrialOutcome.COUNTED, loss))
    return compute_results(progress)


def test_equal_methods_are_named_and_a_split_that_changes_nothing_is_not_open() -> None:
    result = results(EQUAL, {"small": 2.24, "split": 2.24, "large": 2.30})
    methods = find_equal_methods(result)
    assert methods
    assert methods.labels == ("all_reduce", "ring")
    assert not methods.has_others
    assert methods.varied_settings == ("batch_size",)
    assert proof_text(result.study, methods) == (
        "all_reduce and ring compute the same numbers: run for run the same test loss, within "
        "rounding"
    )
    assert guess_text(result) == f"too short to show the effect of batch size: {BEATEN}"


def test_a_split_that_may_change_something_is_open() -> None:
    result = results(EQUAL, {"small": 2.24, "split": 2.26, "large": 2.30})
    assert "to show the effect of batch size and the split: " in guess_text(result)


def test_beside_a_method_with_other_losses_all_else_is_open() -> None:
    result = results(TEXT, {"small": 2.24, "split": 2.24, "large": 2.30}, local_sgd=0.01)
    methods = find_equal_methods(result)
    assert methods
    assert methods.labels == ("all_reduce", "ring")
    assert methods.has_others
    assert guess_text(result) == f"too short to show anything else: {BEATEN}"


@pytest.mark.parametrize(
    ("settings", "length", "words"),
    [
        ((), TrainingLength("epochs", 1), "too short to show anything else"),
        (("lr",), None, "nothing was learned that shows the effect of learning rate"),
        (("lr", "model", "nodes", "limit"), TrainingLength("epochs", 1), "to show anything else"),
    ],
)
def test_what_is_open_is_named_in_few_words(
    settings: tuple[str, ...], length: TrainingLength | None, words: str
) -> None:
    result = results(EQUAL, {"small": 2.24, "split": 2.24, "large": 2.30})
    methods = find_equal_methods(result)
    assert methods
    guesses = Guesses(length, 2.29, 2.3, is_near=True)
    assert lack_text(guesses, replace(methods, varied_settings=settings)).endswith(words)


def test_equal_accuracies_and_methods_that_are_equal_at_some_places_prove_nothing() -> None:
    losses = {"small": 2.24, "split": 2.24, "large": 2.30}
    assert find_equal_methods(results(EQUAL.replace('"loss"', '"accuracy"'), losses)) is None
    result = results(EQUAL, losses)
    other = replace(result.cells[-1], is_same=False)
    parted = replace(result, cells=(*result.cells[:-1], other))
    assert find_equal_methods(parted) is None
    assert guess_text(parted).startswith("not trained long enough to compare: after 10 epochs")
