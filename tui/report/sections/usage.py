"""CPU, memory and network of the hosts over time."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from remote.figures.run import RunFigures
from remote.figures.steps import Floats
from remote.figures.usage import HostUsage
from remote.format import UNKNOWN, number, percent, size
from tui.report.document import Picture, Section, Table
from tui.report.numbers.curves import Curve, smoothed
from tui.report.numbers.timing import Timing
from tui.report.pictures import lines
from tui.report.subject import Subject

AXIS = "seconds since the first step"
MIB, MBIT = 2**20, 1e6 / 8
MOST = 12
"""Hosts or cells in a picture."""
HEAD = ("host", "cell", "CPU, mean", "CPU, most", "memory, most", "of", "sent", "received")


@dataclass(frozen=True)
class Measure:
    """What is drawn of a host."""

    name: str
    title: str
    up: str
    of: Callable[[HostUsage], Floats]
    least_top: float = 0.0


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
        curves = list(_of_hosts(named[0][1], measure) if single else _of_groups(named, measure))
        if curves and any(np.nanmax(one.middle, initial=0) > 0 for one in curves):
            pictures.append(_picture(measure, curves))
    first = "Of the first run of each cell; the pictures show means over its hosts."
    says = [] if single else [first]
    return Section("usage", "CPU, memory and network", says, [_table(named)], pictures)


def _picture(measure: Measure, curves: Sequence[Curve]) -> Picture:
    return lines.picture(
        measure.name, measure.title, AXIS, measure.up, curves, number, measure.least_top
    )


def _of_hosts(run: RunFigures, measure: Measure) -> Iterator[Curve]:
    for host in run.hosts[:MOST]:
        values = smoothed(measure.of(host.usage))
        if len(values):
            yield Curve(host.name, host.usage.time, values, values, values, 1)


def _of_groups(named: Sequence[tuple[str, RunFigures]], measure: Measure) -> Iterator[Curve]:
    """A curve per group: the mean over its hosts."""
    for label, run in named:
        usages = [host.usage for host in run.hosts if len(host.usage.time)]
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
