"""What is typed to install packages, and how a module of ours is started."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from remote import own_python
from remote.own_python import install_command, module_command


def test_pip_installs_where_it_is_there() -> None:
    assert install_command("torch", "/usr/bin/python3") == "/usr/bin/python3 -m pip install torch"


def test_an_environment_without_pip_is_filled_by_uv(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own_python, "find_spec", lambda name: None)
    assert install_command("torch") == f"uv pip install --python {sys.executable} torch"


def test_a_module_of_ours_goes_before_one_of_the_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "remote" / "lab"
    folder.mkdir(parents=True)
    (folder / "daemon.py").write_text("print('of the user')\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    done = subprocess.run(
        module_command("remote.lab.daemon", "too few"), capture_output=True, text=True, check=False
    )
    assert "main() missing 3 required positional arguments" in done.stderr
