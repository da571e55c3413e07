"""The table that the assignment asks for of each method: node | batch duration | epoch duration."""

from __future__ import annotations

import math

from remote.format import UNKNOWN, fixed, seconds
from remote.statistics.mean import finite_mean
from tui.report.document import Section, make_table
from tui.report.subject import ReportSubject, RunGroup
from tui.report.timing import SubjectTiming, describe_iterations

HEAD = ("node", "average batch duration, s", "epoch duration, s")


def make_section(subject: ReportSubject, timing: SubjectTiming) -> Section | None:
    """Make a table per group that has steps."""
    tables = []
    for group in subject.measured:
        rows = _rows(group)
        if rows and len(group.runs[0].steps):
            tables.append(make_table(group.label, HEAD, rows))
    if not tables:
        return None
    means_text = f"Means over runs. Average batch duration: {describe_iterations(subject)}."
    if any(row[-1] != UNKNOWN for table in tables for row in table.rows):
        means_text += " Epoch duration: only of whole epochs."
    return Section("nodes", "Nodes", [means_text], tables)


def _rows(group: RunGroup) -> list[tuple[str, ...]]:
    """Return a row per rank of the group's runs that have as many ranks as the first."""
    first_run = group.runs[0]
    # A restart may have left out ranks of some runs.
    equal_runs = [run for run in group.runs if run.world_size == first_run.world_size]
    early_steps = [run.steps.early() for run in equal_runs]
    rows: list[tuple[str, ...]] = []
    for rank in first_run.ranks:
        batch_seconds = finite_mean(
            steps.by_rank(rank.rank).mean("seconds") for steps in early_steps
        )
        epoch_seconds = finite_mean(
            finite_mean(run.ranks[rank.rank].epoch_seconds) for run in equal_runs
        )
        # A server that only holds the parameters makes no steps.
        if math.isfinite(batch_seconds):
            rank_name = f"{rank.rank} ({first_run.hosts[rank.host].name})"
            rows.append((rank_name, seconds(batch_seconds), fixed(epoch_seconds, 2)))
    return rows
