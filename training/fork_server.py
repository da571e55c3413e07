"""The fork server: keeps a host warm between the runs of one launcher, which are served one after
another over one connection.

It imports torch once, unless it is for runs of a script. Then a line {"run": ARGUMENTS} on stdin
asks for the follower of a run. A fork becomes that follower, with stdin and stdout as they are. The
guard, the agent and the ranks of the run are forks of it in turn: none imports torch, and none sees
anything of the run before. When the follower has exited, `IDLE` is written to stdout. Other lines
came too late for the run before.

It ends with its stdin, after a follower that failed, when a file of its code has changed, and by
an alarm of the kernel after `PATIENCE` seconds without a run, whatever it is doing.
"""

from __future__ import annotations

import os
import signal
import stat
import sys
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import NoReturn

from training import agent, preload
from training.agent import server  # noqa: F401 - for the forks, which need it at once
from training.agent.__main__ import main
from training.agent.host import processes
from training.agent.ranks.fork import fork_process
from training.agent.ranks.launch import PRELOAD, Preload
from training.wire.jsonl import load
from training.wire.line_cutter import read_line
from training.writing import write_all

PATIENCE = 300
"""Seconds without a run after which it ends."""
FileStates = Mapping[Path, tuple[int, int]]
"""The inode of each file, and the time at which it was changed last."""


def serve(*, code_changed: bool, imports_torch: bool) -> int:
    """Serve runs until stdin ends. `code_changed`: see `training.agent`; it is reported once."""
    processes.set_process_name("rankboard-serve")
    signal.alarm(PATIENCE)
    package_folder = Path(__file__).parent
    # Before the import: a file that changes meanwhile counts as changed.
    source_states = file_states(package_folder.rglob("*.py"))
    rank_starter: Preload = import_torch() if imports_torch else PRELOAD
    code_states = {
        **file_states(package_folder.rglob("*")),
        **source_states,
    }  # Python may have compiled some while loading
    agent.code_changed = code_changed
    while line := read_line(0):
        follow_words = (load(line) or {}).get("run")
        if not isinstance(follow_words, list):
            continue
        if not is_unchanged(code_states):
            return 0
        signal.alarm(0)  # a follower ends by itself when its launcher is away
        follower_pid = fork_process(partial(main, follow_words, preload=rank_starter))
        if os.waitpid(follower_pid, 0)[1]:
            return 1
        signal.alarm(PATIENCE)
        agent.code_changed = False
        try:
            write_all(sys.stdout.fileno(), agent.IDLE)
        except BrokenPipeError:  # the launcher is gone
            return 0
    return 0


def import_torch() -> Preload:
    """Import what ranks need. Return what starts them."""
    try:
        preload.import_torch()
    except Exception:  # noqa: BLE001 - the ranks of each run find out, and report it
        return PRELOAD
    return run_rank


def run_rank(argv: Sequence[str]) -> NoReturn:
    """Become the rank that the environment describes."""
    from training.__main__ import end  # imported by `load`

    processes.set_process_name(f"rank {os.environ['RANK']}")
    end(argv)


def file_states(files: Iterable[Path]) -> FileStates:
    """Return the state of these files, without folders. Raises: OSError, if one is gone."""
    state_by_path = {}
    for path in files:
        file_status = path.lstat()
        if not stat.S_ISDIR(file_status.st_mode):
            state_by_path[path] = (file_status.st_ino, file_status.st_ctime_ns)
    return state_by_path


def is_unchanged(code: FileStates) -> bool:
    """Return True if all files are as they were. Python may have compiled more of them since."""
    try:
        return file_states(code) == code
    except OSError:
        return False
