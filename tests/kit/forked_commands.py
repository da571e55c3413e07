"""Commands forked by one process that imports `rankboard` once: each costs what it does, and not
what Python needs to begin.

As a program it obeys one JSON object per line: the words of a command, its folder, its environment,
and the files for what it prints. It answers with the exit code, or minus the number of a signal.
It imports nothing else of the tests, as the installed command would not.
"""

from __future__ import annotations

import atexit
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

PATIENCE = 240
"""Seconds after which a command is killed."""


class Forker:
    """The process that forks. Commands of several threads wait for each other."""

    def __init__(self) -> None:
        pipe = subprocess.PIPE
        env = {
            name: os.environ[name] for name in ("PATH", "LC_ALL", "PYTHONPATH")
        }  # nothing of this test
        words = [sys.executable, __file__, "rankboard"]  # by this word a launcher is known
        self._process = subprocess.Popen(
            words, stdin=pipe, stdout=pipe, cwd="/", env=env, text=True
        )
        self._lock = threading.Lock()
        atexit.register(self._process.communicate)

    def run(self, folder: Path, words: Sequence[str]) -> subprocess.CompletedProcess[str]:
        """`rankboard` with these words, in this folder and with our environment of now."""
        with tempfile.TemporaryDirectory() as name:
            printed = [Path(name, stream) for stream in ("stdout", "stderr")]
            asked = {"words": words, "folder": str(folder), "env": dict(os.environ)}
            code = self._ask(**asked, files=list(map(str, printed)))
            out, err = (path.read_text(errors="replace") for path in printed)
        return subprocess.CompletedProcess(["rankboard", *words], code, out, err)

    def _ask(self, **request: Any) -> int:
        """The exit code."""
        assert self._process.stdin
        assert self._process.stdout
        with self._lock:
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()
            return int(self._process.stdout.readline())


@cache
def forker() -> Forker:
    """That of this process."""
    return Forker()


def main() -> None:
    """Obeys until there is nothing more to read; only the forked commands go on from here."""
    import remote.transport.ssh.transport  # noqa: F401 - most commands need it
    import tui
    from tui.commands import cli

    for name in cli.COMMANDS:
        cli.load(name)

    with os.fdopen(os.dup(0)) as requests, os.fdopen(os.dup(1), "w") as answers:
        for line in requests:
            if not (pid := os.fork()):
                _become(**json.loads(line))
                break
            answers.write(f"{os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])}\n")
            answers.flush()
        else:
            return
    tui.main()


def _become(words: list[str], folder: str, env: dict[str, str], files: list[str]) -> None:
    """Turns the forked process into the command."""
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(env)
    sys.argv = ["rankboard", *words]
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    ends = (os.open(os.devnull, os.O_RDONLY), *(os.open(file, flags, 0o600) for file in files))
    for number, end in enumerate(ends):
        os.dup2(end, number)
        os.close(end)
    signal.alarm(PATIENCE)


if __name__ == "__main__":
    sys.path.pop(0)  # where this file is
    main()
