"""CPU time, in seconds, as Linux counts it."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from training.agent.host import processes

TICKS = os.sysconf("SC_CLK_TCK")
IDLE = (3, 4)
"""The fields of /proc/stat that count no work: idle, and idle while a disk is waited for."""


def used(pid: int) -> float:
    """What a process has used, its children aside. Raises: OSError, where there is none."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def used_by_others() -> float:
    """What all of this machine has used but this process and those below it."""
    spent = list(map(int, Path("/proc/stat").read_text().split(maxsplit=9)[1:9]))
    total = (sum(spent) - sum(spent[field] for field in IDLE)) / TICKS
    for pid in (os.getpid(), *processes.descendants(os.getpid())):
        with contextlib.suppress(OSError):  # it has just ended
            total -= used(pid)
    return total
