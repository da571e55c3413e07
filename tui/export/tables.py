"""The series of a run as tables, for all formats that have such."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from remote.metrics.run import RunFigures
from remote.metrics.settings import settings
from remote.metrics.steps import COLUMNS, SERIES
from remote.metrics.usage import GpuUsage, HostUsage, RankUsage
from remote.record.summary import to_strict_json

ExportTable = dict[str, list[Any]]
"""Columns of one length, by name."""
METRIC_COLUMNS = ("rank", "step", "time", "name", "value")
EVALUATION_COLUMNS = ("time", "epoch", "step", "loss", "accuracy", "samples", "seconds")
EPOCH_COLUMNS = ("rank", "epoch", "step", "loss", "accuracy", "samples", "seconds")
CHECKPOINT_COLUMNS = ("rank", "epoch", "step", "seconds", "size")


def make_tables(run: RunFigures) -> dict[str, ExportTable]:
    """Return the tables of a run by name; those without rows are left out.

    `steps` has a row per rank and step, `mean` a row per step with the mean over ranks. `metrics`
    has a row per value that a script reported. `host_usage`, `rank_usage` and `gpu_usage` have a
    row per host or rank and second.
    """
    epochs = [epoch for rank in run.ranks for epoch in rank.epochs]
    checkpoints = [saved for rank in run.ranks for saved in rank.checkpoints]
    tables = {
        "steps": {name: getattr(run.steps, name).tolist() for name in COLUMNS},
        "mean": _average_ranks(run),
        "metrics": _to_columns(run.metrics, METRIC_COLUMNS),
        "evaluations": _to_columns(run.evaluations, EVALUATION_COLUMNS),
        "epochs": _to_columns(epochs, EPOCH_COLUMNS),
        "checkpoints": _to_columns(checkpoints, CHECKPOINT_COLUMNS),
        "host_usage": _join_usage("host", [(host.name, host.usage) for host in run.hosts]),
        "rank_usage": _join_usage("rank", [(rank.rank, rank.usage) for rank in run.ranks]),
        "gpu_usage": _join_usage("rank", [(rank.rank, rank.gpu) for rank in run.ranks]),
    }
    return {name: table for name, table in tables.items() if any(table.values())}


def summarise(run: RunFigures) -> dict[str, Any]:
    """Return the name, the settings and the summary of a run, JSON-ready."""
    values = {"run": run.name, "settings": settings(run), "summary": run.summary}
    summary: dict[str, Any] = to_strict_json(values)
    return summary


def write_folder(
    run: RunFigures, target: Path, suffix: str, write_table: Callable[[ExportTable, Path], object]
) -> None:
    """Write a folder with a file per table, and settings and summary. Raises: OSError."""
    target.mkdir()
    for name, table in make_tables(run).items():
        write_table(table, target / f"{name}{suffix}")
    text = json.dumps(summarise(run), indent=2)
    (target / "run.json").write_text(f"{text}\n", encoding="utf-8")


def _average_ranks(run: RunFigures) -> ExportTable:
    """Return the mean over ranks of each series, by step."""
    steps, times = run.steps.mean_over_ranks("time")
    columns = {"step": steps.tolist(), "time": times.tolist()}
    for name in (*SERIES, "accuracy"):
        columns[name] = run.steps.mean_over_ranks(name)[1].tolist()
    return columns


def _to_columns(rows: Iterable[Any], names: Sequence[str]) -> ExportTable:
    return {name: [getattr(row, name) for row in rows] for name in names}


def _join_usage(
    owner: str, usages: Sequence[tuple[str | int, HostUsage | RankUsage | GpuUsage]]
) -> ExportTable:
    """Return the usage of hosts, or of ranks or their GPUs, one after the other."""
    columns: ExportTable = {owner: []}
    for name, usage in usages:
        columns[owner] += [name] * len(usage.time)
    series = [vars(usage) for _, usage in usages]
    for name in series[0] if series else ():
        columns[name] = np.concatenate([values[name] for values in series]).tolist()
    return columns
