"""What kind of system this host is, and how much it has: what /proc and the control groups say. Imports little."""

from __future__ import annotations

import sys

TYPE_CHECKING = False  # as typing itself takes long to import
if TYPE_CHECKING:
    from typing import Any

LINUX = sys.platform == "linux"
psutil: Any = None
if not LINUX:
    try:
        import psutil  # for those who import it from here
    except ImportError:
        psutil = None


def text(path: str) -> str:
    """What a file holds, or "" where it cannot be read."""
    try:
        with open(path, errors="replace") as file:
            return file.read()
    except OSError:
        return ""


def memory() -> tuple[int, int]:
    """Bytes in all, and those that could be had without swapping (Linux)."""
    with open("/proc/meminfo") as file:
        figures = {line.partition(":")[0]: int(line.split()[1]) * 1024 for line in file}
    return figures["MemTotal"], figures.get("MemAvailable", figures["MemFree"])


def cgroups() -> list[tuple[list[str], str]]:
    """This process's control groups: the controllers (one empty name: version 2) and the path without its leading slash."""
    fields = [line.split(":", 2) for line in text("/proc/self/cgroup").splitlines()]
    return [(controllers.split(","), path.lstrip("/")) for _, controllers, path in fields]
