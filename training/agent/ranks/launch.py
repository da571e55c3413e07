"""Starting processes for ranks: in a session and process group of their own, at the niceness that
the agent began with."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue

from training.agent.options import Options
from training.place import FOLDER
from training.wire.commands import Placement

CODE = str(Path(__file__).absolute().parents[3])
"""The folder that holds this very `training` package."""
SITE = str(Path(__file__).absolute().parent / "site")
"""Goes on the path of a user's Python programs: it holds nothing but a `sitecustomize`, by which
they tell their stacks."""
_PRELOAD_CODE = (
    f"import sys; sys.path[0] = {CODE!r}; import runpy; "
    "runpy.run_module('training.preload', run_name='__main__', alter_sys=True)"
)
PRELOAD = (sys.executable, "-c", _PRELOAD_CODE)
"""`python -m training.preload`, but with our code at the front of sys.path in place of the folder
that the ranks work in."""


@dataclass(frozen=True)
class Command:
    """What to start: `stdin` is a descriptor or DEVNULL, `inherited` are further descriptors that
    keep their numbers; with a `umask` of -1 it is the agent's own."""

    argv: Sequence[str]
    env: Mapping[str, str]
    cwd: str
    stdout: int
    stderr: int
    stdin: int = subprocess.DEVNULL
    inherited: Sequence[int] = ()
    umask: int = -1


class Spawner:
    """A thread that does all starting. Niceness belongs to a thread and a fork inherits its
    thread's, so it is made before the agent's own thread lowers its priority; and it lives as long
    as the agent, as processes may have asked to end with it."""

    def __init__(self) -> None:
        self._wanted: SimpleQueue[Command] = SimpleQueue()
        self._done: SimpleQueue[int | Exception] = SimpleQueue()
        threading.Thread(target=self._work, name="spawner", daemon=True).start()

    def start(self, command: Command) -> int:
        """The pid of the new process. The caller reaps it.

        Raises: OSError or ValueError, where it cannot be started.
        """
        self._wanted.put(command)
        done = self._done.get()
        if isinstance(done, Exception):
            raise done
        return done

    def _work(self) -> None:
        while True:
            try:
                self._done.put(_start(self._wanted.get()))
            except (OSError, ValueError) as error:
                self._done.put(error)


def _start(command: Command) -> int:
    process = subprocess.Popen(
        command.argv,
        env=command.env,
        cwd=command.cwd,
        stdin=command.stdin,
        stdout=command.stdout,
        stderr=command.stderr,
        pass_fds=command.inherited,
        umask=command.umask,
        start_new_session=True,
    )
    process.returncode = (
        0  # the agent reaps all its children itself; so Popen neither waits nor warns
    )
    return process.pid


def environment(options: Options, *more: tuple[str, str]) -> dict[str, str]:
    """The agent's own environment and more: the run, its folder on this host, and that output is
    not held back."""
    return {
        **os.environ,
        "PYTHONUNBUFFERED": "1",
        "RANKBOARD_RUN": options.run,
        FOLDER: options.folder,
        **dict(more),
    }


def with_site(env: dict[str, str]) -> dict[str, str]:
    """The environment for a program of the user's, whose own PYTHONPATH comes next."""
    paths = [SITE, env.get("PYTHONPATH", "")]
    return (
        env | {"PYTHONPATH": os.pathsep.join(filter(None, paths))}
        if os.pathsep not in SITE
        else env
    )


def common(placements: Sequence[Placement]) -> tuple[tuple[str, str], ...]:
    """The variables that all placements share: some, such as OMP_NUM_THREADS, are read when preload
    imports torch.

    Secrets are not among them: they are for the ranks, which get theirs when they have been forked.
    """
    first, *others = placements
    return tuple(
        entry
        for entry in first.env
        if entry[0] not in first.secret and all(entry in one.env for one in others)
    )
