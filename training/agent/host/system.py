"""What kind of system this host is, and how much it has: what /proc and the control groups say.
Imports little."""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False  # as typing itself takes long to import
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

LINUX = sys.platform == "linux"
CPUINFO = "/proc/cpuinfo"
FLAGS = ("avx2", "avx512f", "avx512_bf16", "amx_bf16", "asimd", "bf16")
"""Instructions of CPUs that decide how fast a model is computed, as /proc/cpuinfo names them."""
BF16 = ("avx512_bf16", "amx_bf16", "bf16")
"""Those that compute in bfloat16."""
HEAD = 8192
"""Bytes of /proc/cpuinfo that hold the first core's flags; to make all of it takes long where there
are many cores."""
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
    """This process's control groups: the controllers (one empty name: version 2) and the path
    without its leading slash."""
    fields = [line.split(":", 2) for line in text("/proc/self/cgroup").splitlines()]
    return [(controllers.split(","), path.lstrip("/")) for _, controllers, path in fields]


def disk_free(folder: str) -> int:
    """Bytes that this user may still write there; at least 1, as 0 would be a host that does not
    say."""
    disk = os.statvfs(existing(folder))
    return max(1, disk.f_bavail * disk.f_frsize)


def existing(folder: str) -> str:
    """The folder, or what there is of the way to it."""
    while not os.path.isdir(folder):
        folder = os.path.dirname(folder)
    return folder


def lacks_bf16(flags: Sequence[str]) -> bool:
    """Whether a CPU with these of `FLAGS` (none: they are not known) has no instructions for
    bfloat16."""
    return bool(flags) and not any(flag in BF16 for flag in flags)


def cpu_flags() -> tuple[str, ...]:
    """Which of `FLAGS` this host's CPU has; none where it does not tell."""
    try:
        with open(CPUINFO, "rb", buffering=0) as file:
            head = file.read(HEAD).decode(errors="replace")
    except OSError:
        return ()
    key = "Features" if os.uname().machine in ("aarch64", "arm64") else "flags"
    lines = (line.partition(":") for line in head.splitlines())
    told = next((value.split() for name, _, value in lines if name.strip() == key), [])
    return tuple(flag for flag in FLAGS if flag in told)
