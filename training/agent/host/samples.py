"""Measures what the host and its ranks use from one tick to the next, and whether the host ran out
of memory."""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Iterable
from contextlib import suppress
from typing import NamedTuple, Protocol

from training.agent.host import processes
from training.agent.host.proc_files import read_stat
from training.agent.host.system import LINUX, cgroups, disk_free, memory, psutil, read_figures
from training.wire.events import HostSample, RankSample


class Sampler(Protocol):
    """Measures the time since the previous call."""

    def host(self) -> HostSample:
        """Measure the whole host."""

    def rank(self, number: int, pid: int) -> RankSample | None:
        """Measure a rank's process and its descendants; None if it has exited."""


def sampler() -> Sampler | None:
    """Return a sampler for this host: by /proc, else by psutil, else None."""
    if LINUX:
        return ProcSampler()
    return PsutilSampler() if psutil else None


class ProcSampler:
    """Reads /proc (Linux)."""

    def __init__(self) -> None:
        self._hertz = os.sysconf("SC_CLK_TCK")
        self._page = os.sysconf("SC_PAGE_SIZE")
        self._cores = _core_ticks()
        self._net = _net_bytes()
        self._trees: dict[int, tuple[float, dict[int, _Usage]]] = {}

    def host(self) -> HostSample:
        cores = _core_ticks()
        before = self._cores
        received, sent = _net_bytes()
        received_before, sent_before = self._net
        self._cores = cores
        self._net = (received, sent)
        total, available = memory()
        return HostSample(
            cpu=tuple(_percent(core, before.get(name, core)) for name, core in cores.items()),
            memory_used=total - available,
            memory_total=total,
            sent=max(0, sent - sent_before),
            received=max(0, received - received_before),
            disk_free=_disk_free(),
        )

    def rank(self, number: int, pid: int) -> RankSample | None:
        tree: dict[int, _Usage] = {}
        for member in (pid, *processes.descendants(pid)):
            usage = _usage(member)
            if usage:
                tree[member] = usage
        since, before = self._trees.pop(pid, (0.0, {}))
        if pid not in tree:
            return None
        now = time.clock_gettime(time.CLOCK_BOOTTIME)
        self._trees[pid] = (now, tree)
        ticks = pages = 0
        for member, usage in tree.items():
            pages += usage.pages
            ticks += usage.ticks
            if member in before:
                ticks -= before[member].ticks
        began = since or tree[pid].started / self._hertz
        elapsed_ticks = max(1.0, (now - began) * self._hertz)
        percent = max(0.0, 100 * ticks / elapsed_ticks)
        return RankSample(number, round(percent, 1), pages * self._page, len(tree))


def _core_ticks() -> dict[str, tuple[int, int]]:
    """Return the total and the idle ticks of each core."""
    cores = {}
    with open("/proc/stat") as file:
        for line in file:
            name, *fields = line.split()
            if name.startswith("cpu") and name != "cpu":
                # The rest are a guest's, which are part of the user time.
                ticks = [int(field) for field in fields[:8]]
                cores[name] = (sum(ticks), ticks[3] + ticks[4])
    return cores


def _percent(now: tuple[int, int], before: tuple[int, int]) -> float:
    total_ticks = now[0] - before[0]
    idle_ticks = now[1] - before[1]
    if total_ticks <= 0:
        return 0.0
    busy_share = 1 - idle_ticks / total_ticks
    return round(100 * min(1.0, max(0.0, busy_share)), 1)


def _net_bytes() -> tuple[int, int]:
    """Return the bytes received and sent by all interfaces but loopback."""
    received = sent = 0
    with suppress(OSError), open("/proc/net/dev") as file:
        for line in list(file)[2:]:
            name, _, figures = line.partition(":")
            if name.strip() != "lo":
                received += int(figures.split()[0])
                sent += int(figures.split()[8])
    return received, sent


def _disk_free() -> int:
    """Return the bytes that are left on the disk of the agent's working folder, which is the run's;
    0 if unknown."""
    with suppress(OSError):
        return disk_free(".")
    return 0


class _Usage(NamedTuple):
    """CPU ticks and resident pages of a process, and its start, in ticks after that of the
    machine."""

    ticks: int
    pages: int
    started: int


def _usage(pid: int) -> _Usage | None:
    """Return the usage of a process; None if it has exited, even if nobody has waited for it
    yet."""
    fields = read_stat(pid)
    if not fields or fields[21] == "0":
        return None
    return _Usage(int(fields[11]) + int(fields[12]), int(fields[21]), int(fields[19]))


class PsutilSampler:
    """Uses psutil, for hosts without /proc."""

    def __init__(self) -> None:
        self._processes: dict[int, psutil.Process] = {}
        self._net = psutil.net_io_counters()
        psutil.cpu_percent(percpu=True)

    def host(self) -> HostSample:
        memory_now = psutil.virtual_memory()
        before, self._net = self._net, psutil.net_io_counters()
        return HostSample(
            cpu=tuple(psutil.cpu_percent(percpu=True)),
            memory_used=memory_now.total - memory_now.available,
            memory_total=memory_now.total,
            sent=max(0, self._net.bytes_sent - before.bytes_sent),
            received=max(0, self._net.bytes_recv - before.bytes_recv),
            disk_free=_disk_free(),
        )

    def rank(self, number: int, pid: int) -> RankSample | None:
        cpu = 0.0
        resident = 0
        members = 0
        for member in (pid, *processes.descendants(pid)):
            with suppress(psutil.Error):
                process = self._processes.setdefault(member, psutil.Process(member))
                cpu += process.cpu_percent()
                resident += process.memory_info().rss
                members += 1
        return RankSample(number, cpu, resident, members) if members else None


class OutOfMemory:
    """Watches how many processes the OOM killer has killed on the host and in this process's
    cgroup."""

    def __init__(self, files: Iterable[str] | None = None, window: int = 5) -> None:
        self._files = tuple(_oom_files() if files is None else files)
        self._counts = deque([self._count()], maxlen=window)

    def tick(self) -> None:
        """Store the present count. `rose` compares with the oldest one in the window."""
        self._counts.append(self._count())

    def rose(self) -> bool:
        """Return True if a process was killed within the window."""
        return self._count() > self._counts[0]

    def _count(self) -> int:
        return sum(read_figures(file).get("oom_kill", 0) for file in self._files)


def _oom_files() -> Iterable[str]:
    yield "/proc/vmstat"
    for controllers, path in cgroups():
        if "memory" in controllers:
            yield f"/sys/fs/cgroup/memory/{path}/memory.oom_control"
        elif controllers == [""]:
            yield f"/sys/fs/cgroup/{path}/memory.events"
