"""The series of a run as tables, for all formats that have such."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from remote.metrics.run import RunFigures
from remote.metrics.settings import settings
from remote.metrics.steps import COLUMNS, SERIES
from remote.metrics.usage import GpuUsage, HostUsage, RankUsage
from remote.record.summary import finite

Table = dict[str, list[Any]]
"""Columns of one length, by name."""


def tables(run: RunFigures) -> dict[str, Table]:
    """The tables of a run by name; those without rows are left out.

    `steps` has a row per rank and step, `mean` a row per step with the mean over ranks.
    `metrics` has a row per value that a user's own program told. `host_usage`, `rank_usage` and
    `gpu_usage` have a row per host or rank and second.
    """
    found = {
        "steps": {name: getattr(run.steps, name).tolist() for name in COLUMNS},
        "mean": _mean(run),
        "metrics": _rows(run.metrics, ("rank", "step", "time", "name", "value")),
        "evaluations": _rows(
            run.evaluations, ("time", "epoch", "step", "loss", "accuracy", "samples", "seconds")
        ),
        "epochs": _of_ranks(run, "epochs", ("step", "loss", "accuracy", "samples", "seconds")),
        "checkpoints": _of_ranks(run, "checkpoints", ("step", "seconds", "size")),
        "host_usage": _usage("host", [(host.name, host.usage) for host in run.hosts]),
        "rank_usage": _usage("rank", [(rank.rank, rank.usage) for rank in run.ranks]),
        "gpu_usage": _usage("rank", [(rank.rank, rank.gpu) for rank in run.ranks]),
    }
    return {name: table for name, table in found.items() if len(next(iter(table.values()), ()))}


def about(run: RunFigures) -> dict[str, Any]:
    """What else there is to say of a run, JSON-ready: its name, settings and summary."""
    whole: dict[str, Any] = finite(
        {"run": run.name, "settings": settings(run), "summary": run.summary}
    )
    return whole


def _mean(run: RunFigures) -> Table:
    """The mean over ranks of each series, by step."""
    columns: Table = {"step": run.steps.mean_over_ranks("time")[0].tolist()}
    for name in ("time", *SERIES, "accuracy"):
        columns[name] = run.steps.mean_over_ranks(name)[1].tolist()
    return columns


def _rows(rows: Sequence[Any], names: Sequence[str]) -> Table:
    return {name: [getattr(row, name) for row in rows] for name in names}


def _of_ranks(run: RunFigures, what: str, names: Sequence[str]) -> Table:
    """Events of all ranks, one after the other."""
    return _rows(
        [event for rank in run.ranks for event in getattr(rank, what)], ("rank", "epoch", *names)
    )


def _usage(
    whose: str, found: Sequence[tuple[str | int, HostUsage | RankUsage | GpuUsage]]
) -> Table:
    """The usage of hosts, or of ranks or their GPUs, one after the other."""
    columns: Table = {whose: [name for name, usage in found for _ in usage.time]}
    parts = [vars(usage) for _, usage in found]
    for name in parts[0] if parts else ():
        columns[name] = np.concatenate([part[name] for part in parts]).tolist()
    return columns
