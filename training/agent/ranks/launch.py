"""Starts the processes of ranks: each in a session and process group of its own, at the initial
niceness of the agent."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from queue import SimpleQueue

from training.agent.host import processes
from training.agent.options import AgentOptions
from training.agent.ranks.fork import fork_process
from training.place import FOLDER
from training.wire.commands import Placement

CODE = str(Path(__file__).absolute().parents[3])
"""The folder that contains this `training` package."""
SITE = str(Path(__file__).absolute().parent / "site")
"""A folder for the PYTHONPATH of user programs. Its `sitecustomize` watches torch in them, and lets
them report their stacks."""
_PRELOAD_CODE = (
    f"import sys; sys.path[0] = {CODE!r}; import runpy; "
    "runpy.run_module('training.preload', run_name='__main__', alter_sys=True)"
)
PRELOAD = (sys.executable, "-c", _PRELOAD_CODE)
"""`python -m training.preload`, with our code at the front of sys.path instead of the working
directory of the ranks."""
RankFunction = Callable[[Sequence[str]], int]
"""Runs a rank in this process: from its arguments to its exit code."""
Preload = tuple[str, ...] | RankFunction
"""What starts our ranks: a program, which imports torch and forks them; or, where this process has
imported torch, what each fork of it does."""


@dataclass(frozen=True)
class ProcessSpec:
    """A process to start. `stdin` is a descriptor or DEVNULL; the descriptors in `inherited` keep
    their numbers; a `umask` of -1 is the agent's own.

    With a `function`, which gets `argv`, it is a fork of this process instead of a program, and
    has no stdin.
    """

    argv: Sequence[str]
    env: Mapping[str, str]
    cwd: str
    stdout: int
    stderr: int
    stdin: int = subprocess.DEVNULL
    inherited: Sequence[int] = ()
    umask: int = -1
    function: RankFunction | None = None


class Spawner:
    """A thread that starts all processes. A process inherits the niceness of the thread that forks
    it, so this thread begins before the agent lowers the priority of its own. It lives as long as
    the agent, because processes may have asked for a signal when their parent thread ends."""

    def __init__(self) -> None:
        self._specs: SimpleQueue[ProcessSpec] = SimpleQueue()
        self._results: SimpleQueue[int | Exception] = SimpleQueue()
        threading.Thread(target=self._start_in_turn, name="spawner", daemon=True).start()

    def start(self, process_spec: ProcessSpec) -> int:
        """Start a process and return its pid. The caller reaps it.

        Raises: OSError or ValueError, if it cannot be started.
        """
        self._specs.put(process_spec)
        result = self._results.get()
        if isinstance(result, Exception):
            raise result
        return result

    def _start_in_turn(self) -> None:
        while True:
            try:
                self._results.put(_start_process(self._specs.get()))
            except (OSError, ValueError) as error:
                self._results.put(error)


def _start_process(process_spec: ProcessSpec) -> int:
    if process_spec.function:
        return fork_process(
            partial(_become_process, process_spec, process_spec.function, os.getpid())
        )
    process = subprocess.Popen(
        process_spec.argv,
        env=process_spec.env,
        cwd=process_spec.cwd,
        stdin=process_spec.stdin,
        stdout=process_spec.stdout,
        stderr=process_spec.stderr,
        pass_fds=process_spec.inherited,
        umask=process_spec.umask,
        start_new_session=True,
    )
    process.returncode = 0  # the agent reaps all children, so Popen must not wait or warn
    return process.pid


def _become_process(process_spec: ProcessSpec, rank_function: RankFunction, parent_pid: int) -> int:
    """Make this fork what a new program would be, and call the function. Returns its exit code."""
    # As `start_new_session` of a program: to stop a rank is to signal its group.
    os.setsid()
    processes.die_with(parent_pid)
    processes.redirect_output(process_spec.stdout, process_spec.stderr, process_spec.inherited)
    if process_spec.umask >= 0:
        os.umask(process_spec.umask)
    os.environ.clear()
    os.environ.update(process_spec.env)
    try:
        os.chdir(process_spec.cwd)
    except OSError as error:
        sys.stderr.write(f"cannot start in {process_spec.cwd}: {error.strerror}\n")
        return 127
    return rank_function(process_spec.argv)


def rank_environment(options: AgentOptions, *variables: tuple[str, str]) -> dict[str, str]:
    """Return the environment of the agent, with the run, its folder on this host, unbuffered
    output, and `variables`."""
    return {
        **os.environ,
        "PYTHONUNBUFFERED": "1",
        "RANKBOARD_RUN": options.run,
        FOLDER: options.folder,
        **dict(variables),
    }


def script_environment(options: AgentOptions, placement: Placement) -> dict[str, str]:
    """Return the environment of a script: that of its rank, with our `site` in front on its
    PYTHONPATH, and the folder of this Python on its PATH, as if its venv was activated."""
    script_env = dict(placement.defaults) | rank_environment(options, *placement.env)
    python_folder = os.path.dirname(sys.executable)
    search_folders = script_env.get("PATH", os.defpath).split(os.pathsep)
    if python_folder not in search_folders:
        script_env["PATH"] = os.pathsep.join([python_folder, *search_folders])
    # PYTHONPATH has no way to quote a separator.
    if os.pathsep not in SITE:
        script_env["PYTHONPATH"] = os.pathsep.join(
            filter(None, (SITE, script_env.get("PYTHONPATH")))
        )
    return script_env


def shared_variables(placements: Sequence[Placement]) -> tuple[tuple[str, str], ...]:
    """Return the variables that all placements share: some, such as OMP_NUM_THREADS, are read when
    preload imports torch.

    Secrets are not among them: they are for the ranks, which get theirs when they have been forked.
    """
    first_placement, *other_placements = placements
    return tuple(
        variable
        for variable in first_placement.env
        if variable[0] not in first_placement.secret
        and all(variable in other.env for other in other_placements)
    )
