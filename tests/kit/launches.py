"""Starting the real `rankboard` in tests, and finding what a run left behind."""

from __future__ import annotations

import atexit
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from tests.kit.forked_commands import forker
from tests.kit.wait import GUARD

ROOT = Path(__file__).parents[2]


def _write_command() -> str:
    """Write the command `rankboard` of this checkout, and return its path."""
    # The command beside Python may be of another checkout, and tests that start with an empty
    # environment have no PYTHONPATH.
    folder = Path(tempfile.mkdtemp(prefix="rankboard-command-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    command = folder / "rankboard"
    lines = (
        f"#!{sys.executable}",
        "import sys",
        f"sys.path.insert(0, {str(ROOT)!r})",
        "from tui import main",
        "sys.exit(main())",
    )
    command.write_text("\n".join(lines) + "\n")
    command.chmod(0o755)
    return str(command)


RANKBOARD = _write_command()
QUICK = ("--model", "lenet5", "--dataset", "digits")
LONG = (*QUICK, "--steps", "100000")
"""More than any test waits for."""
IDLE = ("--", "sh", "-c", "echo idle; exec sleep 600")
"""Ranks that last as long, of a program that computes nothing. No word can follow."""


@dataclass
class Launched:
    """A `rankboard --run --json` under way in a folder of its own."""

    process: subprocess.Popen[str]
    folder: Path

    def events(self, name: str, count: int = 1) -> list[dict[str, Any]]:
        """The next `count` events of this name; those in between are read and forgotten."""
        found: list[dict[str, Any]] = []
        assert self.process.stdout
        for line in self.process.stdout:
            event = json.loads(line)
            if event["event"] == name:
                found.append(event)
                if len(found) == count:
                    return found
        raise AssertionError(
            f"{name} came {len(found)} times, not {count}; stderr: {self.stderr()}"
        )

    def end(self, timeout: float = GUARD) -> int:
        """The exit code; whatever else it prints is read."""
        self.process.communicate(timeout=timeout)
        return self.process.returncode

    def stderr(self) -> str:
        """What it has narrated so far."""
        return (self.folder / "stderr").read_text()

    def summary(self) -> dict[str, Any]:
        """The one run's summary."""
        (path,) = (self.folder / "runs").glob("*/summary.json")
        data: dict[str, Any] = json.loads(path.read_text())
        return data


def launch(folder: Path, *words: str, command: Sequence[str] = ()) -> Launched:
    """Start it, or another command with lines; the caller ends it."""
    with (folder / "stderr").open("w") as stderr:
        begun = [RANKBOARD, *command, "--run", "--json", *words]
        told = {"stdout": subprocess.PIPE, "stderr": stderr, "text": True, "errors": "replace"}
        # what `end` reads may begin amid a character: `events` has read some bytes ahead
        process = subprocess.Popen(begun, cwd=folder, **told)
    return Launched(process, folder)


def run(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """`rankboard` with these words, from start to end."""
    return forker().run(folder, words)


def left_behind(folder: Path, home: Path | None = None) -> list[psutil.Process]:
    """Living processes that work in the folder or name it on their command line, this one and its
    ancestors aside; and those whose HOME this is, as of what an sshd has started and which does not
    say yet for whom."""
    ours = {os.getpid(), *(process.pid for process in psutil.Process().parents())}
    found = []
    for process in psutil.process_iter():
        try:
            if process.pid not in ours and _belongs(process, str(folder), home):
                found.append(process)
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue
    return found


def _belongs(process: psutil.Process, folder: str, home: Path | None) -> bool:
    """What is dear to ask comes last: whoever waits looks at all processes again and again."""
    belongs = (
        f"{process.cwd()}/".startswith(f"{folder}/")
        or any(folder in word for word in process.cmdline())
        or (home is not None and process.environ().get("HOME") == str(home))
    )
    return belongs and process.status() != psutil.STATUS_ZOMBIE
