"""The system of this host: memory, disk, control groups and CPU, mostly from /proc. Imports
little."""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False  # as typing itself takes long to import
if TYPE_CHECKING:
    from collections.abc import Sequence
    from importlib.machinery import ModuleSpec
    from typing import Any

LINUX = sys.platform == "linux"
CPUINFO = "/proc/cpuinfo"
FLAGS = ("avx2", "avx512f", "avx512_bf16", "amx_bf16", "asimd", "bf16")
"""CPU instructions that matter for the speed of a model, by their names in /proc/cpuinfo."""
BF16 = ("avx512_bf16", "amx_bf16", "bf16")
"""The instructions for bfloat16."""
HEAD = 8192
"""Bytes of /proc/cpuinfo that contain the flags of the first core. All of it is slow to read on
hosts with many cores."""
psutil: Any = None
if not LINUX:
    try:
        import psutil  # other modules import it from here
    except ImportError:
        psutil = None


def read_text(path: str) -> str:
    """Return the content of a file; "" if it cannot be read."""
    try:
        with open(path, errors="replace") as file:
            return file.read()
    except OSError:
        return ""


def read_figures(path: str) -> dict[str, int]:
    """Return the figures of a file of the kernel with a name and a number in each line, such as
    /proc/vmstat; none if it cannot be read."""
    figures: dict[str, int] = {}
    for line in read_text(path).splitlines():
        figure_name, number, *_ = line.split()
        figures[figure_name.rstrip(":")] = int(number)
    return figures


def memory() -> tuple[int, int]:
    """Return the total bytes of memory, and those available without swapping (Linux)."""
    figures = read_figures("/proc/meminfo")  # in KiB
    available = figures.get("MemAvailable", figures["MemFree"])
    return figures["MemTotal"] * 1024, available * 1024


def cgroups() -> list[tuple[list[str], str]]:
    """Return the control groups of this process: the controllers (one empty name for version 2) and
    the path without its leading slash."""
    line_fields = [line.split(":", 2) for line in read_text("/proc/self/cgroup").splitlines()]
    return [(controllers.split(","), path.lstrip("/")) for _, controllers, path in line_fields]


def disk_free(folder: str) -> int:
    """Return the bytes that this user may still write to the disk of a folder; at least 1, because
    0 means unknown."""
    disk_status = os.statvfs(nearest_existing(folder))
    return max(1, disk_status.f_bavail * disk_status.f_frsize)


def nearest_existing(folder: str) -> str:
    """Return the folder, or its nearest parent that exists."""
    while not os.path.isdir(folder):
        folder = os.path.dirname(folder)
    return folder


def find_package(package: str) -> ModuleSpec | None:
    """Return what Python finds under this name, as `importlib.util.find_spec` does, which is slow
    to import."""
    for finder in sys.meta_path:
        try:
            module_spec = finder.find_spec(package, None)
        except (AttributeError, ImportError, ValueError):  # what a program has put there may fail
            continue
        if module_spec:
            return module_spec
    return None


def lacks_bf16(flags: Sequence[str]) -> bool:
    """Return True if a CPU with these of `FLAGS` has no instructions for bfloat16. No flags:
    unknown."""
    return bool(flags) and not any(flag in BF16 for flag in flags)


def cpu_flags() -> tuple[str, ...]:
    """Return those of `FLAGS` that the CPU of this host has; none if they are unknown."""
    try:
        with open(CPUINFO, "rb", buffering=0) as file:
            first_block = file.read(HEAD).decode(errors="replace")
    except OSError:
        return ()
    key_name = "Features" if os.uname().machine in ("aarch64", "arm64") else "flags"
    key_lines = (line.partition(":") for line in first_block.splitlines())
    cpu_words = next(
        (value.split() for name, _, value in key_lines if name.strip() == key_name), []
    )
    return tuple(flag for flag in FLAGS if flag in cpu_words)
