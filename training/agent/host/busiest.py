"""Finds which other processes keep this host busy, by the CPU time that they take for a moment
(Linux).

It reads all processes twice, which only a host is worth that others keep busy.
"""

from __future__ import annotations

import os
import time
from collections import defaultdict
from operator import itemgetter

from training.agent.host.proc_files import read_name, read_stat

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
        self._ticks_before = _cpu_ticks()

    def find_busiest(self) -> tuple[tuple[str, float], ...]:
        """Return the names of the busiest processes and the cores that all of a name keep busy, the
        busiest first. Wait until they have been watched for `SECONDS`."""
        time.sleep(max(0.0, self._began + SECONDS - time.monotonic()))
        elapsed_ticks = (time.monotonic() - self._began) * os.sysconf("SC_CLK_TCK")
        cores_by_name = defaultdict[str, float](float)
        for pid, ticks in _cpu_ticks().items():
            # All that one has taken which was not there before.
            ticks_taken = ticks - self._ticks_before.get(pid, 0)
            if ticks_taken > 0:
                name = read_name(pid)
                name = RANKS if name.startswith(RANK_NAME) else name
                cores_by_name[name] += ticks_taken / elapsed_ticks
        busiest = [
            (name, round(cores, 1))
            for name, cores in sorted(cores_by_name.items(), key=itemgetter(1), reverse=True)
            if cores >= LEAST_CORES and name and not name.startswith(OWN_NAME)
        ]
        return tuple(busiest[:MOST_NAMES])


def _cpu_ticks() -> dict[int, int]:
    """Return the CPU ticks that each process has taken, but for those of this session."""
    ticks_by_pid = {}
    own_session = str(os.getsid(0))
    for name in os.listdir("/proc"):
        if name.isdecimal():
            fields = read_stat(int(name))
            if fields and fields[3] != own_session:
                ticks_by_pid[int(name)] = int(fields[11]) + int(fields[12])
    return ticks_by_pid
