"""rankboard on macOS, as the machine that launches: without /proc and functions of Linux.

A file that Python loads at its start makes this machine look so to the launcher. The hosts, which
sshd starts without the variables of the launcher, stay what they are.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.kit.launches import QUICK, RANKBOARD
from tests.kit.sshd import Sshd

SITE = ROOT / "tests" / "fixtures" / "macos"


@pytest.fixture(autouse=True)
def on_macos(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let each Python that the test starts take this machine for a Mac."""
    monkeypatch.setenv("PYTHONPATH", str(SITE))
    monkeypatch.chdir(tmp_path)


def run(*words: str, code: int = 0) -> str:
    """Return what a command prints."""
    done = subprocess.run(
        (RANKBOARD, *words), capture_output=True, text=True, timeout=180, check=False
    )
    assert done.returncode == code, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    return done.stdout + done.stderr


def test_this_machine_is_taken_for_a_mac() -> None:
    question = "import os, sys; print(sys.platform, os.path.exists('/proc'), hasattr(os, 'pipe2'))"
    answer = subprocess.check_output((sys.executable, "-c", question), text=True)
    assert answer.split() == ["darwin", "False", "False"]


def test_hosts_train_and_their_run_is_found_again(sshd: Sshd) -> None:
    hosts = ("--hosts", str(sshd.hosts_toml(sshd.make_hosts(2))))
    assert "2 hosts" in run("doctor", *hosts)
    assert "finished" in run("--run", *hosts, *QUICK, "--steps", "5")
    assert "finished" in run("runs")
    assert "finished" in run("ps", *hosts)
    assert "step" in run("logs", "last", "--rank", "1")


def test_a_run_is_left_and_stopped(sshd: Sshd) -> None:
    hosts = ("--hosts", str(sshd.hosts_toml(sshd.make_hosts(2))))
    run("--run", "--detach", *hosts, *QUICK, "--steps", "100000")
    (live,) = run("ps", "--live", "--json", *hosts).splitlines()
    assert json.loads(live)["state"] == "training"
    run("stop", "last", *hosts)
    assert "stopped" in run("runs")


def test_scripts_run_on_the_mac_itself() -> None:
    """The torch of this machine would look for the libraries of a Mac."""
    loop = "for step in 1 2 3; do echo step $step/3 loss 0.$step; sleep 0.1; done"
    output = run("--run", "--local", "2", "--", "sh", "-c", loop)
    assert "finished" in output
    assert "0.3" in output


def test_a_lab_is_refused() -> None:
    words = ("--run", "--local", "2", "--link", "1gbit", *QUICK)
    assert "use a Linux machine" in run(*words, code=2)
