"""Which runs are live in a workdir, as their locks tell. Imports little: every start and every
doctor asks it."""

from __future__ import annotations

import errno
import os
import stat

from training.agent.layout import LOCK, NODE, PLAN, RUNS
from training.wire.format import READABLE, format_of
from training.wire.jsonl import load

TYPE_CHECKING = False  # as typing itself takes long to import
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

LONGEST = 8 << 20
"""Bytes of a small file, such as a plan, that are read."""
NEWEST = 32
"""Runs that are looked at, the newest by their names."""


def read_small_file(path: str) -> bytes:
    """Read a small file of a run, as far as `LONGEST`; see `open_regular`. Raises: OSError."""
    with os.fdopen(open_regular(path), "rb") as file:
        return file.read(LONGEST)


def open_regular(path: str) -> int:
    """Open a regular file to read; no link is followed, and no pipe waited for. Return its
    descriptor. Raises: OSError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "it is not a regular file", path)
    return descriptor


def is_locked(lock_path: str) -> bool:
    """Return True if somebody holds this lock. It is neither made nor kept."""
    try:
        # Links are followed: a guard's lock is also looked at by its name in /proc.
        descriptor = os.open(lock_path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    from training.file_locks import try_lock  # most checks find no other run, and do without

    try:
        # Shared, so that two who look at once do not take each other for a guard.
        return not try_lock(descriptor, shared=True)
    finally:
        os.close(descriptor)


def find_live_runs(folder: str) -> tuple[tuple[str, int], ...]:
    """Return the other live runs of this user beside a run's folder, and how many ranks each has on
    this host (0: not known).

    With `--local` each run has a workdir of its own, so that of the others is looked at too.
    """
    runs_folder = os.path.dirname(os.path.dirname(folder))
    own_run = os.path.basename(os.path.dirname(folder))
    rank_counts: dict[str, int] = {}
    if os.path.basename(runs_folder) != RUNS:
        return ()
    for run, run_path in _list_run_paths(runs_folder):
        for host in _newest_names(run_path):
            if run != own_run and _is_live(f"{run_path}/{host}/{LOCK}"):
                rank_count = _count_ranks(f"{run_path}/{host}/{PLAN}", host)
                rank_counts[run] = rank_counts.get(run, 0) + rank_count
    return tuple(rank_counts.items())


def _list_run_paths(runs_folder: str) -> list[tuple[str, str]]:
    """Return each run with the folder that holds those of its hosts."""
    workdir = os.path.dirname(runs_folder)
    records_folder = os.path.dirname(os.path.dirname(workdir))
    if os.path.basename(workdir) != NODE:
        return [(run, f"{runs_folder}/{run}") for run in _newest_names(runs_folder)]
    return [
        (run, f"{records_folder}/{run}/{NODE}/{RUNS}/{run}")
        for run in _newest_names(records_folder)
    ]


def _newest_names(folder: str) -> list[str]:
    try:
        return sorted(os.listdir(folder), reverse=True)[:NEWEST]
    except OSError:
        return []


def _is_live(lock_path: str) -> bool:
    try:
        return is_locked(lock_path)
    except OSError:
        return False


def _count_ranks(plan_path: str, host: str) -> int:
    """Return the number of ranks of host number `host` in a plan that is kept beside a journal."""
    try:
        return read_slots(load(read_small_file(plan_path)) or {})[int(host)]
    except (OSError, ValueError, LookupError):
        return 0


def read_slots(plan_data: Mapping[str, Any]) -> list[int]:
    """Return the number of ranks of each host in a plan; none if it is in another format."""
    hosts = plan_data.get("hosts") if format_of(plan_data) in READABLE else None
    slots: list[int] = []
    for host in hosts if isinstance(hosts, list) else ():
        slot_count = host.get("slots", 1) if isinstance(host, dict) else 1
        slots.append(slot_count if isinstance(slot_count, int) else 0)
    return slots
