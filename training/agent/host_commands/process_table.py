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

from training.agent.layout import LOCK, RUNS
from training.agent.live_runs import is_locked

_LOCK = re.compile(rf".*/{RUNS}/[^/]+/\d+/{LOCK}(?: \(deleted\))?")


@dataclass(frozen=True)
class HostProcess:
    """A line of the table. `start` is when it began, in ticks after the machine's start: with the
    pid it names one process for good. `began` is the same by this host's clock. `own`: it belongs
    to the user who asks."""

    pid: int
    parent: int
    group: int
    session: int
    start: int
    began: float
    own: bool


ProcessTable = Mapping[int, HostProcess]


def list_processes() -> dict[int, HostProcess]:
    """Return all processes that run now; no zombies."""
    wall_time = time.time()
    since_boot = time.clock_gettime(time.CLOCK_BOOTTIME)
    hertz = os.sysconf("SC_CLK_TCK")
    user_id = os.getuid()
    table = {}
    for pid in (int(name) for name in os.listdir("/proc") if name.isdigit()):
        with suppress(OSError):
            is_own = os.stat(f"/proc/{pid}").st_uid == user_id
            state, parent, group, session, start = _stat(pid)
            if state not in ("Z", "X"):
                table[pid] = HostProcess(
                    pid,
                    parent,
                    group,
                    session,
                    start,
                    wall_time - since_boot + start / hertz,
                    is_own,
                )
    return table


def _stat(pid: int) -> tuple[str, int, int, int, int]:
    with open(f"/proc/{pid}/stat", "rb") as file:
        fields = file.read().rpartition(b")")[2].split()  # the name before may hold anything
    return fields[0].decode(), int(fields[1]), int(fields[2]), int(fields[3]), int(fields[19])


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
    guards = [process.pid for process in table.values() if process.own and _guards(process.pid)]
    return set(root_of_descendants(table, guards)).union(
        *(ancestors(table, guard) for guard in guards)
    )


def _guards(pid: int) -> bool:
    with suppress(OSError):
        for name in os.listdir(f"/proc/{pid}/fd"):
            with suppress(OSError):
                descriptor = f"/proc/{pid}/fd/{name}"
                if _LOCK.fullmatch(os.readlink(descriptor)) and is_locked(descriptor):
                    return True
    return False


def read_environment(pid: int) -> dict[str, str]:
    """Return the variables that a process was started with; none if that cannot be read."""
    with suppress(OSError), open(f"/proc/{pid}/environ", "rb") as file:
        entries = file.read().decode(errors="replace").split("\0")
        return {name: value for name, _, value in (entry.partition("=") for entry in entries)}
    return {}


def command_line(pid: int) -> str:
    """Return its command line, or its name if it has none."""
    with suppress(OSError), open(f"/proc/{pid}/cmdline", "rb") as file:
        words = file.read().rstrip(b"\0")
        if words:
            return words.replace(b"\0", b" ").decode(errors="replace")
    with suppress(OSError), open(f"/proc/{pid}/comm", "rb") as file:
        return f"[{file.read().decode(errors='replace').strip()}]"
    return ""


def is_running(pid: int, start: int) -> bool:
    """Return True if it is still that process, and no zombie."""
    try:
        state, *_, started = _stat(pid)
    except OSError:
        return False
    return started == start and state not in ("Z", "X")


def send_signal(pid: int, start: int, number: signal.Signals) -> None:
    """Signal that process, and none that has got its pid since."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    except (AttributeError, OSError):
        # A kernel older than 5.3 has nothing better than to look and then be quick.
        if is_running(pid, start):
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, number)
        return
    try:
        if is_running(pid, start):
            with suppress(ProcessLookupError, PermissionError):
                signal.pidfd_send_signal(descriptor, number)
    finally:
        os.close(descriptor)
