"""`rankboard study` in a terminal: a study that is made again from its dashboard."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from remote.study.length import TrainingLength, find_length
from remote.study.runner import StudyRunner
from tests.kit.commands import call_rankboard
from tui.app import show_study
from tui.commands import study

TEXT = """
[job]
epochs = 2
lr = 0.5
[axes]
sync = ["ring", "ddp"]
"""


def test_a_study_that_is_made_again_keeps_its_options_and_its_earlier_results(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "two-ways.toml").write_text(TEXT)
    answers: Iterator[TrainingLength | None] = iter([TrainingLength("epochs", 30), None])
    shown: list[StudyRunner] = []

    def show(runner: StudyRunner) -> TrainingLength | None:
        shown.append(runner)
        return next(answers)

    monkeypatch.setattr(show_study, "show_dashboard", show)
    monkeypatch.setattr(study, "check_terminal", lambda: None)
    done = call_rankboard("study", "two-ways.toml", "--local", "2", "--lr", "0.1")
    assert done.returncode == 130, "no run was made"
    assert [str(find_length(runner.study)) for runner in shown] == ["2 epochs", "30 epochs"]
    assert {cell.job.lr for cell in shown[1].study.cells if cell.job} == {0.1}
    assert shown[1].study.most_nodes == 2
    folders = sorted(path.name for path in (tmp_path / "runs").glob("*.study"))
    assert len(folders) == 2
    assert f"kept as {folders[0].removesuffix('.study')}" in done.stderr
