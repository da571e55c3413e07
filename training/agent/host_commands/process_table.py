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
    processes = {}
    for pid in map(int, filter(str.isdigit, os.listdir("/proc"))):
        with suppress(OSError):
            is_own = os.stat(f"/proc/{pid}").st_uid == user_id
            stat_fields = read_stat(pid)
            if not stat_fields or stat_fields[0] in ENDED:
                continue
            parent, group, session = map(int, stat_fields[1:4])
            start = int(stat_fields[START])
            began_at = boot_time + start / hertz
            processes[pid] = HostProcess(pid, parent, group, session, start, began_at, is_own)
    return processes


def root_of_descendants(table: ProcessTable, roots: Iterable[int]) -> dict[int, int]:
    """Return every process that descends from one of `roots`, and from which."""
    children = defaultdict(list)
    for process in table.values():
        children[process.parent].append(process.pid)
    root_by_pid = {root: root for root in roots}
    pids = list(root_by_pid)
    for pid in pids:
        for child_pid in children[pid]:
            if child_pid not in root_by_pid:
                root_by_pid[child_pid] = root_by_pid[pid]
                pids.append(child_pid)  # the loop goes on over what is added
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
    guard_pids = [pid for pid, process in table.items() if process.is_own and _is_guard(pid)]
    pids = set(root_of_descendants(table, guard_pids))
    for guard_pid in guard_pids:
        pids |= ancestors(table, guard_pid)
    return pids


def _is_guard(pid: int) -> bool:
    for path, target in open_files(pid):
        with suppress(OSError):
            if _LOCK.fullmatch(target) and is_locked(path):
                return True
    return False


def read_environment(pid: int) -> dict[str, str]:
    """Return the variables that a process was started with; none if that cannot be read."""
    environment_entries = (
        entry.partition("=") for entry in read_text(f"/proc/{pid}/environ").split("\0")
    )
    return {name: value for name, _, value in environment_entries}


def command_line(pid: int) -> str:
    """Return its command line, or its name if it has none."""
    command_words = read_text(f"/proc/{pid}/cmdline").rstrip("\0")
    return command_words.replace("\0", " ") or f"[{read_name(pid)}]"


def is_running(pid: int, start_ticks: int) -> bool:
    """Return True if it is still that process, and no zombie."""
    stat_fields = read_stat(pid)
    return (
        bool(stat_fields) and int(stat_fields[START]) == start_ticks and stat_fields[0] not in ENDED
    )


def send_signal(pid: int, start_ticks: int, signal_number: signal.Signals) -> None:
    """Signal that process, and none that has got its pid since."""
    with suppress(ProcessLookupError, PermissionError):
        try:
            pid_descriptor = os.pidfd_open(pid)
        except (AttributeError, OSError):
            # It is gone, or the kernel is older than 5.3: look, and then be quick.
            if is_running(pid, start_ticks):
                os.kill(pid, signal_number)
            return
        try:
            # Looked at once it is open: the pid may have had another owner just before.
            if is_running(pid, start_ticks):
                signal.pidfd_send_signal(pid_descriptor, signal_number)
        finally:
            os.close(pid_descriptor)
