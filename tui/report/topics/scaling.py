"""Speed-up and efficiency against the baseline, and each group against its reference.

The pictures show seconds per iteration along the axis of a study that has quantities, such as nodes
or links, with a line per method. Along nodes, speed-up is shown beside the ideal line, too.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from remote.format import IN_DOUBT, UNKNOWN, percent
from remote.statistics.interval import FEWEST, Interval
from tui.report.document import ReportPicture, Section, make_table
from tui.report.formatting import (
    DOUBT_NOTE,
    format_bounds,
    format_finding,
    format_p,
    format_value,
    write_ratio,
)
from tui.report.picture_style import (
    INK,
    SeriesStyle,
    add_legend,
    empty_chart,
    mark_whole_numbers,
    shorten_label,
)
from tui.report.subject import LineAxis, ReportSubject
from tui.report.timing import GroupTiming, SubjectTiming

TITLE = "Speed-up and comparison"
HEAD = (
    "cell",
    "speed-up",
    "95% interval",
    "efficiency",
    "95% interval",
    "against",
    "ratio",
    "95% interval",
    "p",
    "finding",
)
PER_SAMPLE = "The global batches differ in size: what is compared is the time per sample."
ASSUMED_NOISE = (
    " A single run cannot show how much runs differ: 3% is assumed where no runs have equal "
    "settings."
)
LOGARITHMIC = 20
"""How many times the least value the greatest one is if the scale is logarithmic."""


def make_section(subject: ReportSubject, timing: SubjectTiming) -> Section | None:
    """Make the table and the pictures; None of a single group."""
    if len(timing.rows) < 2:
        return None
    baseline = timing.find(subject.baseline)
    paragraphs = []
    if baseline:
        paragraphs.append(f"Speed-up 1 is {baseline.group.label}.")
    if timing.is_per_sample:
        paragraphs.append(PER_SAMPLE)
    paragraphs += _describe_means(timing)
    rows = [_row(subject, row) for row in timing.rows]
    pictures = []
    if subject.study:
        pictures = scaling_pictures(timing.rows, baseline, subject.axis)
    table = make_table(TITLE, HEAD, rows, _note(subject, timing))
    return Section("scaling", TITLE, paragraphs, [table], pictures)


def _row(subject: ReportSubject, row: GroupTiming) -> tuple[str, ...]:
    reference = subject.reference_of(row.group)
    ratio = row.against.ratio if row.against else None
    return (
        row.group.label,
        format_value(row.speed_up, write_ratio, row.speed_up_doubt),
        format_bounds(row.speed_up, write_ratio),
        format_value(row.efficiency, percent, row.speed_up_doubt),
        format_bounds(row.efficiency, percent),
        reference.label if reference and row.against else UNKNOWN,
        format_value(ratio, write_ratio, row.doubt),
        format_bounds(ratio, write_ratio),
        format_p(row.against),
        IN_DOUBT if row.doubt else format_finding(row.against),
    )


def _describe_means(timing: SubjectTiming) -> list[str]:
    """Return how many times as fast each line is over its groups, unless one of them is in
    doubt."""
    if any(row.doubt for row in timing.rows):
        return []
    return [
        f"{label} is {format_value(mean, write_ratio)} times as fast as its reference "
        f"({format_bounds(mean, write_ratio)}): the geometric mean over its cells."
        for label, mean in timing.means.items()
        if math.isfinite(mean.low)
    ]


def _note(subject: ReportSubject, timing: SubjectTiming) -> str:
    note_text = "Ratio: time of the cell / time of what it is compared with."
    if timing.doubts:
        note_text += f" {DOUBT_NOTE}"
    comparisons = timing.comparisons
    if any(math.isfinite(comparison.p) for comparison in comparisons):
        note_text += " p: how often chance alone shows at least such a difference."
    if subject.study is None:
        return note_text + ASSUMED_NOISE
    if len(comparisons) > 1:
        note_text += (
            f" The {len(comparisons)} comparisons are one family: of studies without any "
            "difference, 5% report one."
        )
    if timing.noise >= 0:
        note_text += f" The noise from run to run is {timing.noise:.1%}."
    if comparisons and any(len(row.group.runs) < FEWEST for row in timing.rows):
        note_text += " Intervals here rest on the noise of all cells together."
    return note_text


# The pictures -------------------------------------------------------------------------------------

Lines = Mapping[str, Sequence[tuple[float, Interval]]]
"""By name, the points of a line: the position on the axis and a value."""


def scaling_pictures(
    rows: Sequence[GroupTiming], baseline: GroupTiming | None, axis: LineAxis
) -> list[ReportPicture]:
    """Return the pictures; none if no method ran at several positions of the axis."""
    # Along other axes than nodes, the baseline has no position.
    start_row = None if axis.marks else baseline
    time_lines = _make_lines(rows, start_row, lambda row: row.seconds)
    if not time_lines:
        return []
    axis_text = axis.name if axis.marks else "the number of nodes"
    chart = LineChart(time_lines, axis, "seconds per iteration")
    picture_title = f"Seconds per iteration by {axis_text}"
    pictures = [ReportPicture("scaling", picture_title, list(time_lines), chart.draw)]
    speed_ups = _make_lines(rows, start_row, _certain_speed_up)
    if speed_ups and not axis.marks:
        chart = LineChart(speed_ups, axis, "speed-up", has_ideal=True)
        picture_title = f"Speed-up by {axis_text}, beside the ideal"
        pictures.append(ReportPicture("speed-up", picture_title, list(speed_ups), chart.draw))
    return pictures


def _certain_speed_up(row: GroupTiming) -> Interval | None:
    return None if row.speed_up_doubt else row.speed_up


def _make_lines(
    rows: Sequence[GroupTiming],
    baseline: GroupTiming | None,
    value_of: Callable[[GroupTiming], Interval | None],
) -> Lines:
    """Return the lines that have several positions.

    The baseline begins the others, if it has fewer nodes and is not on a line itself.
    """
    lines: dict[str, dict[float, Interval]] = {}
    positions: dict[str, set[float]] = {}
    for row in rows:
        group = row.group
        positions.setdefault(group.line, set()).add(group.position)
        value = value_of(row)
        if value and math.isfinite(group.position):
            lines.setdefault(group.line, {})[group.position] = value
    baseline_value = value_of(baseline) if baseline else None
    if baseline and baseline_value and len(lines.get(baseline.group.line, ())) == 1:
        baseline_position = baseline.group.position
        for points in lines.values():
            if baseline_position < min(points):
                points[baseline_position] = baseline_value
    return {
        line: sorted(points.items()) for line, points in lines.items() if len(positions[line]) > 1
    }


@dataclass(frozen=True)
class LineChart:
    """A chart of lines with intervals."""

    lines: Lines
    axis: LineAxis
    y_title: str
    has_ideal: bool = False
    """With a line of as many times as there are nodes."""

    def draw(self) -> Figure:
        """Draw the lines."""
        labels = [shorten_label(line) for line in self.lines]
        series = [*labels, "ideal"] if self.has_ideal else labels
        figure, axes = empty_chart(self.axis.name, self.y_title, series=series)
        for index, points in enumerate(self.lines.values()):
            _draw_line(axes, SeriesStyle.of(index), labels[index], points)
        if self.has_ideal:
            most_nodes = max(position for points in self.lines.values() for position, _ in points)
            nodes = range(1, int(most_nodes) + 1)
            axes.errorbar(nodes, nodes, color=INK, linewidth=1, linestyle=":", label="ideal")
        line_values = [value.value for points in self.lines.values() for _, value in points]
        if max(line_values) > LOGARITHMIC * min(line_values):
            # On a linear scale the fast cells would all lie on the axis.
            axes.set_yscale("log")
        else:
            axes.set_ylim(bottom=0)
        if self.axis.marks:
            axes.set_xticks(range(len(self.axis.marks)), self.axis.marks)
        else:
            mark_whole_numbers(axes)
        if len(series) > 1:
            add_legend(figure, axes)
        return figure


def _draw_line(
    axes: Axes, style: SeriesStyle, label: str, points: Sequence[tuple[float, Interval]]
) -> None:
    values = [value for _, value in points]
    middles = [value.value for value in values]
    # A value without an interval has no bar.
    bars_below = np.nan_to_num([value.value - value.low for value in values], posinf=0)
    bars_above = np.nan_to_num([value.high - value.value for value in values], posinf=0)
    axes.errorbar(
        [position for position, _ in points],
        middles,
        [bars_below, bars_above],
        color=style.colour,
        marker=style.marker,
        linestyle=style.dashes,
        capsize=3,
        label=label,
    )
