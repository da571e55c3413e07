"""CPU, memory and network that a run used on its hosts, second by second."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TypeVar

import numpy as np

from remote.metrics.steps import Floats
from training.wire.host_events import HostSample


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


Usage = TypeVar("Usage", HostUsage, RankUsage, GpuUsage)
SampleRow = tuple[float, ...]
"""A time, and the figures of a sample in the order of the columns."""


def host_row(sample: HostSample, when: float) -> SampleRow:
    """Return a row of `HostUsage`, at this Unix time."""
    mean_cpu = sum(sample.cpu) / len(sample.cpu) if sample.cpu else float("nan")
    return when, mean_cpu, sample.memory_used, sample.memory_total, sample.sent, sample.received


def as_columns(kind: type[Usage], rows: list[SampleRow], zero: float) -> Usage:
    """Return the usage in rows, with times since the Unix time `zero`."""
    # `reshape`, since an array of no rows has no columns.
    time, *figure_columns = np.array(rows, dtype=np.float64).reshape(-1, len(fields(kind))).T
    return kind(time - zero, *figure_columns)
