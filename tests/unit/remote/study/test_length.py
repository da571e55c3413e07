"""How long the runs of a study train, and how long they should."""

from __future__ import annotations

import pytest

from remote.study.folder import StudyCall
from remote.study.length import TrainingLength, find_length, lengthen, suggest_longer
from remote.study.start_study import parse_call
from remote.study.study_file import read_bundled_studies

QUICK = read_bundled_studies()["lenet-ring"]
SCRIPT = """
[base]
script = "main.py --epochs {epochs}"
[axes]
epochs = [1, 2]
"""
BASE = "[job]\nsteps = 5\n[axes]\nsync = ['ring', 'ddp']\n"
VARIED = "[axes]\nepochs = [1]\n"
OF_CELLS = "[axes]\nsync = ['ring']\n[[cell]]\nsync = 'ddp'\nepochs = 1\n"


def call(text: str, *, quick: bool = False, **given: object) -> StudyCall:
    return StudyCall(text, given, {}, quick)


@pytest.mark.parametrize(
    ("called", "length", "longer"),
    [
        (call(QUICK, quick=True), "10 epochs", "100 epochs"),
        (call(QUICK, quick=True, epochs=30), "30 epochs", "100 epochs"),
        (call(QUICK, quick=True, epochs=100), "100 epochs", "1,000 epochs"),
        (call(QUICK), "100 epochs", "1,000 epochs"),
        (call(BASE), "5 steps", "50 steps"),
        (call(BASE, epochs=1), "1 epoch", "10 epochs"),
        (call(SCRIPT), "None", "None"),
        (call(VARIED), "1 epoch", "None"),
        (call(OF_CELLS), "1 epoch", "None"),
    ],
)
def test_a_longer_length_is_that_of_the_whole_study_or_ten_times(
    called: StudyCall, length: str, longer: str
) -> None:
    study = parse_call("study", called)
    assert str(find_length(study)) == length
    suggestion = suggest_longer(study, called)
    assert str(suggestion) == longer
    if suggestion:
        assert find_length(parse_call("study", lengthen(called, suggestion))) == suggestion


def test_a_length_replaces_the_other_one() -> None:
    lengthened = lengthen(call(BASE, steps=5, lr=0.1), TrainingLength("epochs", 3))
    assert lengthened.given == {"lr": 0.1, "epochs": 3}
