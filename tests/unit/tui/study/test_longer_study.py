"""A study made again with longer runs: its time, and its command."""

from __future__ import annotations

from pathlib import Path

import pytest

from remote.study.folder import RunEnded, StudyCall, StudyFolder, TrialOutcome
from remote.study.length import TrainingLength
from remote.study.progress import StudyProgress
from remote.study.study_file import parse_study, read_bundled_studies
from tui.study.longer_study import find_longer_study, list_study_words

NAME = "lenet-ring-quick"
TEXT = read_bundled_studies()["lenet-ring"]


@pytest.fixture
def progress() -> StudyProgress:
    """A quick study all of whose runs have ended."""
    progress = StudyProgress(parse_study(NAME, TEXT, {"dataset": "digits"}, quick=True))
    for trial in progress.study.trials():
        progress.apply(RunEnded(trial.key, trial.key, TrialOutcome.COUNTED, 2.3, seconds=2.0))
    return progress


def test_the_command_of_a_longer_study_has_its_options(
    tmp_path: Path, progress: StudyProgress
) -> None:
    call = StudyCall(TEXT, {"dataset": "digits", "lr": 0.02, "epochs": 10}, {}, quick=True)
    StudyFolder.of(tmp_path, NAME).keep(call)
    longer = find_longer_study(progress, tmp_path)
    assert longer
    assert longer.can_start
    assert longer.describe_time() == "~4 min"
    words = longer.list_words(TrainingLength("epochs", 7))
    options = {"--new", "--dataset", "digits", "--lr", "0.02", "--epochs", "7", "--runs-dir"}
    assert words[:2] == ["study", NAME]
    assert set(words[2:]) == {*options, str(tmp_path)}


@pytest.mark.parametrize(
    ("places", "can_start"),
    [
        ({"local": 4, "slots": 2}, True),
        ({"hosts": "hosts.toml"}, False),
        ({"local": 4, "hosts": "hosts.toml"}, False),
        ({}, False),
    ],
)
def test_a_study_that_somebody_else_has_called_starts_on_this_machine_only(
    tmp_path: Path, progress: StudyProgress, places: dict[str, object], *, can_start: bool
) -> None:
    folder = StudyFolder.of(tmp_path, NAME)
    folder.keep(StudyCall(TEXT, {"dataset": "digits"}, places, quick=True))
    (folder.path / "place.mac").write_text("of somebody else")
    longer = find_longer_study(progress, tmp_path)
    assert longer
    assert longer.can_start == can_start
    words = longer.list_words(longer.longer_length)
    assert ("--local 4 --slots 2" in " ".join(words)) == can_start
    assert "--hosts" not in words


@pytest.mark.parametrize("given", [{"lr": "much"}, {"unknown": 1}, {"sync_option": [1]}])
def test_a_study_whose_options_somebody_has_spoiled_cannot_be_made_again(
    tmp_path: Path, progress: StudyProgress, given: dict[str, object]
) -> None:
    StudyFolder.of(tmp_path, NAME).keep(StudyCall(TEXT, given, {}, quick=True))
    assert find_longer_study(progress, tmp_path) is None


def test_a_study_that_is_gone_cannot_be_made_again(tmp_path: Path, progress: StudyProgress) -> None:
    assert find_longer_study(progress, tmp_path) is None


def test_only_another_folder_of_runs_is_named(tmp_path: Path) -> None:
    assert list_study_words("a", Path("runs")) == ["study", "a"]
    assert list_study_words("a", Path("runs").absolute(), "--new") == ["study", "a", "--new"]
    assert list_study_words("a", tmp_path)[2:] == ["--runs-dir", str(tmp_path)]
