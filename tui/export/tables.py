"""The series of a run as tables, for all formats that have such."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from remote.metrics.run import RunFigures
from remote.metrics.settings import settings
from remote.metrics.steps import COLUMNS, SERIES, StepTable
from remote.metrics.usage import GpuUsage, HostUsage, RankUsage
from remote.record.summary import to_strict_json

Column = list[Any] | NDArray[Any]
ExportTable = dict[str, Column]
"""Columns of one length, by name."""
METRIC_COLUMNS = ("rank", "step", "time", "name", "value")
EVALUATION_COLUMNS = ("time", "epoch", "step", "loss", "accuracy", "samples", "seconds")
EPOCH_COLUMNS = ("rank", "epoch", "step", "loss", "accuracy", "samples", "seconds")
CHECKPOINT_COLUMNS = ("rank", "epoch", "step", "seconds", "size")


def make_small_tables(run: RunFigures) -> dict[str, ExportTable]:
    """Return the tables of a run by name, but for those of its steps; those without rows are left
    out.

    `metrics` has a row per value that a script reported. `host_usage`, `rank_usage` and `gpu_usage`
    have a row per host or rank and second.
    """
    epochs = [epoch for rank in run.ranks for epoch in rank.epochs]
    checkpoints = [saved for rank in run.ranks for saved in rank.checkpoints]
    tables = {
        "metrics": _to_columns(run.metrics, METRIC_COLUMNS),
        "evaluations": _to_columns(run.evaluations, EVALUATION_COLUMNS),
        "epochs": _to_columns(epochs, EPOCH_COLUMNS),
        "checkpoints": _to_columns(checkpoints, CHECKPOINT_COLUMNS),
        "host_usage": _join_usage("host", [(host.name, host.usage) for host in run.hosts]),
        "rank_usage": _join_usage("rank", [(rank.rank, rank.usage) for rank in run.ranks]),
        "gpu_usage": _join_usage("rank", [(rank.rank, rank.gpu) for rank in run.ranks]),
    }
    return {name: table for name, table in tables.items() if count_rows(table)}


def list_steps(steps: StepTable) -> ExportTable:
    """Return a row per rank and step."""
    return {name: getattr(steps, name) for name in COLUMNS}


def average_ranks(steps: StepTable) -> ExportTable:
    """Return a row per step, with the mean over ranks of each series."""
    step_numbers, means = steps.means_over_ranks(["time", *SERIES, "accuracy"])
    for name in SERIES:
        if _is_narrow(steps.column(name)):
            means[name] = _narrow(means[name]).astype(np.float64)
    return {"step": step_numbers, **means, "time": np.round(means["time"], 6)}


def _is_narrow(column: NDArray[np.float64]) -> bool:
    """Return True if the values are floats of 32 bits, as agents send: so is their mean then."""
    return bool(((_narrow(column) == column) | np.isnan(column)).all())


def _narrow(column: NDArray[np.float64]) -> NDArray[np.float32]:
    with np.errstate(over="ignore"):
        return column.astype(np.float32)


STEP_TABLES: dict[str, Callable[[StepTable], ExportTable]] = {
    "steps": list_steps,
    "mean": average_ranks,
}
"""What makes the tables of the steps, by their names."""


def count_rows(table: ExportTable) -> int:
    """Return the number of rows of a table."""
    return len(next(iter(table.values())))


def summarise(run: RunFigures) -> dict[str, Any]:
    """Return the name, the settings and the summary of a run, JSON-ready."""
    values = {"run": run.name, "settings": settings(run), "summary": run.summary}
    summary: dict[str, Any] = to_strict_json(values)
    return summary


def _to_columns(rows: Iterable[Any], names: Sequence[str]) -> ExportTable:
    return {name: [getattr(row, name) for row in rows] for name in names}


def _join_usage(
    owner: str, usages: Sequence[tuple[str | int, HostUsage | RankUsage | GpuUsage]]
) -> ExportTable:
    """Return the usage of hosts, or of ranks or their GPUs, one after the other."""
    owners = [name for name, usage in usages for _ in usage.time]
    columns: ExportTable = {owner: owners}
    series = [vars(usage) for _, usage in usages]
    for name in series[0] if series else ():
        columns[name] = np.concatenate([values[name] for values in series])
    return columns
