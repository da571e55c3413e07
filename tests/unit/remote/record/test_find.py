"""What a person calls a run."""

from __future__ import annotations

from pathlib import Path

import pytest

from remote.plan.plan import PlanError
from remote.record.find import find, runs_dir_of
from remote.record.layout import PLAN


@pytest.fixture
def runs_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two runs in ./runs, and one in ./others."""
    for folder in ("runs/20261120-0930-a", "runs/20261121-0930-b", "others/c"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / PLAN).write_text("{}")
    monkeypatch.chdir(tmp_path)
    return Path("runs")


@pytest.mark.parametrize(
    "run",
    [
        "20261121-0930-b",
        "20261121",
        "last",
        "runs/20261121-0930-b",
        "./runs/20261121-0930-b/",
        "runs/last",
        "others/../runs/20261121",
    ],
)
def test_a_run_is_found_by_its_name_and_by_its_path(runs_dir: Path, run: str) -> None:
    assert find(run, runs_dir) == runs_dir / "20261121-0930-b"
    assert find(run, runs_dir.absolute()) == runs_dir.absolute() / "20261121-0930-b"


@pytest.mark.parametrize("run", ["others/c", "./others/c/", "others/last"])
def test_a_path_may_lead_to_a_run_of_another_folder(runs_dir: Path, run: str) -> None:
    others = Path.cwd() / "others"
    assert find(run, runs_dir) == others / "c"
    assert runs_dir_of(run, runs_dir) == others
    assert runs_dir_of("runs/last", runs_dir) == runs_dir


@pytest.mark.parametrize(
    ("run", "why"),
    [
        ("runs/c", r"runs/c: there is no such file or folder; rankboard runs lists the runs"),
        ("../nofile.log", r"\.\./nofile\.log: there is no such file or folder"),
        ("others/", r"others/: is not a run"),
        ("others/d", r"others/d: there is no such file or folder; .* in .*/others$"),
        ("runs/2026", r"2026: 2 runs begin so"),
    ],
)
def test_a_path_that_leads_to_no_run_is_explained(runs_dir: Path, run: str, why: str) -> None:
    with pytest.raises(PlanError, match=why):
        find(run, runs_dir)
