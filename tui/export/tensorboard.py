"""Event files of TensorBoard: the run itself is the mean over ranks, and below it lie its ranks and
hosts. All runs use the same tags, so that they are overlaid in one figure per tag.

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
from tensorboardX.proto.summary_pb2 import Summary
from tensorboardX.summary import text
from tensorboardX.writer import FileWriter

from remote.metrics.run import RunFigures
from remote.metrics.settings import settings
from remote.metrics.steps import Floats, Ints, StepTable

STEPS = {
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
TESTS = {"loss/test": "loss", "accuracy/test": "accuracy", "seconds/test": "seconds"}
RANKS = {"process/CPU percent": "cpu", "process/memory bytes": "memory"}
GPUS = {
    "GPU/use percent": "use",
    "GPU/memory bytes": "memory_used",
    "GPU/clock MHz": "clock",
}
HOSTS = {
    "host/CPU percent": "cpu",
    "host/memory bytes": "memory_used",
    "host/bytes sent": "sent",
    "host/bytes received": "received",
}
QUEUE = 1000
"""Events that wait to be written, so that few writes are made."""


def write(run: RunFigures, target: Path) -> None:
    """Write the folder. Raises: OSError."""
    with _events(target) as into:
        into.add_summary(text("settings", _settings(run)), 0, run.started)
        steps, times = run.steps.mean_over_ranks("time")
        means = {tag: run.steps.mean_over_ranks(name)[1] for tag, name in STEPS.items()}
        _add(into, run, steps, times, means)
        _add(into, run, *_tests(run))
    for rank in run.ranks:
        with _events(target / f"rank-{rank.rank}") as into:
            _add(into, run, *_steps(run.steps.by_rank(rank.rank)))
            for name, told in _metrics(run, rank.rank).items():
                steps, times, values = (np.array(column) for column in zip(*told, strict=True))
                _add(into, run, steps.astype(np.int64), times, {f"metric/{name}": values})
            _add_usage(into, run, rank.usage.time, _columns(rank.usage, RANKS))
            _add_usage(into, run, rank.gpu.time, _columns(rank.gpu, GPUS))
    for host in run.hosts:
        with _events(target / f"host-{host.name.replace('/', '_')}") as into:
            _add_usage(into, run, host.usage.time, _columns(host.usage, HOSTS))


def _metrics(run: RunFigures, rank: int) -> dict[str, list[tuple[int, float, float]]]:
    """Step, time and value of what a rank of a user's own program told, by name."""
    found: dict[str, list[tuple[int, float, float]]] = {}
    for one in run.metrics:
        if one.rank == rank:
            found.setdefault(one.name, []).append((one.step, one.time, one.value))
    return found


Columns = Mapping[str, Floats]
"""Values by tag, of equal lengths."""


@contextmanager
def _events(folder: Path) -> Iterator[FileWriter]:
    """A new event file in a folder."""
    into = FileWriter(folder, QUEUE)
    try:
        yield into
    finally:
        into.close()


def _add(into: FileWriter, run: RunFigures, steps: Ints, times: Floats, values: Columns) -> None:
    """Add all tags of a step as one event, at the time that it had."""
    rows = zip(*(column.tolist() for column in values.values()), strict=True)
    for step, time, row in zip(steps.tolist(), times.tolist(), rows, strict=True):
        tagged = zip(values, row, strict=True)
        summary = Summary(
            value=[Summary.Value(tag=tag, simple_value=value) for tag, value in tagged]
        )
        into.add_summary(summary, step, run.zero + time)


def _add_usage(into: FileWriter, run: RunFigures, times: Floats, values: Columns) -> None:
    seconds = np.rint(times + run.zero - run.started).astype(np.int64)
    _add(into, run, seconds, times, values)


def _columns(of: object, names: Mapping[str, str]) -> Columns:
    return {tag: getattr(of, name) for tag, name in names.items()}


def _steps(steps: StepTable) -> tuple[Ints, Floats, Columns]:
    return steps.step, steps.time, {tag: steps.column(name) for tag, name in STEPS.items()}


def _tests(run: RunFigures) -> tuple[Ints, Floats, Columns]:
    found = run.evaluations
    values = {
        tag: np.array([getattr(one, name) for one in found], dtype=np.float64)
        for tag, name in TESTS.items()
    }
    steps = np.array([one.step for one in found], dtype=np.int64)
    return steps, np.array([one.time for one in found], dtype=np.float64), values


def _settings(run: RunFigures) -> str:
    """The settings as a table in Markdown, as TensorBoard shows texts."""
    rows = (f"| {name} | {value.replace('|', '/')} |" for name, value in settings(run).items())
    return "\n".join(("| setting | value |", "| --- | --- |", *rows))
