"""The table that the assignment asks for: task | s/iter | loss | accuracy | speed-up."""

from __future__ import annotations

import math

from remote.format import UNKNOWN, count, seconds
from remote.statistics.mean import finite_mean
from tui.report.document import Section, make_table
from tui.report.formatting import DOUBT_NOTE, format_value, write_ratio
from tui.report.local_paths import shorten_paths
from tui.report.subject import ReportSubject, RunGroup
from tui.report.timing import SubjectTiming, describe_rule
from tui.report.topics.final_values import ACCURACY, TEST_LOSS, TRAINING_LOSS, FinalValue

PER_SAMPLE = " speed-up: of the time per sample, because the global batches differ in size."


def make_section(subject: ReportSubject, timing: SubjectTiming) -> Section:
    """Make the table, with the loss of the test, or of the training if nothing was tested."""
    final_values = [TRAINING_LOSS]
    # The loss of the training says less than that of the test, and stands for it only without one.
    if any(run.evaluations for run in subject.runs):
        final_values = [TEST_LOSS, ACCURACY]
    table_head = ("task", "s/iter", *(value.name for value in final_values), "speed-up", "runs")
    rows = [_row(group, timing, final_values) for group in subject.groups]
    rule = describe_rule(subject)
    note = f"s/iter: {rule}. Loss and accuracy: means over runs, at the end."
    if timing.is_per_sample and any(row.speed_up for row in timing.rows):
        note += PER_SAMPLE
    if any(row.speed_up_doubt for row in timing.rows):
        note += f" {DOUBT_NOTE}"
    table = make_table("Results", table_head, rows, note)
    return Section("results", "Results", _legend(subject), [table])


def _row(group: RunGroup, timing: SubjectTiming, final_values: list[FinalValue]) -> tuple[str, ...]:
    group_timing = timing.find(group)
    final_texts = []
    for value in final_values:
        values = [value.of(run) for run in group.runs if value.is_known(run)]
        final_texts.append(value.write(finite_mean(values)) if values else UNKNOWN)
    runs_text = f"{len(group.runs):,}"
    if group.failures:
        runs_text += f", {len(group.failures)} failed"
    return (
        group.label,
        seconds(group_timing.seconds.value if group_timing else math.nan),
        *final_texts,
        format_value(group_timing.speed_up, write_ratio, group_timing.speed_up_doubt)
        if group_timing
        else UNKNOWN,
        runs_text,
    )


def _legend(subject: ReportSubject) -> list[str]:
    """Return which run is which, if groups are no cells of a study."""
    if subject.study:
        return []
    legend_lines = []
    for group in subject.groups:
        for run in group.runs:
            ranks = count(run.world_size, "rank")
            nodes = count(run.nodes, "node")
            work = shorten_paths(run.description)
            legend_lines.append(f"{group.label}: {run.name}, {work}, {ranks} on {nodes}")
    return legend_lines
