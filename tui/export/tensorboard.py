"""Writes event files of TensorBoard: the run itself is the mean over ranks, and below it lie its
ranks and hosts. All runs use the same tags, so that they are overlaid in one figure per tag.

    RUN/            means over ranks, tests, settings
    RUN/rank-0/     what rank 0 measured, and what its process and GPU used
    RUN/host-NAME/  what the host used

The step of a figure of use is the second since the run began.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike
from tensorboardX.proto.summary_pb2 import Summary
from tensorboardX.summary import text
from tensorboardX.writer import FileWriter

from remote.metrics.run import RankFigures, RunFigures
from remote.metrics.settings import settings
from remote.metrics.usage import GpuUsage, HostUsage, RankUsage

STEP_TAGS = {
    "loss/train": "loss",
    "accuracy/train": "accuracy",
    "seconds/step": "seconds",
    "seconds/data": "data",
    "seconds/compute": "compute",
    "seconds/sync": "sync",
    "seconds/ready": "ready",
    "seconds/cpu": "cpu_seconds",
    "batch/samples": "samples",
    "batch/correct": "correct",
    "batch/bytes sent": "bytes_sent",
    "batch/staleness": "staleness",
}
"""The tag of each series of the steps."""
TEST_TAGS = {"loss/test": "loss", "accuracy/test": "accuracy", "seconds/test": "seconds"}
RANK_TAGS = {"process/CPU percent": "cpu", "process/memory bytes": "memory"}
GPU_TAGS = {
    "GPU/use percent": "use",
    "GPU/memory bytes": "memory_used",
    "GPU/clock MHz": "clock",
}
HOST_TAGS = {
    "host/CPU percent": "cpu",
    "host/memory bytes": "memory_used",
    "host/bytes sent": "sent",
    "host/bytes received": "received",
}
QUEUE = 1000
"""Events that wait to be written, so that few writes are made."""


def write(run: RunFigures, target: Path) -> None:
    """Write the folder. Raises: OSError."""
    with _open_writer(target) as writer:
        writer.add_summary(text("settings", _settings_table(run)), 0, run.started)
        steps, times = run.steps.mean_over_ranks("time")
        means = {tag: run.steps.mean_over_ranks(name)[1] for tag, name in STEP_TAGS.items()}
        _add(writer, run, steps, times, means)
        _add_tests(writer, run)
    for rank in run.ranks:
        with _open_writer(target / f"rank-{rank.rank}") as writer:
            _add_rank(writer, run, rank)
    for host in run.hosts:
        with _open_writer(target / f"host-{host.name.replace('/', '_')}") as writer:
            _add_usage(writer, run, host.usage, HOST_TAGS)


@contextmanager
def _open_writer(folder: Path) -> Iterator[FileWriter]:
    """Open a new event file in a folder."""
    writer = FileWriter(folder, QUEUE)
    try:
        yield writer
    finally:
        writer.close()


def _add_rank(writer: FileWriter, run: RunFigures, rank: RankFigures) -> None:
    steps = run.steps.by_rank(rank.rank)
    series = {tag: steps.column(name) for tag, name in STEP_TAGS.items()}
    _add(writer, run, steps.step, steps.time, series)
    _add_metrics(writer, run, rank.rank)
    _add_usage(writer, run, rank.usage, RANK_TAGS)
    _add_usage(writer, run, rank.gpu, GPU_TAGS)


def _add_metrics(writer: FileWriter, run: RunFigures, rank: int) -> None:
    """Add the metrics that a rank of a script reported."""
    points: dict[str, list[tuple[int, float, float]]] = {}
    for metric in run.metrics:
        if metric.rank == rank:
            points.setdefault(metric.name, []).append((metric.step, metric.time, metric.value))
    for name, rows in points.items():
        steps, times, values = zip(*rows, strict=True)
        _add(writer, run, steps, times, {f"metric/{name}": values})


def _add_usage(
    writer: FileWriter,
    run: RunFigures,
    usage: HostUsage | RankUsage | GpuUsage,
    tags: Mapping[str, str],
) -> None:
    seconds = np.rint(usage.time + run.zero - run.started).astype(np.int64)
    values = {tag: getattr(usage, name) for tag, name in tags.items()}
    _add(writer, run, seconds, usage.time, values)


def _add_tests(writer: FileWriter, run: RunFigures) -> None:
    tests = run.evaluations
    values = {tag: [getattr(test, name) for test in tests] for tag, name in TEST_TAGS.items()}
    steps = [test.step for test in tests]
    _add(writer, run, steps, [test.time for test in tests], values)


def _add(
    writer: FileWriter,
    run: RunFigures,
    steps: ArrayLike,
    times: ArrayLike,
    values: Mapping[str, ArrayLike],
) -> None:
    """Add all tags of a step as one event, at the time that it had. The arrays, with the values by
    tag, are of one length."""
    # Lists, because numbers of numpy are slow one by one.
    columns = [np.asarray(column).tolist() for column in (steps, times, *values.values())]
    for step, time, *row in zip(*columns, strict=True):
        tagged = zip(values, row, strict=True)
        summary = Summary(
            value=[Summary.Value(tag=tag, simple_value=value) for tag, value in tagged]
        )
        writer.add_summary(summary, step, run.zero + time)


def _settings_table(run: RunFigures) -> str:
    """Return the settings as a table in Markdown, as TensorBoard shows texts."""
    lines = ["| setting | value |", "| --- | --- |"]
    for name, value in settings(run).items():
        lines.append(f"| {name} | {value.replace('|', '/')} |")
    return "\n".join(lines)
