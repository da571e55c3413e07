"""What the programs of ranks leave running behind them."""

from __future__ import annotations

import os
import time

from training.agent.host import processes
from training.agent.host.system import text

LOOK = 0.02
"""Seconds between two looks."""
NAMED = 3
"""How many processes are named."""


def leftovers(seconds: float) -> str:
    """What to say of processes below the agent that still run after `seconds`; "" where none
    does."""
    deadline = time.monotonic() + seconds
    while left := [pid for pid in processes.descendants(os.getpid()) if not _has_ended(pid)]:
        if time.monotonic() > deadline:
            return _said(left)
        time.sleep(LOOK)
    return ""


def _has_ended(pid: int) -> bool:
    return text(f"/proc/{pid}/stat").rpartition(")")[2].split()[:1] in ([], ["Z"])


def _said(left: list[int]) -> str:
    names = [f"{text(f'/proc/{pid}/comm').strip()} (pid {pid})" for pid in left[:NAMED]]
    more = f" and {len(left) - NAMED} more" if len(left) > NAMED else ""
    what = "a process" if len(left) == 1 else f"{len(left)} processes"
    return (
        f"the program ended but left {what} behind, now killed: {', '.join(names)}{more}; a "
        "rank ends with its program, so the program has to wait for what it starts"
    )
