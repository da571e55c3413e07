"""Command lines that were typed for one node, as a whole command line has them."""

from __future__ import annotations

import shlex
from contextlib import chdir
from pathlib import Path

import pytest

from tests.kit.commands import Done, call_rankboard
from tui.flags import pasted as asking
from tui.kit.exit import UsageError

COURSE = """
parser.add_argument("-r", "--node", dest="rank", type=int, default=0)
parser.add_argument("-n", type=int, help="number of nodes")
"""
TYPED = "--local 2 --slots 1 -- LR=1 torchrun --max-restarts 1 course.py -n 4 -r 0"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "course.py").write_text(COURSE)
    return tmp_path


def call(folder: Path, line: str) -> Done:
    with chdir(folder):
        return call_rankboard(*shlex.split(line))


@pytest.mark.parametrize("flag", ["--run", "--dry-run"])
def test_it_is_refused_with_the_command_to_write(flag: str, folder: Path) -> None:
    done = call(folder, f"{flag} {TYPED}")
    assert done.returncode == 2
    lines = [line.removeprefix("rankboard: ") for line in done.stderr.splitlines()]
    problem, command, as_is = lines[-3:]
    assert problem == "both ranks would get -r 0: write"
    assert shlex.split(command) == [
        *("rankboard", flag, "--local", "2", "--slots", "1", "--", "LR=1"),
        *("torchrun", "--max-restarts", "1", "course.py", "-n", "{world_size}", "-r", "{rank}"),
    ]
    assert as_is == "--as-is starts the line as you wrote it"


def test_that_command_is_not_refused(folder: Path) -> None:
    refused = call(folder, f"--dry-run {TYPED}")
    command = refused.stderr.splitlines()[-2].removeprefix("rankboard:   rankboard ")
    done = call(folder, command)
    assert done.returncode == 0, done.stderr
    assert "course.py -n 2 -r 1" in done.stdout


@pytest.mark.parametrize("line", [f"--as-is {TYPED}", "--local 1 -- course.py -n 4 -r 0"])
def test_a_line_may_stay_as_it_is(line: str, folder: Path) -> None:
    done = call(folder, f"--dry-run {line}")
    assert done.returncode == 0, done.stderr
    assert "-n 4 -r 0" in done.stdout
    assert done.stdout.endswith("\n")


def test_a_line_with_a_module_is_written_anew(folder: Path) -> None:
    done = call(folder, "--run --local 2 -- torchrun --module course --node_rank 0 -n 4 -r 0")
    assert "rankboard --run --local 2 -- -m course" in done.stderr


def test_the_source_is_read_where_the_ranks_work(folder: Path) -> None:
    there = folder / "there"
    there.mkdir()
    (folder / "course.py").rename(there / "course.py")
    line = "--dry-run --local 2 --cwd there -- bash -c 'python course.py -n 4 -r 0'"
    assert "bash -c 'python course.py -n {world_size} -r {rank}'" in call(folder, line).stderr


def test_the_doctor_says_it_and_checks_the_hosts(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tui.commands.doctor._examine", lambda *_: 0)
    done = call(folder, "doctor --local 2 -- course.py -n 4 -r 0")
    assert done.returncode == 0, done.stderr
    assert "both ranks would get -r 0; each rank gets its own place with" in done.stderr
    assert "  -- course.py -n '{world_size}' -r '{rank}'" in done.stderr


@pytest.mark.parametrize(("place", "is_said"), [("-r 0", True), ("-r {rank}", False)])
def test_a_study_says_it(place: str, is_said: bool, folder: Path) -> None:
    (folder / "mine.toml").write_text(
        f"""
        [base]
        script = "course.py -n {{nodes}} {place} --lr {{lr}}"
        nodes = 3
        [axes]
        lr = [0.1, 0.2]
        """
    )
    done = call(folder, "study mine.toml --local 3 --dry-run")
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("all 3 ranks would get -r 0") == is_said


def test_the_flag_needs_a_script(folder: Path) -> None:
    done = call(folder, "--dry-run --local 2 --as-is")
    assert done.returncode == 2
    assert "--as-is is for your own script" in done.stderr


def test_it_is_said_that_a_script_starts_workers_itself() -> None:
    pasted = asking.PastedLine(("a.py",), "-nr 0", "-np 2")
    said = "all 4 ranks would get -nr 0 (with -np 2, one slot is enough for a host)"
    assert asking.describe_problem(pasted, 4) == said


@pytest.mark.parametrize("agrees", [True, False])
def test_the_dashboard_asks_before_it_opens(
    agrees: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(asking, "confirm", lambda *words, **flags: agrees)
    pasted = asking.PastedLine(("a.py", "-r", "{rank}"), "")
    if agrees:
        asking.ask_for_line(pasted, 2)
    else:
        with pytest.raises(UsageError, match="nothing was started; --as-is"):
            asking.ask_for_line(pasted, 2)
    assert "nothing in this line says which of the 2 ranks each one is" in capsys.readouterr().err
