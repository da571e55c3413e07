"""`rankboard --info`: what it says of this machine, and what it keeps to itself."""

from __future__ import annotations

import getpass
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from tests.kit.commands import call_rankboard
from tests.kit.launches import RANKBOARD
from tui.commands import info


def rows(text: str) -> dict[str, str]:
    """The rows of the information by their names."""
    return {line.split()[0]: line.split(maxsplit=1)[1] for line in text.splitlines()}


def test_versions_and_programs_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "hosts.toml").touch()
    monkeypatch.setattr(info, "SYSTEM_FOLDERS", ())
    sshd = tmp_path / "sshd"
    sshd.touch(mode=0o755)
    done = call_rankboard("--info", PATH=str(tmp_path))
    told = rows(done.stdout)
    assert (done.returncode, done.stderr) == (0, "")
    assert told["Python"].startswith(".".join(map(str, sys.version_info[:3])))
    for package in ("rankboard", "torch", "textual", "paramiko", "numpy"):
        assert told[package][0].isdigit()
    assert told["programs"].startswith("sshd; not there: ")
    assert told["files"].startswith("hosts.toml; not there: rankboard.toml, ~/.ssh/config")


@pytest.mark.parametrize("user", ["u5er-of-th1s", getpass.getuser()])
def test_nothing_of_it_is_secret(user: str, tmp_path: Path) -> None:
    home = tmp_path / user
    (home / "bin").mkdir(parents=True)
    environment = {
        "HOME": str(home),
        "LOGNAME": user,
        "PATH": f"{home}/bin:/usr/bin:/bin",
        "TERM": "s3cret-of-term",
        "COLORTERM": "s3cret-of-color",
        "SSH_CONNECTION": "203.0.113.7 4711 203.0.113.8 22",
        "TMUX": "/tmp/s3cret-of-tmux,1,0",
        "XDG_CONFIG_HOME": f"/scratch/{user}/settings",
        "WANDB_API_KEY": "s3cret-of-wandb",
        "SLURM_JOB_NODELIST": "s3cret-node",
    }
    terminal, stdin = pty.openpty()
    try:
        command = [RANKBOARD, "--info"]
        done = subprocess.run(
            command, env=environment, stdin=stdin, capture_output=True, text=True, check=True
        )
    finally:
        os.close(terminal)
        os.close(stdin)
    assert "a terminal of another name" in done.stdout
    assert "over SSH" in done.stdout
    assert "/scratch/USER/settings/rankboard/keys.toml" in done.stdout
    for secret in ("s3cret", "203.0.113", str(home)):
        assert secret not in done.stdout
    assert f"/{user}/" not in done.stdout


def test_torch_is_not_imported() -> None:
    code = (
        "import sys; from tui.commands import cli; cli.call(['--info']); "
        "print('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "False"
