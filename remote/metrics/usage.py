"""CPU, memory and network that a run used on its hosts, second by second."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from remote.metrics.steps import Floats
from training.wire.events import GpuSample, HostSample, RankSample


@dataclass(frozen=True, eq=False)
class HostUsage:
    """A host, by the samples of its agent. All columns have one length. Memory is in bytes."""

    time: Floats
    """Seconds since the run's first step began, negative before it."""
    cpu: Floats
    """The mean over its cores, in percent."""
    memory_used: Floats
    memory_total: Floats
    sent: Floats
    """Network bytes in the second before, loopback aside."""
    received: Floats


@dataclass(frozen=True, eq=False)
class RankUsage:
    """The processes of a rank."""

    time: Floats
    """As in `HostUsage`."""
    cpu: Floats
    """In percent of one core."""
    memory: Floats
    """Resident bytes."""


@dataclass(frozen=True, eq=False)
class GpuUsage:
    """The GPU of a rank. Memory is in bytes."""

    time: Floats
    """As in `HostUsage`."""
    use: Floats
    """In percent; NaN if it is not known."""
    memory_used: Floats
    memory_total: Floats
    clock: Floats
    """In MHz."""


HostRow = tuple[float, float, int, int, int, int]
RankRow = tuple[float, float, int]
GpuRow = tuple[float, float, int, int, int]


def host_row(sample: HostSample, when: float) -> HostRow:
    """Return a row of `HostUsage`, at this Unix time."""
    cpu = sum(sample.cpu) / len(sample.cpu) if sample.cpu else float("nan")
    return when, cpu, sample.memory_used, sample.memory_total, sample.sent, sample.received


def rank_row(sample: RankSample, when: float) -> RankRow:
    """Return a row of `RankUsage`, at this Unix time."""
    return when, sample.cpu, sample.memory


def gpu_row(sample: GpuSample, when: float) -> GpuRow:
    """Return a row of `GpuUsage`, at this Unix time."""
    return when, sample.use, sample.memory_used, sample.memory_total, sample.clock


def host_usage(rows: list[HostRow], zero: float) -> HostUsage:
    """Return the usage of a host, with times since the Unix time `zero`."""
    time, *others = np.array(rows, dtype=np.float64).reshape(-1, 6).T
    return HostUsage(time - zero, *others)


def rank_usage(rows: list[RankRow], zero: float) -> RankUsage:
    """Return the usage of a rank, with times since the Unix time `zero`."""
    time, *others = np.array(rows, dtype=np.float64).reshape(-1, 3).T
    return RankUsage(time - zero, *others)


def gpu_usage(rows: list[GpuRow], zero: float) -> GpuUsage:
    """Return the usage of a GPU, with times since the Unix time `zero`."""
    time, *others = np.array(rows, dtype=np.float64).reshape(-1, 5).T
    return GpuUsage(time - zero, *others)
