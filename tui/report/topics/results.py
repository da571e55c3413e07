"""The table that the assignment asks for: task | s/iter | loss | accuracy | speed-up."""

from __future__ import annotations

import math

from remote.format import UNKNOWN, count, seconds
from remote.statistics.mean import finite_mean
from tui.report.document import Section, make_table
from tui.report.formatting import DOUBT_NOTE, format_value, write_ratio
from tui.report.subject import ReportSubject, RunGroup
from tui.report.timing import SubjectTiming, describe_rule
from tui.report.topics.final_values import ACCURACY, TEST_LOSS, TRAINING_LOSS, FinalValue

PER_SAMPLE = " speed-up: of the time per sample, because the global batches differ in size."


def make_section(subject: ReportSubject, timing: SubjectTiming) -> Section:
    """Make the table, with the loss of the test, or of the training if nothing was tested."""
    values = [TRAINING_LOSS]
    if any(run.evaluations for run in subject.runs):
        values = [TEST_LOSS, ACCURACY]
    head = ("task", "s/iter", *(value.name for value in values), "speed-up", "runs")
    rows = [_row(group, timing, values) for group in subject.groups]
    rule = describe_rule(subject)
    note = f"s/iter: {rule}. Loss and accuracy: means over runs, at the end."
    if timing.is_per_sample and any(row.speed_up for row in timing.rows):
        note += PER_SAMPLE
    if any(row.speed_up_doubt for row in timing.rows):
        note += f" {DOUBT_NOTE}"
    table = make_table("Results", head, rows, note)
    return Section("results", "Results", _legend(subject), [table])


def _row(group: RunGroup, timing: SubjectTiming, values: list[FinalValue]) -> tuple[str, ...]:
    row = timing.find(group)
    finals = []
    for value in values:
        mean = finite_mean(value.of(run) for run in group.runs)
        finals.append(value.write(mean))
    runs = f"{len(group.runs):,}"
    if group.failures:
        runs += f", {len(group.failures)} failed"
    return (
        group.label,
        seconds(row.seconds.value if row else math.nan),
        *finals,
        format_value(row.speed_up, write_ratio, row.speed_up_doubt) if row else UNKNOWN,
        runs,
    )


def _legend(subject: ReportSubject) -> list[str]:
    """Return which run is which, if groups are no cells of a study."""
    if subject.study:
        return []
    lines = []
    for group in subject.groups:
        for run in group.runs:
            ranks = count(run.world_size, "rank")
            nodes = count(run.nodes, "node")
            lines.append(f"{group.label}: {run.name}, {run.description}, {ranks} on {nodes}")
    return lines
