"""CPU, memory and network that a run used on its hosts, second by second."""

from __future__ import annotations

from array import array
from dataclasses import dataclass, fields
from typing import TypeVar

import numpy as np

from remote.metrics.steps import Floats
from training.wire.host_events import HostSample

MOST_ROWS = 1 << 15
"""Samples of a host or rank that are kept at the most; those of nine hours, at one a second."""


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


class SampleCollector:
    """Collects the rows of samples of one kind and place, in order of time: all of a short run, one
    in every few of a long one."""

    def __init__(self, most_rows: int = MOST_ROWS) -> None:
        self.count = 0
        """Rows that were offered."""
        self._most_rows = most_rows
        self._stride = 1
        # A few bytes for each number, where tuples of objects take several times as many.
        self._numbers = array("d")

    def append(self, row: SampleRow) -> None:
        """Take in the next row. All have one length."""
        if self.count % self._stride == 0:
            self._numbers.extend(row)
        self.count += 1
        if len(self._numbers) > self._most_rows * len(row):
            self._numbers = array("d", self.rows(len(row))[::2].tobytes())
            self._stride *= 2

    def rows(self, width: int) -> Floats:
        """Return the rows, each with `width` numbers."""
        return np.array(self._numbers, dtype=np.float64).reshape(-1, width)


def as_columns(kind: type[Usage], samples: SampleCollector, zero: float) -> Usage:
    """Return the usage in samples, with times since the Unix time `zero`."""
    time, *figure_columns = samples.rows(len(fields(kind))).T
    return kind(time - zero, *figure_columns)
