"""Measures what the host and its ranks use from one tick to the next, and whether the host ran out
of memory."""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from typing import NamedTuple, Protocol

from training.agent.host import processes
from training.agent.host.proc_files import read_stat
from training.agent.host.system import LINUX, cgroups, disk_free, memory, psutil, read_figures
from training.wire.host_events import HostSample, RankSample


class Sampler(Protocol):
    """Measures what is used from one call to the next. The agent calls once a tick."""

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
        self._ticks_per_second = os.sysconf("SC_CLK_TCK")
        self._page_size = os.sysconf("SC_PAGE_SIZE")
        self._last_ticks = _core_ticks()
        self._last_net = _net_bytes()
        self._last_usage: dict[int, tuple[float, dict[int, _Usage]]] = {}

    def host(self) -> HostSample:
        core_ticks = _core_ticks()
        ticks_before = self._last_ticks
        received, sent = _net_bytes()
        received_before, sent_before = self._last_net
        self._last_ticks = core_ticks
        self._last_net = (received, sent)
        total_memory, available_memory = memory()
        return HostSample(
            cpu=tuple(
                _busy_percent(core, ticks_before.get(name, core))
                for name, core in core_ticks.items()
            ),
            memory_used=total_memory - available_memory,
            memory_total=total_memory,
            sent=max(0, sent - sent_before),
            received=max(0, received - received_before),
            disk_free=_disk_free(),
        )

    def rank(self, number: int, pid: int) -> RankSample | None:
        usage_by_pid: dict[int, _Usage] = {}
        for member_pid in (pid, *processes.descendants(pid)):
            usage = _usage(member_pid)
            if usage:
                usage_by_pid[member_pid] = usage
        sampled_at, usage_before = self._last_usage.pop(pid, (0.0, {}))
        if pid not in usage_by_pid:
            return None
        # The clock by which the kernel dates the start of a process: it counts on while suspended.
        now = time.clock_gettime(time.CLOCK_BOOTTIME)
        self._last_usage[pid] = (now, usage_by_pid)
        cpu_ticks = resident_pages = 0
        for member_pid, usage in usage_by_pid.items():
            resident_pages += usage.pages
            cpu_ticks += usage.ticks
            if member_pid in usage_before:
                cpu_ticks -= usage_before[member_pid].ticks
        measured_since = sampled_at or usage_by_pid[pid].started / self._ticks_per_second
        elapsed_ticks = max(1.0, (now - measured_since) * self._ticks_per_second)
        percent = max(0.0, 100 * cpu_ticks / elapsed_ticks)
        return RankSample(
            number, round(percent, 1), resident_pages * self._page_size, len(usage_by_pid)
        )


def subtract_sample(whole: RankSample, part: RankSample) -> RankSample:
    """Return what a process tree uses without a part of it, both of the last second."""
    return replace(
        whole,
        cpu=round(max(0.0, whole.cpu - part.cpu), 1),
        memory=max(0, whole.memory - part.memory),
        processes=max(1, whole.processes - part.processes),
    )


def _core_ticks() -> dict[str, tuple[int, int]]:
    """Return the total and the idle ticks of each core."""
    ticks_by_core = {}
    with open("/proc/stat") as file:
        for line in file:
            name, *tick_fields = line.split()
            if name.startswith("cpu") and name != "cpu":
                # The rest are a guest's, which are part of the user time.
                ticks = [int(field) for field in tick_fields[:8]]
                ticks_by_core[name] = (sum(ticks), ticks[3] + ticks[4])
    return ticks_by_core


def _busy_percent(now: tuple[int, int], before: tuple[int, int]) -> float:
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
        self._last_net = psutil.net_io_counters()
        psutil.cpu_percent(percpu=True)

    def host(self) -> HostSample:
        memory_now = psutil.virtual_memory()
        net_before, self._last_net = self._last_net, psutil.net_io_counters()
        return HostSample(
            cpu=tuple(psutil.cpu_percent(percpu=True)),
            memory_used=memory_now.total - memory_now.available,
            memory_total=memory_now.total,
            sent=max(0, self._last_net.bytes_sent - net_before.bytes_sent),
            received=max(0, self._last_net.bytes_recv - net_before.bytes_recv),
            disk_free=_disk_free(),
        )

    def rank(self, number: int, pid: int) -> RankSample | None:
        cpu_percent = 0.0
        resident_bytes = 0
        member_count = 0
        for member_pid in (pid, *processes.descendants(pid)):
            with suppress(psutil.Error):
                process = self._processes.setdefault(member_pid, psutil.Process(member_pid))
                cpu_percent += process.cpu_percent()
                resident_bytes += process.memory_info().rss
                member_count += 1
        return (
            RankSample(number, cpu_percent, resident_bytes, member_count) if member_count else None
        )


class OutOfMemory:
    """Watches how many processes the OOM killer has killed on the host and in this process's
    cgroup."""

    def __init__(self, files: Iterable[str] | None = None, window: int = 5) -> None:
        self._files = tuple(_oom_files() if files is None else files)
        self._counts = deque([self._count_kills()], maxlen=window)

    def tick(self) -> None:
        """Store the present count. `rose` compares with the oldest one in the window."""
        self._counts.append(self._count_kills())

    def rose(self) -> bool:
        """Return True if a process was killed within the window."""
        return self._count_kills() > self._counts[0]

    def _count_kills(self) -> int:
        return sum(read_figures(file).get("oom_kill", 0) for file in self._files)


def _oom_files() -> Iterable[str]:
    yield "/proc/vmstat"
    for controllers, path in cgroups():
        if "memory" in controllers:
            yield f"/sys/fs/cgroup/memory/{path}/memory.oom_control"
        elif controllers == [""]:
            yield f"/sys/fs/cgroup/{path}/memory.events"
