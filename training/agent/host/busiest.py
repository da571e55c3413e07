"""Finds whether others keep this host busy, and which of their processes do, by the CPU time that
they take for a moment (Linux).

It reads all processes twice, which only a host is worth that others keep busy.
"""

from __future__ import annotations

import math
import os
import select
import time
from collections import defaultdict
from operator import itemgetter

from training.agent.host.proc_files import read_name, read_stat
from training.agent.host.system import read_text

SECONDS = 0.25
"""How long processes are watched, at the least."""
LEAST_CORES = 0.2
"""Names whose processes keep fewer busy are left out."""
MOST_NAMES = 3
RANK_NAME, RANKS = "rank ", "ranks of another run"
"""How the names of ranks begin, and what they are called together."""
OWN_NAME = "rankboard"
"""The names of rankboard's own processes begin so."""


class BusyProcesses:
    """Watches the processes of this host from now on."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._busy_before = _busy_ticks()
        self._ticks_before = _cpu_ticks()
        self.other_cores = 0.0
        """The cores that others keep busy, once `find_busiest` has been called: those of the whole
        machine, whose processes a container may not see, without rankboard's own. NaN if nobody
        knows."""

    def find_busiest(self) -> tuple[tuple[str, float], ...]:
        """Return the names of the busiest processes and the cores that all of a name keep busy, the
        busiest first. Wait until they have been watched for `SECONDS`."""
        # Not time.sleep, which sleeps until a time of the system's clock: libfaketime refuses that.
        select.select((), (), (), max(0.0, self._began + SECONDS - time.monotonic()))
        ticks_by_pid = _cpu_ticks()
        busy_ticks = _busy_ticks() - self._busy_before
        # After both, which take a while where there are thousands of processes.
        elapsed_ticks = (time.monotonic() - self._began) * os.sysconf("SC_CLK_TCK")
        cores_by_name = defaultdict[str, float](float)
        for pid, ticks in ticks_by_pid.items():
            # All that one has taken which was not there before.
            ticks_taken = ticks - self._ticks_before.get(pid, 0)
            if ticks_taken > 0:
                cores_by_name[_name_process(pid)] += ticks_taken / elapsed_ticks
        other_cores = busy_ticks / elapsed_ticks - cores_by_name.pop(OWN_NAME, 0.0)
        self.other_cores = 0.0 if other_cores < 0 else other_cores
        busiest = [
            (name, round(cores, 1))
            for name, cores in sorted(cores_by_name.items(), key=itemgetter(1), reverse=True)
            if cores >= LEAST_CORES and name
        ]
        return tuple(busiest[:MOST_NAMES])


def _name_process(pid: int) -> str:
    """Return what a process is called, `OWN_NAME` if it belongs to rankboard or to this session."""
    fields = read_stat(pid)
    name = read_name(pid)
    if name.startswith(OWN_NAME) or (fields and fields[3] == str(os.getsid(0))):
        return OWN_NAME
    return RANKS if name.startswith(RANK_NAME) else name


def _cpu_ticks() -> dict[int, int]:
    """Return the CPU ticks that each process has taken."""
    ticks_by_pid = {}
    for name in os.listdir("/proc"):
        if name.isdecimal():
            fields = read_stat(int(name))
            if fields:
                ticks_by_pid[int(name)] = int(fields[11]) + int(fields[12])
    return ticks_by_pid


def _busy_ticks() -> float:
    """Return the CPU ticks in which the cores of the machine were not idle; NaN if Linux does not
    tell."""
    line_of_all_cores = read_text("/proc/stat").partition("\n")[0]
    # The rest are a guest's, which are part of the user time.
    ticks = [int(field) for field in line_of_all_cores.split()[1:9]]
    if not ticks:
        return math.nan
    idle_ticks = sum(ticks[3:5])  # with those that wait for a disk
    return sum(ticks) - idle_ticks
