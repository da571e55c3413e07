"""What a run used of its hosts, second by second."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from remote.metrics.steps import Floats
from training.wire.events import GpuSample, HostSample, RankSample


@dataclass(frozen=True, eq=False)
class HostUsage:
    """A host, by the samples of its agent. All columns have one length.

    `time` is in seconds since the run's first step began, and negative before it. `cpu` is the mean
    over its cores, in percent. Memory is in bytes. `sent` and `received` are network bytes in the
    second before, loopback aside.
    """

    time: Floats
    cpu: Floats
    memory_used: Floats
    memory_total: Floats
    sent: Floats
    received: Floats


@dataclass(frozen=True, eq=False)
class RankUsage:
    """The processes of a rank. `time` as in `HostUsage`; `cpu` is in percent of one core, `memory`
    is resident, in bytes."""

    time: Floats
    cpu: Floats
    memory: Floats


@dataclass(frozen=True, eq=False)
class GpuUsage:
    """The GPU of a rank. `time` as in `HostUsage`; `use` is in percent, NaN where it is not known,
    memory in bytes, `clock` in MHz."""

    time: Floats
    use: Floats
    memory_used: Floats
    memory_total: Floats
    clock: Floats


HostRow = tuple[float, float, int, int, int, int]
RankRow = tuple[float, float, int]
GpuRow = tuple[float, float, int, int, int]


def host_row(sample: HostSample, when: float) -> HostRow:
    """One row of `HostUsage`, at this Unix time."""
    cpu = sum(sample.cpu) / len(sample.cpu) if sample.cpu else float("nan")
    memory = (sample.memory_used, sample.memory_total)
    return when, cpu, *memory, sample.sent, sample.received


def rank_row(sample: RankSample, when: float) -> RankRow:
    """One row of `RankUsage`, at this Unix time."""
    return when, sample.cpu, sample.memory


def gpu_row(sample: GpuSample, when: float) -> GpuRow:
    """One row of `GpuUsage`, at this Unix time."""
    return when, sample.use, sample.memory_used, sample.memory_total, sample.clock


def host_usage(rows: list[HostRow], zero: float) -> HostUsage:
    """The usage of a host; `zero` is the Unix time from which it is counted."""
    time, *others = np.array(rows, dtype=np.float64).reshape(-1, 6).T
    return HostUsage(time - zero, *others)


def rank_usage(rows: list[RankRow], zero: float) -> RankUsage:
    """The usage of a rank; `zero` is the Unix time from which it is counted."""
    time, *others = np.array(rows, dtype=np.float64).reshape(-1, 3).T
    return RankUsage(time - zero, *others)


def gpu_usage(rows: list[GpuRow], zero: float) -> GpuUsage:
    """The usage of a GPU; `zero` is the Unix time from which it is counted."""
    time, *others = np.array(rows, dtype=np.float64).reshape(-1, 5).T
    return GpuUsage(time - zero, *others)
