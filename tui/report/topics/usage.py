"""CPU, GPU, memory and network over time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from remote.format import UNKNOWN, percent, size
from remote.metrics.run import RunFigures
from remote.metrics.steps import Floats
from remote.metrics.usage import GpuUsage, HostUsage
from tui.report.curves import CurvePicture, MeanCurve, single_curve, smooth
from tui.report.document import ReportTable, Section
from tui.report.subject import ReportSubject
from tui.report.timing import SubjectTiming

X_TITLE = "seconds since the first step"
MIB = 2**20
MBIT = 1e6 / 8
PERCENT_TOP = 105.0
MOST_CURVES = 12
"""Hosts or cells in a picture."""
HOST_HEAD = ("host", "cell", "CPU, mean", "CPU, most", "memory, most", "of", "sent", "received")
GPU_HEAD = ("GPU of", "cell", "use, mean", "use, most", "memory, most", "of", "clock, mean")
UsageSeries = list[tuple[str, Floats, Floats]]
"""The usage of hosts or GPUs: the name, the times and the values of each."""


def make_section(subject: ReportSubject, timing: SubjectTiming) -> Section | None:
    """Make the pictures, of the hosts of one run or of one run of each group, and the tables."""
    runs: list[tuple[str, RunFigures]] = []
    for group in subject.select_groups(MOST_CURVES):
        run = group.first_run
        if run and any(len(host.usage.time) for host in run.hosts):
            runs.append((group.label, run))
    if not runs:
        return None
    pictures = []
    for measure in MEASURES:
        if len(runs) == 1:
            curves = list(_curves_of_parts(runs[0][1], measure))
        else:
            curves = list(_curves_of_groups(runs, measure))
        # A picture of nothing but zeros says nothing.
        if any(np.nanmax(curve.middle, initial=0) > 0 for curve in curves):
            pictures.append(measure.picture.of(curves))
    paragraphs = []
    if len(runs) > 1:
        paragraphs.append("Of the first run of each cell; the pictures show means over its hosts.")
    tables = [_host_table(runs)]
    title = "CPU, memory and network"
    gpu_rows = list(_gpu_rows(runs))
    if gpu_rows:
        note = "Use and clock: from the first step on."
        tables.append(ReportTable("Use of the GPUs", GPU_HEAD, gpu_rows, note))
        title = "CPU, GPU, memory and network"
    return Section("usage", title, paragraphs, tables, pictures)


# The pictures -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class UsageMeasure:
    """What a picture shows of each host or GPU of a run."""

    picture: CurvePicture
    series_of: Callable[[RunFigures], UsageSeries]


def _frame(name: str, title: str, y_title: str, least_top: float = 0.0) -> CurvePicture:
    return CurvePicture(name, title, X_TITLE, y_title, least_top=least_top)


def _of_hosts(
    values_of: Callable[[HostUsage], Floats],
) -> Callable[[RunFigures], UsageSeries]:
    def read(run: RunFigures) -> UsageSeries:
        return [(host.name, host.usage.time, values_of(host.usage)) for host in run.hosts]

    return read


def _of_gpus(values_of: Callable[[GpuUsage], Floats]) -> Callable[[RunFigures], UsageSeries]:
    def read(run: RunFigures) -> UsageSeries:
        return [(name, gpu.time, values_of(gpu)) for name, gpu in _list_gpus(run)]

    return read


MEASURES = (
    UsageMeasure(
        _frame("cpu", "CPU over time", "CPU of a host in %", PERCENT_TOP),
        _of_hosts(lambda usage: usage.cpu),
    ),
    UsageMeasure(
        _frame("memory", "Memory over time", "memory of a host in MiB"),
        _of_hosts(lambda usage: usage.memory_used / MIB),
    ),
    UsageMeasure(
        _frame("network-over-time", "Network over time", "sent by a host in Mbit/s"),
        _of_hosts(lambda usage: usage.sent / MBIT),
    ),
    UsageMeasure(
        _frame("gpu", "GPU use over time", "use of a GPU in %", PERCENT_TOP),
        _of_gpus(lambda usage: usage.use),
    ),
    UsageMeasure(
        _frame("gpu-memory", "GPU memory over time", "memory in use on a GPU in MiB"),
        _of_gpus(lambda usage: usage.memory_used / MIB),
    ),
)


def _curves_of_parts(run: RunFigures, measure: UsageMeasure) -> Iterator[MeanCurve]:
    """Yield a curve per host or GPU of a run."""
    for name, times, values in measure.series_of(run)[:MOST_CURVES]:
        if len(times):
            yield single_curve(name, times, smooth(values))


def _curves_of_groups(
    runs: Sequence[tuple[str, RunFigures]], measure: UsageMeasure
) -> Iterator[MeanCurve]:
    """Yield a curve per group: the mean over the hosts or GPUs of its run."""
    for label, run in runs:
        series = [(times, values) for _, times, values in measure.series_of(run) if len(times)]
        if series:
            # Hosts send their samples at different times.
            grid = max((times for times, _ in series), key=len)
            columns = [np.interp(grid, times, values) for times, values in series]
            yield single_curve(label, grid, smooth(np.mean(columns, axis=0)))


# The tables ---------------------------------------------------------------------------------------


def _host_table(runs: Sequence[tuple[str, RunFigures]]) -> ReportTable:
    rows = [
        (host.name, label, *_format_host(host.usage)) for label, run in runs for host in run.hosts
    ]
    note = (
        "CPU: from the first step on. sent and received: network bytes in all, loopback aside. "
        f"Of {', '.join(run.name for _, run in runs)}."
    )
    return ReportTable("Use of the hosts", HOST_HEAD, rows, note)


def _format_host(usage: HostUsage) -> tuple[str, ...]:
    if not len(usage.time):
        return (UNKNOWN,) * (len(HOST_HEAD) - 2)
    return (
        *_format_percents(usage.cpu[usage.time >= 0]),
        size(float(usage.memory_used.max())),
        size(float(usage.memory_total.max())),
        size(float(usage.sent.sum())),
        size(float(usage.received.sum())),
    )


def _format_percents(values: Floats) -> tuple[str, str]:
    """Format the mean and the most of percentages."""
    known = values[np.isfinite(values)]
    if not known.size:
        return UNKNOWN, UNKNOWN
    return percent(float(known.mean()) / 100), percent(float(known.max()) / 100)


def _list_gpus(run: RunFigures) -> list[tuple[str, GpuUsage]]:
    return [(f"rank {rank.rank}", rank.gpu) for rank in run.ranks if len(rank.gpu.time)]


def _gpu_rows(runs: Sequence[tuple[str, RunFigures]]) -> Iterator[tuple[str, ...]]:
    for label, run in runs:
        for name, usage in _list_gpus(run):
            is_training = usage.time >= 0
            clock = usage.clock[is_training & (usage.clock > 0)]
            yield (
                name,
                label,
                *_format_percents(usage.use[is_training]),
                size(float(usage.memory_used.max())),
                size(float(usage.memory_total.max())),
                f"{clock.mean():.0f} MHz" if clock.size else UNKNOWN,
            )
