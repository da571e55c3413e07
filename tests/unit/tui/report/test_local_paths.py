"""Reports name no folders of this machine and no users of hosts."""

from __future__ import annotations

import json
import shlex
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from remote.events import SessionClosed
from remote.plan.plan import Script
from remote.study.folder import StudyCall
from tests.kit.commands import Done, run
from tests.kit.histories import History, plan, raised
from tests.kit.recorded import recorded
from tests.kit.studies import study
from tui.commands.report import report
from tui.report.local_paths import shorten_paths, write_study_command

Run = Callable[..., Done]
assert run  # the fixture

STUDY = "repetitions = 1\n[job]\nsteps = 3\n[axes]\nsync = ['ring']\n"


@pytest.fixture(autouse=True)
def no_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.unit.tui.report.test_report import NO_PICTURE

    monkeypatch.setattr("tui.report.write.render", lambda _: NO_PICTURE)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The home folder of ada, with the course as the present folder."""
    home = tmp_path / "ada-home"
    (home / "course").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.chdir(home / "course")
    return home


@pytest.mark.parametrize(
    ("text", "short"),
    [
        ("{home}/data", "~/data"),
        ("{home}", "~"),
        ("{home}/", "~"),
        ("{home}/course", "."),
        ("{home}/course/data", "data"),
        ("--data={home}/x", "--data=~/x"),
        ("--data={home}/course/x", "--data=x"),
        ("--data={home}", "--data=~"),
        ("train.py --data {home}/x '{home}/a b'", "train.py --data ~/x '~/a b'"),
        ("{home}/a:{home}/course/b", "~/a:b"),
        ("{home}-2/data", "{home}-2/data"),
        ("/mnt{home}/data", "/mnt{home}/data"),
    ],
)
def test_paths_are_shortened_wherever_they_stand(home: Path, text: str, short: str) -> None:
    text, short = text.format(home=home), short.format(home=home)
    assert shorten_paths({"a": [text]}) == {"a": [short]}


def test_from_the_folder_of_all_homes_no_user_is_named(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(home.parent)
    assert shorten_paths(f"{home}/data") == "~/data"
    monkeypatch.chdir("/")
    assert shorten_paths("/opt/data") == "/opt/data"


def test_a_shell_finds_the_home_folder_of_a_command(home: Path) -> None:
    call = StudyCall("", {"data_dir": f"{home}/my data"}, {"hosts": f"{home}/hosts"}, quick=False)
    command = write_study_command("x", call)
    assert command == "rankboard study x --new --hosts ~/hosts --data-dir ~/'my data'"
    assert shlex.split(command)[-1] == "~/my data"


def test_the_command_of_a_report_has_neither_folders_nor_users(run: Run, home: Path) -> None:
    study(
        Path("runs"),
        STUDY,
        lambda _: 0.1,
        places={"hosts": f"{home}/p/hosts.toml", "host": "ada@10.0.0.1:4,ada@10.0.0.2"},
        given={"data_dir": f"{home}/data"},
    )
    made = run(report, names=["small"], submission=True)
    assert made.returncode == 0, made.stderr
    command = (
        "rankboard study small --new --hosts ~/p/hosts.toml --host 10.0.0.1:4,10.0.0.2 "
        "--data-dir ~/data"
    )
    folder = Path("report-small")
    [subject] = json.loads((folder / "data.json").read_text())["subjects"]
    assert subject["command"] == command
    assert f"    {command}\n" in (folder / "report.md").read_text()
    assert command in (folder / "report.html").read_text()
    with zipfile.ZipFile(folder / "report-small.zip") as archive:
        texts = {name: archive.read(name).decode(errors="replace") for name in archive.namelist()}
    for name, text in texts.items():
        assert str(home) not in text, name
        assert "ada@" not in text, name


def test_the_program_of_a_script_names_no_folder(run: Run, home: Path) -> None:
    for name, rate in (("a-run", "1"), ("b-run", "2")):
        words = (f"{home}/train.py", f"--data={home}/x", "--out", str(home), "--lr", rate)
        made_by = replace(plan(1, script=True), run=name, work=Script(words))
        recorded(
            Path("runs"),
            History(made_by).rank(0, *raised(0, f"no {home}/x")).session(SessionClosed()),
        )
    made = run(report, names=["a-run", "b-run"], out=Path("ours"))
    assert made.returncode == 0, made.stderr
    for name in ("report.md", "report.html", "data.json"):
        # Markdown escapes some characters.
        text = Path("ours", name).read_text().replace("\\", "")
        assert str(home) not in text, name
        assert "=~/x" in text, name
    assert str(home) not in Path("ours", "data.csv").read_text()


def test_the_cause_of_a_failure_names_no_folder(run: Run, home: Path) -> None:
    study(
        Path("runs"),
        STUDY.replace("'ring'", "'ring', 'ddp'"),
        lambda _: 0.1,
        failed=lambda trial: f"no {home}/x" if trial.work.sync == "ddp" else "",
    )
    made = run(report, names=["small"])
    assert made.returncode == 0, made.stderr
    for name in ("report.md", "report.html", "data.json", "data.csv"):
        text = Path("report-small", name).read_text().replace("\\", "")
        assert str(home) not in text, name
        assert "no ~/x" in text, name
