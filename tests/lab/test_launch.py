"""`rankboard --local N --link RATE`: a run in a lab, from the command line, and what becomes of it
when rankboard is killed."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import psutil
import pytest

from tests.kit.commands import call_rankboard
from tests.kit.labs import refused, spaces
from tests.kit.launches import IDLE, RANKBOARD, launch
from tests.kit.wait import wait


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--link", "1gbit"], "--link 1gbit needs --local N"),
        (["--local", "2", "--cpus", "0.5"], "--cpus 0.5 needs --link"),
        (["--local", "4", "--link", "1gbit,1gbit"], "--link 1gbit,1gbit: 2 values for 4 hosts"),
        (
            ["--local", "2", "--link", "1gbit", "--hosts", "x.toml"],
            "--hosts x.toml and --local 2 cannot be combined",
        ),
        (["--local", "2", "--link", "fast"], "--link 'fast': give a number and a unit"),
    ],
)
def test_mistakes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    done = call_rankboard("--run", *words)
    assert done.returncode == 2
    assert done.stderr.startswith(f"rankboard: {message}")
    assert "Traceback" not in done.stderr
    assert not list(tmp_path.iterdir())


def test_dry_run_makes_no_lab(tmp_path: Path) -> None:
    words = [RANKBOARD, "--dry-run", "--local", "2", "--link", "1gbit"]
    done = subprocess.run(
        words,
        cwd=tmp_path,
        env=os.environ | {"PATH": ""},
        capture_output=True,
        text=True,
        check=True,
    )
    assert "node2  10.10.1.2" in done.stdout
    assert "GLOO_SOCKET_IFNAME=eth0" in done.stdout
    assert "the 2 hosts share " in done.stderr


# Of a run in a lab that is stopped, see tests/program/test_security.py.


@pytest.mark.skipif(bool(refused()), reason=f"no lab can be made here: {refused()}")
def test_killed_launcher_leaves_nothing(tmp_path: Path) -> None:
    running = launch(tmp_path, "--local", "2", "--link", "1gbit", *IDLE)
    running.events("launched", 2)
    family = psutil.Process(running.process.pid).children(recursive=True)
    inside = frozenset[str]().union(*(spaces(process.pid) for process in family)) - spaces(
        os.getpid()
    )
    assert len(inside) == 2 + 2 * 3
    running.process.send_signal(signal.SIGKILL)
    running.end()
    wait(lambda: not any(inside & spaces(pid) for pid in psutil.pids()), "the end of the lab")
