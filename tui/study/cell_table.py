"""The table of the cells of a study as text, for lines, live tables and the dashboard. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from remote.format import IN_DOUBT, UNKNOWN, count, fixed, listed, percent, seconds
from remote.statistics.comparison import Finding
from remote.statistics.interval import Interval, IntervalMethod, ValueScale, hide_few
from remote.study.progress import CellState
from remote.study.results import CellResult, StudyResult, value_scale
from remote.study.study import METRIC_PREFIX, Study
from remote.study.wording import shown_labels
from tui.kit.text_table import GAP, column_widths

CellGroup = tuple[CellResult, ...]
"""Cells that one row stands for, as they have the same values. The first one speaks for all."""
MOST_JOINED = 3
"""Labels that stand in one row by their names."""
VALUES = {
    "step_seconds": "s/iter",
    "elapsed": "training s",
    "loss": "test loss",
    "accuracy": "accuracy",
}
"""What a study of jobs compares."""


def metric_header(study: Study) -> str:
    """Return what a study compares, as the head of a column."""
    # A script's loss is that of the training, while a job is tested at its end.
    if study.is_of_script and study.metric == "loss":
        return "loss"
    return VALUES.get(study.metric, study.measured)


@dataclass(frozen=True)
class StudyTable:
    """A row of texts per cell, with the state of each."""

    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    states: tuple[CellState, ...]
    labels: int
    """The number of the first columns, which are those of the axes."""

    @property
    def width(self) -> int:
        """Return the columns of the terminal that the table takes."""
        widths = column_widths([self.head, *self.rows])
        return sum(widths) + len(GAP) * (len(widths) - 1)


def make_cell_table(
    result: StudyResult, room: float = math.inf, groups: Sequence[CellGroup] = ()
) -> StudyTable:
    """Return the table of cells in `room` columns: a row for each of the groups, by default for
    each cell.

    If it is too narrow, first intervals go, then speed-ups.
    """
    groups = groups or [(row,) for row in result.cells]
    # The verdict stays in any room: it is the answer.
    for shows_intervals, shows_speed_ups in ((True, True), (False, True), (False, False)):
        table = _make_table(
            result.study, groups, intervals=shows_intervals, speed_ups=shows_speed_ups
        )
        if table.width <= room:
            break
    return table


def _make_table(
    study: Study, groups: Sequence[CellGroup], *, intervals: bool, speed_ups: bool
) -> StudyTable:
    axis_names = [axis.name for axis in study.axes] or ["cell"]
    is_any_alone = any(len(group) == 1 for group in groups)
    # Of rows that stand for all that is compared, the head says that they are the same.
    if not is_any_alone:
        axis_names[axis_names.index(study.compare)] += " (same)"
    shows_verdicts = bool(study.compare) and len(study.cells) > 1 and is_any_alone
    shows_speed_ups = speed_ups and bool(study.baseline) and value_scale(study) is ValueScale.RATIO
    verdict_header = f"against {study.reference}" if intervals else "verdict"
    head = (*axis_names, "state", "runs", metric_header(study))
    head += (("speed-up",) if shows_speed_ups else ()) + (
        (verdict_header,) if shows_verdicts else ()
    )
    rows = []
    for group in groups:
        row = group[0]
        num_runs = sum(len(cell.runs) for cell in group)
        runs_text = f"{num_runs}/{study.repetitions * len(group)}"
        texts = [*list_labels(study, group), row.state.value, runs_text]
        texts.append(format_interval(row.value, study))
        if shows_speed_ups:
            texts.append(
                IN_DOUBT if row.speed_up_doubt else format_speed_up(row.speed_up, bounds=intervals)
            )
        if shows_verdicts:
            is_alone = len(group) == 1
            texts.append(verdict(study, row, intervals=intervals) if is_alone else "the same")
        rows.append(tuple(texts))
    states = tuple(group[0].state for group in groups)
    return StudyTable(head, tuple(rows), states, len(axis_names))


def list_labels(study: Study, group: CellGroup) -> list[str]:
    """Return the labels of the cells of a row, one for each axis: "all_reduce, ring"."""
    labels = []
    for axis, label in shown_labels(study, group[0].cell):
        is_joined = axis == study.compare and len(group) > 1
        labels.append(join_compared(study, group) if is_joined else label)
    return labels or ["all"]


def join_compared(study: Study, group: CellGroup) -> str:
    """Return the labels of the compared axis that a row stands for: "all_reduce, ring"."""
    labels = [row.cell.label(study.compare) for row in group]
    if len(labels) > MOST_JOINED:
        return f"{labels[0]} and {count(len(labels) - 1, 'other')}"
    return ", ".join(labels)


def describe_same(study: Study, group: CellGroup) -> str:
    """Return the labels that a row stands for, within a text: "all_reduce and ring (same)"."""
    labels = [row.cell.label(study.compare) for row in group]
    return f"{listed(labels, MOST_JOINED)} (same)"


def format_value(number: float | None, metric: str) -> str:
    """Return the value of one run: "0.512", "91.4%"."""
    if number is None:
        return UNKNOWN
    match metric:
        case "accuracy":
            return percent(number, 1)
        case "loss":
            return fixed(number, 4)
    return f"{number:.4g}" if metric.startswith(METRIC_PREFIX) else seconds(number)


def format_interval(interval: Interval | None, study: Study) -> str:
    """Return the value of a cell with its interval: "0.512 ±2.1%", "91.4% ±0.3%"."""
    if interval is None:
        return UNKNOWN
    interval = hide_few(interval)
    half_width = (interval.high - interval.low) / 2
    if not math.isfinite(half_width):
        return format_value(interval.value, study.metric)
    if value_scale(study) is ValueScale.RATIO:
        return f"{format_value(interval.value, study.metric)} {_format_reach(interval)}"
    return f"{format_value(interval.value, study.metric)} ±{format_value(half_width, study.metric)}"


def format_speed_up(interval: Interval | None, *, bounds: bool = True) -> str:
    """Return how many times faster than the baseline a cell is: "2.23 ±4.0%"."""
    if interval is None:
        return UNKNOWN
    is_measured = interval.method not in (IntervalMethod.EXACT, IntervalMethod.NONE)
    reach_text = f" {_format_reach(interval)}" if bounds and is_measured else ""
    return f"{interval.value:.2f}{reach_text}"


def _format_reach(interval: Interval) -> str:
    """Return half the width of an interval, as a share of its value."""
    return f"±{interval.percent:.1f}%" if interval.percent < 100 else "±>100%"


def verdict(study: Study, row: CellResult, *, intervals: bool = True) -> str:
    """Return what a comparison with the reference shows: "1.52x faster (1.40 to 1.70)"."""
    if row.comparison is None:
        is_reference = row.cell.label(study.compare) == study.reference
        return "reference" if is_reference else UNKNOWN
    if row.doubt:
        return IN_DOUBT
    if row.is_same:
        return "the same"
    ratio = row.comparison.ratio
    finding = row.comparison.finding
    # Without bounds there was one run: the interval of two is wide, but finite.
    if not math.isfinite(ratio.high - ratio.low):
        return "values are identical" if row.repeats_itself else "one run only"
    if finding is Finding.NOT_SHOWN:
        return finding.value if intervals else "no difference"
    if study.compares_times:
        # The ratio is one of times: of a run that is faster, it is below 1.
        factor = ratio.inverse() if finding is Finding.FASTER else ratio
        text = f"{factor.value:.2f}x {finding.value}"
        bounds = [f"{factor.low:.2f}", f"{factor.high:.2f}"]
    else:
        text = f"{finding.value} by {format_value(abs(ratio.value), study.metric)}"
        # Without their signs, the bounds of a fall change places.
        bound_sizes = sorted((abs(ratio.low), abs(ratio.high)))
        bounds = [format_value(extent, study.metric) for extent in bound_sizes]
    return f"{text} ({' to '.join(bounds)})" if intervals else text
