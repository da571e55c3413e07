"""CPU, memory and network of the hosts over time."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from remote.format import UNKNOWN, number, percent, size
from remote.metrics.run import RunFigures
from remote.metrics.steps import Floats
from remote.metrics.usage import GpuUsage, HostUsage
from tui.report.document import Picture, Section, Table
from tui.report.numbers.curves import Curve, smoothed
from tui.report.numbers.timing import Timing
from tui.report.pictures import lines
from tui.report.subject import Subject

AXIS = "seconds since the first step"
MIB = 2**20
MBIT = 1e6 / 8
MOST = 12
"""Hosts or cells in a picture."""
GPU_HEAD = ("GPU of", "cell", "use, mean", "use, most", "memory, most", "of", "clock, mean")
HEAD = ("host", "cell", "CPU, mean", "CPU, most", "memory, most", "of", "sent", "received")


Parts = Sequence[tuple[str, HostUsage | GpuUsage]]


def hosts(run: RunFigures) -> Parts:
    """The usage of each host, by its name."""
    return [(host.name, host.usage) for host in run.hosts]


def gpus(run: RunFigures) -> Parts:
    """That of the GPU of each rank that has one."""
    return [(f"rank {rank.rank}", rank.gpu) for rank in run.ranks if len(rank.gpu.time)]


@dataclass(frozen=True)
class Measure:
    """What is drawn of each host, or of what else the `parts` of a run are, by their names."""

    name: str
    title: str
    up: str
    of: Callable[[Any], Floats]
    least_top: float = 0.0
    parts: Callable[[RunFigures], Parts] = hosts


MEASURES = (
    Measure("cpu", "CPU over time", "CPU of a host in %", lambda usage: usage.cpu, 105.0),
    Measure(
        "memory",
        "Memory over time",
        "memory of a host in MiB",
        lambda usage: usage.memory_used / MIB,
    ),
    Measure(
        "network-over-time",
        "Network over time",
        "sent by a host in Mbit/s",
        lambda usage: usage.sent / MBIT,
    ),
    Measure(
        *("gpu", "GPU use over time", "use of a GPU in %"),
        *(lambda usage: usage.use, 105.0, gpus),
    ),
    Measure(
        *("gpu-memory", "GPU memory over time", "memory in use on a GPU in MiB"),
        *(lambda usage: usage.memory_used / MIB, 0.0, gpus),
    ),
)


def section(subject: Subject, timing: Timing) -> Section | None:
    """The pictures, of the hosts of one run, or of one run of each group; and the table."""
    runs = [(group.label, run) for group in subject.shown(MOST) if (run := group.first)]
    named = [(label, run) for label, run in runs if any(len(host.usage.time) for host in run.hosts)]
    if not named:
        return None
    single = len(named) == 1
    pictures = []
    for measure in MEASURES:
        curves = list(_of_parts(named[0][1], measure) if single else _of_groups(named, measure))
        if curves and any(np.nanmax(one.middle, initial=0) > 0 for one in curves):
            pictures.append(_picture(measure, curves))
    first = "Of the first run of each cell; the pictures show means over its hosts."
    says = [] if single else [first]
    tables = [_table(named), *_gpu_table(named)]
    title = "CPU, GPU, memory and network" if len(tables) > 1 else "CPU, memory and network"
    return Section("usage", title, says, tables, pictures)


def _picture(measure: Measure, curves: Sequence[Curve]) -> Picture:
    return lines.picture(
        measure.name, measure.title, AXIS, measure.up, curves, number, measure.least_top
    )


def _of_parts(run: RunFigures, measure: Measure) -> Iterator[Curve]:
    for name, usage in measure.parts(run)[:MOST]:
        values = smoothed(measure.of(usage))
        if len(values):
            yield Curve(name, usage.time, values, values, values, 1)


def _of_groups(named: Sequence[tuple[str, RunFigures]], measure: Measure) -> Iterator[Curve]:
    """A curve per group: the mean over its hosts, or what else is measured."""
    for label, run in named:
        usages = [usage for _, usage in measure.parts(run) if len(usage.time)]
        if not usages:
            continue
        grid = max((usage.time for usage in usages), key=len)
        values = np.mean(
            [np.interp(grid, usage.time, measure.of(usage)) for usage in usages], axis=0
        )
        values = smoothed(values)
        yield Curve(label, grid, values, values, values, 1)


def _table(named: Sequence[tuple[str, RunFigures]]) -> Table:
    rows = [(host.name, label, *_row(host.usage)) for label, run in named for host in run.hosts]
    note = (
        "CPU: from the first step on. sent and received: network bytes in all, loopback aside. "
        f"Of {', '.join(run.name for _, run in named)}."
    )
    return Table("Use of the hosts", HEAD, rows, note)


def _row(usage: HostUsage) -> tuple[str, ...]:
    if not len(usage.time):
        return (UNKNOWN,) * (len(HEAD) - 2)
    during = usage.cpu[(usage.time >= 0) & np.isfinite(usage.cpu)]
    mean, most = (float(during.mean()), float(during.max())) if during.size else (math.nan,) * 2
    return (
        percent(mean / 100),
        percent(most / 100),
        size(float(usage.memory_used.max())),
        size(float(usage.memory_total.max())),
        size(float(usage.sent.sum())),
        size(float(usage.received.sum())),
    )


def _gpu_table(named: Sequence[tuple[str, RunFigures]]) -> Iterator[Table]:
    rows = [
        (name, label, *_gpu_row(usage))
        for label, run in named
        for name, usage in gpus(run)
        if isinstance(usage, GpuUsage)
    ]
    if rows:
        yield Table("Use of the GPUs", GPU_HEAD, rows, "Use and clock: from the first step on.")


def _gpu_row(usage: GpuUsage) -> tuple[str, ...]:
    trained = usage.time >= 0
    use = usage.use[trained & np.isfinite(usage.use)]
    clock = usage.clock[trained & (usage.clock > 0)]
    return (
        percent(float(use.mean()) / 100) if use.size else UNKNOWN,
        percent(float(use.max()) / 100) if use.size else UNKNOWN,
        size(float(usage.memory_used.max())),
        size(float(usage.memory_total.max())),
        f"{clock.mean():.0f} MHz" if clock.size else UNKNOWN,
    )
