"""The table of the reference for each method: node | average batch duration | epoch duration."""

from __future__ import annotations

import math

import numpy as np

from remote.format import UNKNOWN, fixed, seconds
from remote.metrics.run import RunFigures
from tui.report.document import Section, Table
from tui.report.numbers.timing import Timing, iterations
from tui.report.subject import Group, Subject

HEAD = ("node", "average batch duration, s", "epoch duration, s")


def section(subject: Subject, timing: Timing) -> Section | None:
    """A table per group."""
    tables = [
        Table(group.label, HEAD, rows)
        for group in subject.measured
        if (rows := _rows(group)) and len(group.all[0].steps)
    ]
    if not tables:
        return None
    says = f"Means over runs. Average batch duration: {iterations(subject)}."
    if any(row[-1] != UNKNOWN for table in tables for row in table.rows):
        says += " Epoch duration: only of whole epochs."
    return Section("nodes", "Nodes", [says], tables)


def _rows(group: Group) -> list[tuple[str, ...]]:
    """A row per rank of the group's runs that have as many ranks as the first."""
    first = group.all[0]
    runs = [run for run in group.all if run.world_size == first.world_size]
    batches = np.array([_batches(run) for run in runs])
    epochs = np.array([_epochs(run) for run in runs])
    return [
        (
            f"{rank.rank} ({first.hosts[rank.host].name})",
            seconds(_mean(batches[:, rank.rank])),
            fixed(_mean(epochs[:, rank.rank]), 2),
        )
        for rank in first.ranks
        if math.isfinite(_mean(batches[:, rank.rank]))
    ]


def _batches(run: RunFigures) -> list[float]:
    early = run.steps.early()
    return [early.by_rank(rank.rank).mean("seconds") for rank in run.ranks]


def _epochs(run: RunFigures) -> list[float]:
    return [_mean(np.array(rank.epoch_seconds)) for rank in run.ranks]


def _mean(values: np.ndarray) -> float:
    known = values[np.isfinite(values)]
    return float(known.mean()) if known.size else math.nan
