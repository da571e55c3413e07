"""The table of the reference: task | s/iter | loss | accuracy | speed-up."""

from __future__ import annotations

import math

import numpy as np

from remote.format import count as counted
from remote.format import seconds
from tui.report import text
from tui.report.document import Section, Table
from tui.report.numbers.equality import MEASURES, Measure
from tui.report.numbers.timing import Timing, rule
from tui.report.subject import Group, Subject


def section(subject: Subject, timing: Timing) -> Section:
    """The table, with the loss of the test, or where there was none, of the training."""
    loss, test_loss, accuracy = MEASURES
    has_test = any(run.evaluations for run in subject.runs)
    measures = (test_loss, accuracy) if has_test else (loss,)
    table = Table(
        "Results",
        ("task", "s/iter", *(one.name for one in measures), "speed-up", "runs"),
        [_row(group, timing, measures) for group in subject.groups],
        f"s/iter: {rule(subject)}. Loss and accuracy: means over runs, at the end."
        f"{_speed_ups(timing)}{_doubtful(timing)}",
    )
    return Section("results", "Results", tables=[table], says=_legend(subject))


def _speed_ups(timing: Timing) -> str:
    if not timing.per_sample or not any(row.speed_up for row in timing.rows):
        return ""
    return " speed-up: of the time per sample, because the global batches differ in size."


def _doubtful(timing: Timing) -> str:
    return f" {text.DOUBTFUL}" if any(row.speed_up_doubt for row in timing.rows) else ""


def _row(group: Group, timing: Timing, measures: tuple[Measure, ...]) -> tuple[str, ...]:
    timed = timing.of(group)
    runs = counted(len(group.runs), "run").split()[0]
    failed = f", {len(group.failures)} failed" if group.failures else ""
    return (
        group.label,
        seconds(timed.seconds.value if timed else math.nan),
        *(text.final(mean(group, one), one.is_share) for one in measures),
        text.times(
            timed.speed_up if timed else None,
            is_doubtful=bool(timed and timed.speed_up_doubt),
        ),
        f"{runs}{failed}",
    )


def mean(group: Group, measure: Measure) -> float:
    """The mean of a final value over the runs that have it; NaN without any."""
    values = np.array([measure.of(run) for run in group.all])
    values = values[np.isfinite(values)]
    return float(values.mean()) if values.size else math.nan


def _legend(subject: Subject) -> list[str]:
    """Which run is which, where groups are no cells of a study."""
    if subject.is_study:
        return []
    found = []
    for group in subject.groups:
        for run in group.all:
            nodes = counted(run.nodes, "node")
            ranks = counted(run.world_size, "rank")
            found.append(f"{group.label}: {run.name}, {run.what}, {ranks} on {nodes}")
    return found
