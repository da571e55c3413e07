"""CPU quotas by control groups: one group per host, next to or below the group that this process is
in.

A live host's group always has a process in it, so an empty one is a dead lab's; the kernel refuses
to remove any other.
"""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path

ROOT = Path("/sys/fs/cgroup")
PREFIX = "rankboard-lab-"
PERIOD = 10_000
LEAST = 1_000
"""Microseconds: the period over which a quota holds, short against a training step; and the least
quota of a period."""
LONGEST = 1_000_000
REMOVAL = 2.0
"""Seconds that the kernel may hold a group whose processes have ended."""


def base(root: Path = ROOT, own_groups: Path = Path("/proc/self/cgroup")) -> Path | None:
    """The folder for groups with a CPU controller; None if the kernel has none."""
    with suppress(OSError):
        for line in own_groups.read_text().splitlines():
            _, controllers, group_path = line.split(":", 2)
            # Version 1 has a line for each controller, version 2 one line that names none.
            if "cpu" in controllers.split(","):
                return root / "cpu" / group_path.lstrip("/")
            if not controllers and (root / "cgroup.controllers").exists():
                return _unified(root, root / group_path.lstrip("/"))
    return None


def _unified(root: Path, own_groups: Path) -> Path | None:
    """Version 2: the nearest group above that gives its members CPU shares; a group with processes
    in it cannot."""
    groups_above = own_groups.parents[: len(own_groups.parts) - len(root.parts)]
    for folder in groups_above or (root,):
        if "cpu" in (folder / "cgroup.subtree_control").read_text().split():
            return folder
    (root / "cgroup.subtree_control").write_text("+cpu")  # raises where this is not for us to say
    return root


def sweep(folder: Path) -> None:
    """Remove the groups of labs that were killed."""
    for group in folder.glob(f"{PREFIX}*"):
        with suppress(OSError):
            group.rmdir()


def make(folder: Path, group_name: str, core_quota: float, pid: int) -> Path:
    """Make a group with a quota of `core_quota`, and put process `pid` in it. Raises: OSError."""
    group = folder / f"{PREFIX}{group_name}"
    while True:
        group.mkdir()
        # The kernel accepts no quota below LEAST, so that a small share needs a longer period.
        period_us = max(PERIOD, min(LONGEST, round(LEAST / core_quota)))
        quota_us = max(LEAST, round(period_us * core_quota))
        try:
            if (folder / "cgroup.controllers").exists():  # version 2
                (group / "cpu.max").write_text(f"{quota_us} {period_us}")
            else:
                (group / "cpu.cfs_period_us").write_text(str(period_us))
                (group / "cpu.cfs_quota_us").write_text(str(quota_us))
            (group / "cgroup.procs").write_text(str(pid))
        except FileNotFoundError:  # another lab that starts now took it for a dead one's
            continue
        except OSError:
            remove(group)
            raise
        return group


def join(group: Path) -> tuple[str, ...]:
    """What to put before a command so that it runs in the group."""
    return ("sh", "-c", 'echo $$ > "$0/cgroup.procs" && exec "$@"', str(group))


def remove(group: Path) -> None:
    """Remove a group whose processes were killed. What the kernel still holds after `REMOVAL`
    seconds is left to the next lab."""
    deadline = time.monotonic() + REMOVAL
    while group.exists() and time.monotonic() < deadline:
        try:
            group.rmdir()
        except OSError:
            time.sleep(0.005)
