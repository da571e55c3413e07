"""The processes of this machine as Linux's /proc shows them: who descends from whom, what is a live
run's, and how to signal exactly the process that was looked at."""

from __future__ import annotations

import os
import re
import signal
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass

from training.agent.host.proc_files import open_files, read_name, read_stat
from training.agent.host.system import read_text
from training.agent.layout import LOCK, RUNS
from training.agent.live_runs import is_locked

ENDED = ("Z", "X")
"""The states of a process that has ended, which may still stand in /proc."""
START = 19
"""The place of the start among the fields of `read_stat`."""
_LOCK = re.compile(rf".*/{RUNS}/[^/]+/\d+/{LOCK}(?: \(deleted\))?")


@dataclass(frozen=True)
class HostProcess:
    """A line of the table. `start` is when it began, in ticks after the machine's start: with the
    pid it names one process for good. `began` is the same by this host's clock. `is_own`: it
    belongs to the user who asks."""

    pid: int
    parent: int
    group: int
    session: int
    start: int
    began: float
    is_own: bool


ProcessTable = Mapping[int, HostProcess]


def list_processes() -> dict[int, HostProcess]:
    """Return all processes that run now; no zombies."""
    boot_time = time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)
    hertz = os.sysconf("SC_CLK_TCK")
    user_id = os.getuid()
    table = {}
    for pid in map(int, filter(str.isdigit, os.listdir("/proc"))):
        with suppress(OSError):
            is_own = os.stat(f"/proc/{pid}").st_uid == user_id
            fields = read_stat(pid)
            if not fields or fields[0] in ENDED:
                continue
            parent, group, session = map(int, fields[1:4])
            start = int(fields[START])
            began = boot_time + start / hertz
            table[pid] = HostProcess(pid, parent, group, session, start, began, is_own)
    return table


def root_of_descendants(table: ProcessTable, roots: Iterable[int]) -> dict[int, int]:
    """Return every process that descends from one of `roots`, and from which."""
    children = defaultdict(list)
    for process in table.values():
        children[process.parent].append(process.pid)
    root_by_pid = {root: root for root in roots}
    pids = list(root_by_pid)
    for pid in pids:
        for child in children[pid]:
            if child not in root_by_pid:
                root_by_pid[child] = root_by_pid[pid]
                pids.append(child)  # the loop goes on over what is added
    return root_by_pid


def ancestors(table: ProcessTable, pid: int) -> set[int]:
    """Return a process and all its ancestors."""
    pids: set[int] = set()
    while pid in table and pid not in pids:
        pids.add(pid)
        pid = table[pid].parent
    return pids


def live_run_pids(table: ProcessTable) -> set[int]:
    """Return every process of a live run of any workdir.

    These are the guards, which have their locks open, all below them, and all above: the follower
    that began the run may be there still, and who started that.
    """
    guards = [pid for pid, process in table.items() if process.is_own and _is_guard(pid)]
    pids = set(root_of_descendants(table, guards))
    for guard in guards:
        pids |= ancestors(table, guard)
    return pids


def _is_guard(pid: int) -> bool:
    for path, target in open_files(pid):
        with suppress(OSError):
            if _LOCK.fullmatch(target) and is_locked(path):
                return True
    return False


def read_environment(pid: int) -> dict[str, str]:
    """Return the variables that a process was started with; none if that cannot be read."""
    entries = (entry.partition("=") for entry in read_text(f"/proc/{pid}/environ").split("\0"))
    return {name: value for name, _, value in entries}


def command_line(pid: int) -> str:
    """Return its command line, or its name if it has none."""
    words = read_text(f"/proc/{pid}/cmdline").rstrip("\0")
    return words.replace("\0", " ") or f"[{read_name(pid)}]"


def is_running(pid: int, start: int) -> bool:
    """Return True if it is still that process, and no zombie."""
    fields = read_stat(pid)
    return bool(fields) and int(fields[START]) == start and fields[0] not in ENDED


def send_signal(pid: int, start: int, number: signal.Signals) -> None:
    """Signal that process, and none that has got its pid since."""
    with suppress(ProcessLookupError, PermissionError):
        try:
            descriptor = os.pidfd_open(pid)
        except (AttributeError, OSError):
            # It is gone, or the kernel is older than 5.3: look, and then be quick.
            if is_running(pid, start):
                os.kill(pid, number)
            return
        try:
            if is_running(pid, start):
                signal.pidfd_send_signal(descriptor, number)
        finally:
            os.close(descriptor)
