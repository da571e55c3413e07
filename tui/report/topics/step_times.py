"""Seconds per iteration: groups with their intervals, and how steady they are."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure

from remote.format import UNKNOWN, number, percent, seconds
from remote.statistics.interval import FEWEST
from tui.report.document import ReportPicture, Section, make_table
from tui.report.formatting import format_bounds
from tui.report.picture_style import INK, SeriesStyle, empty_chart, name_rows
from tui.report.subject import ReportSubject
from tui.report.timing import GroupTiming, SubjectTiming, describe_rule

HEAD = (
    "cell",
    "nodes",
    "ranks",
    "batch",
    "s/iter",
    "95% interval",
    "ms/sample",
    "runs",
    "variation",
    "stable?",
    "p50 s",
    "p99 s",
    "max s",
)
WIDEST = 1.6
"""How far beyond the slowest run the picture goes: a wider interval is cut."""


def make_section(subject: ReportSubject, timing: SubjectTiming) -> Section | None:
    """Make the table and, of several groups, the picture."""
    if not timing.rows:
        return None
    rows = [_row(row, timing) for row in timing.rows]
    table = make_table("Seconds per iteration", HEAD, rows, _note(subject, timing))
    paragraphs = [
        f"{row.group.label} is unstable: {'; '.join(row.stability.warnings)}."
        for row in timing.rows
        if row.stability.warnings
    ]
    pictures = [_picture(timing.rows)] if len(timing.rows) > 1 else []
    return Section("times", "Time per iteration", paragraphs, [table], pictures)


def _row(row: GroupTiming, timing: SubjectTiming) -> tuple[str, ...]:
    group = row.group
    ms_per_sample = math.nan
    if timing.is_per_sample and group.batch:
        ms_per_sample = 1e3 * row.seconds.value / group.batch
    return (
        group.label,
        *(
            str(group_size) if group_size else UNKNOWN
            for group_size in (group.nodes, group.ranks, group.batch)
        ),
        seconds(row.seconds.value),
        format_bounds(row.seconds, seconds),
        number(ms_per_sample),
        str(len(group.runs)),
        percent(row.stability.variation, 1),
        _format_stability(row),
        *(seconds(percentile) for percentile in row.percentiles()),
    )


def _format_stability(row: GroupTiming) -> str:
    if not row.stability.is_stable:
        return "no"
    return "yes" if row.stability.runs >= FEWEST else "not known"


def _note(subject: ReportSubject, timing: SubjectTiming) -> str:
    note_text = (
        f"s/iter: {describe_rule(subject)}. p50, p99 and max are of single iterations of ranks: "
        "half of them, 99% and all take at most that long. "
    )
    if subject.study is None:
        note_text += "The interval is that of the iterations of one run; runs may differ by more."
        return note_text
    if any(row.stability.variation >= 0 for row in timing.rows):
        note_text += (
            "The interval and the variation are over runs, each of which is one number. variation: "
            "their standard deviation as a share of the mean; stable? is no from 10% on. A cell "
            f"has an interval of its own from {FEWEST} runs on."
        )
    return note_text


# The picture --------------------------------------------------------------------------------------


def _picture(rows: Sequence[GroupTiming]) -> ReportPicture:
    labels = [row.group.label for row in rows]
    title = "Seconds per iteration, with single runs"
    return ReportPicture("seconds", title, labels, lambda: _draw(rows))


def _draw(rows: Sequence[GroupTiming]) -> Figure:
    figure, axes = empty_chart("seconds per iteration", height=1.1 + 0.34 * len(rows))
    line_names = list(dict.fromkeys(row.group.line for row in rows))
    for row_position, row in enumerate(rows):
        style = SeriesStyle.of(line_names.index(row.group.line))
        value = row.seconds
        run_seconds = [run.step_seconds() for run in row.group.runs]
        if math.isfinite(value.low):
            axes.plot(
                [value.low, value.high],
                [row_position, row_position],
                color=style.colour,
                linewidth=3,
            )
        # Single runs lie below the mean, so that none is hidden by it.
        axes.plot(
            run_seconds, [row_position + 0.22] * len(run_seconds), "|", color=INK, markersize=6
        )
        axes.plot(value.value, row_position, style.marker, color=style.colour, markeredgecolor=INK)
    name_rows(axes, [row.group.label for row in rows])
    axes.set_xlim(0, _axis_end(rows))
    return figure


def _axis_end(rows: Sequence[GroupTiming]) -> float:
    """Return where the axis ends: an interval of few runs may be so wide that nothing else would
    be seen."""
    slowest_run = max(run.step_seconds() for row in rows for run in row.group.runs)
    interval_ends = [min(row.seconds.high, WIDEST * slowest_run) for row in rows]
    return 1.05 * float(np.nanmax([slowest_run, *interval_ends]))
