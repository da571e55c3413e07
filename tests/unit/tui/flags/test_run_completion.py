"""What a shell is offered where a command takes a run."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.kit.commands import call_rankboard
from tests.kit.launches import RANKBOARD
from tui.commands.cli import COMPLETE, make_whole_app

OLD, NEW = "20261120-0930-ddp-lenet5", "20261121-0930-ring-vgg11"
BEGIN = "\x1fbegin"
"""Behind this line stand the candidates."""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with two recorded runs, of which one has a name, and a study."""
    for name in (OLD, NEW):
        (tmp_path / "runs" / name).mkdir(parents=True)
        (tmp_path / "runs" / name / "plan.json").write_text("{}")
    (tmp_path / "runs" / NEW / "name.txt").write_text("my $(best) run")
    (tmp_path / "runs" / "four-ways.study").mkdir()
    (tmp_path / "train.log").touch()
    monkeypatch.chdir(tmp_path)
    return tmp_path


def complete(*words: str) -> list[str]:
    """What is offered for the last of these words, as each of the shells asks."""
    _, _, told = call_rankboard(COMPLETE, *words).stdout.partition(f"{BEGIN}\n")
    return [line.split("\t")[0] for line in told.splitlines()]


RUNS = ["last", NEW, "my $(best) run", OLD]


@pytest.mark.parametrize(
    "words",
    [
        *((command, "") for command in ("attach", "events", "logs", "serve", "stop", "wait")),
        *((command, "") for command in ("watch", "export", "compare", "prune")),
        ("logs", "--rank", "0", "2026"),
        ("compare", OLD, ""),
        ("--run", "--resume", ""),
        ("runs", "--star", ""),
        ("runs", "--note", ""),
    ],
)
def test_runs_are_offered_newest_first(words: tuple[str, ...]) -> None:
    assert complete(*words) == RUNS


def test_studies_and_files_are_offered_where_they_are_taken() -> None:
    assert complete("report", "") == ["four-ways", *RUNS]
    assert complete("open", "") == ["runs/", "train.log", *RUNS]
    assert complete("open", f"runs/{NEW}/n") == [f"runs/{NEW}/name.txt"]


@pytest.mark.parametrize("words", [("runs", "--note", "last", ""), ("logs", "last", "--tail", "")])
def test_nothing_is_offered_where_no_run_is_taken(words: tuple[str, ...]) -> None:
    assert complete(*words) == []


def test_the_folder_of_the_line_counts(folder: Path) -> None:
    (folder / "runs").rename(folder / "others")
    assert complete("logs", "") == ["last"]
    assert complete("logs", "--runs-dir", "others", "") == RUNS


def test_bash_completes_runs(folder: Path) -> None:
    script = make_whole_app().generate_completion(shell="bash")
    lines = [
        script,
        "complete_words() {",
        '  COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=()',
        '  _rankboard rankboard; printf "%s;" "${COMPREPLY[@]}"; echo',
        "}",
        f"complete_words {RANKBOARD} logs 2026",
        f"complete_words {RANKBOARD} stop --now my",
    ]
    done = subprocess.run(
        ["bash", "-c", "\n".join(lines)], cwd=folder, capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines() == [f"{NEW};{OLD};", r"my\ \$\(best\)\ run;"]


@pytest.mark.skipif(not shutil.which("fish"), reason="needs fish")
def test_fish_completes_runs(folder: Path) -> None:
    (folder / "script").write_text(make_whole_app().generate_completion(shell="fish"))
    line = f"source script; complete -C '{Path(RANKBOARD).name} logs 2026'"
    path = f"{Path(RANKBOARD).parent}:{os.environ['PATH']}"
    done = subprocess.run(
        ["fish", "--no-config", "-c", line],
        env=os.environ | {"PATH": path},
        capture_output=True,
        text=True,
        check=True,
    )
    assert {line.split("\t")[0] for line in done.stdout.splitlines()} == {OLD, NEW}


def test_zsh_asks_for_runs(tmp_path: Path) -> None:
    script = make_whole_app().generate_completion(shell="zsh")
    assert COMPLETE in script
    if shutil.which("zsh"):
        (tmp_path / "script").write_text(script)
        subprocess.run(["zsh", "-n", str(tmp_path / "script")], check=True)


def test_nothing_heavy_is_loaded() -> None:
    code = (
        f"import sys; from tui.commands import cli\n"
        f"try: cli.call([{COMPLETE!r}, 'attach', ''])\n"
        "except SystemExit: pass\n"
        "heavy = {'torch', 'numpy', 'textual', 'paramiko', 'pydantic', 'rich.console'}\n"
        "print(sorted(heavy & {*sys.modules}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
    assert NEW in done.stdout
