"""CPU, GPU, memory and network over time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from remote.format import UNKNOWN, percent, size
from remote.metrics.points import Points
from remote.metrics.run import RunFigures
from remote.metrics.steps import Floats
from remote.metrics.usage import GpuUsage, HostUsage
from tui.report.curves import CurvePicture, MeanCurve, average_curve
from tui.report.document import ReportPicture, Section, make_table
from tui.report.subject import MOST_GROUPS, ReportSubject, RunGroup
from tui.report.timing import SubjectTiming

X_TITLE = "seconds since the first step"
MIB = 2**20
MBIT = 1e6 / 8
PERCENT_TOP = 105.0
HOST_HEAD = ("host", "cell", "CPU, mean", "CPU, most", "memory, most", "of", "sent", "received")
GPU_HEAD = ("GPU of", "cell", "use, mean", "use, most", "memory, most", "of", "clock, mean")
NOTE = (
    "CPU and memory: from the first step on. Sent and received: network bytes of the whole run, "
    "loopback aside."
)
NO_SAMPLE = " A host without values has no sample: there is one a second."
SHORT_TRAINING = 2.0
"""Seconds of training in which there may be no sample, as there is one a second."""
LabelledRuns = Sequence[tuple[str, RunFigures]]
"""A run of each group that was measured, with the label of the group."""


@dataclass(frozen=True)
class UsageMeasure:
    """What a picture shows of each host or GPU of a run."""

    name: str
    title: str
    y_title: str
    column: str
    unit: float = 1.0
    top: float = 0.0
    is_of_gpus: bool = False

    def picture(self, curves: Sequence[MeanCurve]) -> ReportPicture:
        """Return the picture of these curves."""
        frame = CurvePicture(self.name, self.title, X_TITLE, self.y_title, least_top=self.top)
        return frame.of(curves)

    def points_of(self, run: RunFigures) -> Iterator[tuple[str, Points]]:
        """Yield the name and the points of each host or GPU that was measured."""
        named_usages = _list_gpus(run) if self.is_of_gpus else _list_hosts(run)
        for name, usage in named_usages:
            if len(usage.time):
                yield name, (usage.time, getattr(usage, self.column) / self.unit)


MEASURES = (
    UsageMeasure("cpu", "CPU over time", "CPU of a host in %", "cpu", top=PERCENT_TOP),
    UsageMeasure("memory", "Memory over time", "memory of a host in MiB", "memory_used", MIB),
    UsageMeasure(
        "network-over-time", "Network over time", "sent by a host in Mbit/s", "sent", MBIT
    ),
    UsageMeasure(
        "gpu", "GPU use over time", "use of a GPU in %", "use", top=PERCENT_TOP, is_of_gpus=True
    ),
    UsageMeasure(
        "gpu-memory",
        "GPU memory over time",
        "memory in use on a GPU in MiB",
        "memory_used",
        MIB,
        is_of_gpus=True,
    ),
)


def make_section(subject: ReportSubject, timing: SubjectTiming) -> Section | None:
    """Make the pictures, of the hosts of one run or of one run of each group, and the tables."""
    labelled_runs: list[tuple[str, RunFigures]] = []
    groups = subject.select_groups()
    unmeasured_groups = []
    for group in groups:
        run = _find_measured_run(group)
        if run:
            labelled_runs.append((group.label, run))
        else:
            unmeasured_groups.append(group)
    if not labelled_runs:
        return None
    pictures = []
    for measure in MEASURES:
        curves = list(_make_curves(labelled_runs, measure, is_of_hosts=len(groups) == 1))
        # A picture of nothing but zeros says nothing.
        # numpy refuses the maximum of nothing, unless there is an initial one.
        if any(np.nanmax(curve.middle, initial=0) > 0 for curve in curves):
            pictures.append(measure.picture(curves))
    paragraphs = []
    if len(groups) > 1:
        paragraphs.append("Of one run of each cell; the pictures show means over its hosts.")
    paragraphs += _describe_unmeasured(unmeasured_groups)
    host_rows = [row for label, run in labelled_runs for row in _host_rows(label, run)]
    note = NOTE
    if any(not len(usage.time) for _, run in labelled_runs for _, usage in _list_hosts(run)):
        note += NO_SAMPLE
    tables = [make_table("Use of the hosts", HOST_HEAD, host_rows, note)]
    gpu_rows = [row for label, run in labelled_runs for row in _gpu_rows(label, run)]
    if gpu_rows:
        tables.append(make_table("Use of the GPUs", GPU_HEAD, gpu_rows))
    return Section("usage", "Use of the hosts", paragraphs, tables, pictures)


def _find_measured_run(group: RunGroup) -> RunFigures | None:
    """Return the first run that has samples of its training, or else of its start; None if there is
    none. A short run may have no sample."""
    runs_with_samples = [run for run in group.runs if len(_sample_times(run))]
    for run in runs_with_samples:
        # Times count from the first step.
        if (_sample_times(run) >= 0).any():
            return run
    return runs_with_samples[0] if runs_with_samples else None


def _sample_times(run: RunFigures) -> Floats:
    return np.concatenate([usage.time for _, usage in _list_hosts(run)])


def _describe_unmeasured(groups: Sequence[RunGroup]) -> Iterator[str]:
    """Yield which groups have no values here, and why."""
    short_labels = list[str]()
    other_labels = list[str]()
    for group in groups:
        is_short = all(run.summary["training_seconds"] < SHORT_TRAINING for run in group.runs)
        (short_labels if is_short else other_labels).append(group.label)
    if short_labels:
        yield (
            f"Without values: {'; '.join(short_labels)}. There is one sample a second, and the "
            "training was over before."
        )
    if other_labels:
        yield f"Without values: {'; '.join(other_labels)}. Their hosts have sent no samples."


def _make_curves(
    runs: LabelledRuns, measure: UsageMeasure, *, is_of_hosts: bool
) -> Iterator[MeanCurve]:
    """Yield a curve per host or GPU of a single run if they are `is_of_hosts`, or the mean over
    these for each group."""
    # Curves of all hosts of several runs could not be told apart.
    if is_of_hosts:
        named_points = list(measure.points_of(runs[0][1]))[:MOST_GROUPS]
        curves = [average_curve(name, [points]) for name, points in named_points]
    else:
        curves = []
        for label, run in runs:
            curves.append(average_curve(label, [points for _, points in measure.points_of(run)]))
    yield from filter(None, curves)


def _list_hosts(run: RunFigures) -> list[tuple[str, HostUsage]]:
    return [(host.name, host.usage) for host in run.hosts]


def _list_gpus(run: RunFigures) -> list[tuple[str, GpuUsage]]:
    return [(f"rank {rank.rank}", rank.gpu) for rank in run.ranks if len(rank.gpu.time)]


# The tables ---------------------------------------------------------------------------------------


def _host_rows(label: str, run: RunFigures) -> Iterator[tuple[str, ...]]:
    for name, usage in _list_hosts(run):
        if not len(usage.time):
            yield (name, label, *[UNKNOWN] * (len(HOST_HEAD) - 2))
            continue
        yield (
            name,
            label,
            # Times count from the first step. Below 0, ranks were still starting.
            *_format_percents(usage.cpu[usage.time >= 0]),
            size(float(usage.memory_used.max())),
            size(float(usage.memory_total.max())),
            size(float(usage.sent.sum())),
            size(float(usage.received.sum())),
        )


def _gpu_rows(label: str, run: RunFigures) -> Iterator[tuple[str, ...]]:
    for name, usage in _list_gpus(run):
        is_training = usage.time >= 0
        # A clock of 0 was not measured.
        known_clocks = usage.clock[is_training & (usage.clock > 0)]
        yield (
            name,
            label,
            *_format_percents(usage.use[is_training]),
            size(float(usage.memory_used.max())),
            size(float(usage.memory_total.max())),
            f"{known_clocks.mean():.0f} MHz" if known_clocks.size else UNKNOWN,
        )


def _format_percents(values: Floats) -> tuple[str, str]:
    """Format the mean and the most of percentages."""
    known_values = values[np.isfinite(values)]
    if not known_values.size:
        return UNKNOWN, UNKNOWN
    mean_share = float(known_values.mean()) / 100
    highest_share = float(known_values.max()) / 100
    return percent(mean_share), percent(highest_share)
