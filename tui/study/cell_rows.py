"""The rows of the table of a study: its cells, which is best, times and values.

Pure.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from remote.format import UNKNOWN, duration, number
from remote.sanitise import plain
from remote.statistics.mean import finite_mean
from remote.study.length import count_steps
from remote.study.progress import CellState
from remote.study.results import CellResult, StudyResult
from remote.study.study import Study
from tui.kit import palette
from tui.kit.widgets.phase import phase_cell
from tui.kit.widgets.table import TableCell, TableColumn, TableRow
from tui.study.cell_table import (
    CellGroup,
    StudyTable,
    format_value,
    make_cell_table,
    metric_header,
)

SIGN = 2
"""Columns that the sign of a state takes."""
NARROW = 7
"""Columns that a label keeps at least."""
SPACE = 2
"""Columns between two of the table."""
DURATION_WIDTH = 9
"""Columns of the time that runs took."""
AXIS_WIDTHS = range(12, 49)
"""Columns of the axis on which the values of runs stand."""
AXIS_GAP = 1
"""Columns before that axis, besides the one between all columns."""


def best_word(study: Study) -> str:
    """Return what the best value is called."""
    if study.compares_times:
        return "fastest"
    return "highest" if study.is_higher_better else "lowest"


def fold_same_cells(result: StudyResult) -> list[CellGroup]:
    """Return the cells in groups, one for each row: with a cell that others are compared with stand
    those that have the same values in every run. Equal times are chance, so of those none does."""
    study = result.study
    members: dict[str, list[CellResult]] = {}
    for row in result.cells:
        counterpart = study.counterpart(row.cell)
        is_alike = row.is_same and not study.compares_times
        is_folded = is_alike and counterpart and row.state is CellState.FINISHED
        key = counterpart.key if is_folded and counterpart else row.cell.key
        members.setdefault(key, []).append(row)
    # The cell that others are compared with need not come first.
    for key, rows_of_group in members.items():
        rows_of_group.sort(key=lambda row: row.cell.key != key)
    order = [row.cell.key for row in result.cells]
    return [tuple(members[key]) for key in sorted(members, key=order.index)]


def find_best_cells(result: StudyResult, groups: Sequence[CellGroup] = ()) -> set[str]:
    """Return the key of the cell whose value is the best, as it is shown; none while runs are
    missing, or if several are alike. Of `groups` of cells the first cells count."""
    study = result.study
    first_cells = [group[0] for group in groups] or result.cells
    values = {row.cell.key: row.value.value for row in first_cells if row.value}
    states = {row.state for row in result.cells}
    if len(values) < 2 or CellState.WAITING in states or CellState.RUNNING in states:
        return set()
    is_highest_best = study.is_higher_better and not study.compares_times
    best_value = max(values.values()) if is_highest_best else min(values.values())
    # What looks the same must not be told apart.
    best_text = format_value(best_value, study.metric)
    best_keys = {key for key in values if format_value(values[key], study.metric) == best_text}
    return best_keys if len(best_keys) == 1 else set()


def lay_out_cells(result: StudyResult, groups: Sequence[CellGroup], room: int) -> StudyTable:
    """Return the table with a row for each group of cells, and a word beside the best value."""
    best_marks = {key: best_word(result.study) for key in find_best_cells(result, groups)}
    widest_mark = max((len(mark) + 1 for mark in best_marks.values()), default=0)
    table = make_cell_table(result, room - widest_mark, groups)
    return _mark_values(table, groups, best_marks)


def _mark_values(
    table: StudyTable, groups: Sequence[CellGroup], marks: Mapping[str, str]
) -> StudyTable:
    value_column = table.labels + 2
    marked_rows = []
    for texts, group in zip(table.rows, groups, strict=True):
        marked = list(texts)
        key = group[0].cell.key
        if key in marks:
            marked[value_column] += f" {marks[key]}"
        marked_rows.append(tuple(marked))
    return replace(table, rows=tuple(marked_rows))


def columns(table: StudyTable) -> list[TableColumn]:
    """Return the columns of the table of cells; labels give way if there is little room."""
    table_columns = []
    for index, (title, *texts) in enumerate(zip(table.head, *table.rows, strict=True)):
        width = max(map(len, (title, *texts))) + SPACE
        if index < table.labels:
            column = TableColumn(title, min(width, NARROW + SPACE), right=False, most=width)
        else:
            sign_width = SIGN if index == table.labels else 0
            column = TableColumn(title, width + sign_width, right=False)
        table_columns.append(column)
    return table_columns


def rows(table: StudyTable) -> list[TableRow]:
    """Return the rows of the table of cells, each state as a sign and a word."""
    table_rows = []
    for texts, state in zip(table.rows, table.states, strict=True):
        row = [TableCell(plain(text)) for text in texts]
        # The state is the first column behind the labels.
        row[table.labels] = phase_cell(state.value)
        table_rows.append(tuple(row))
    return table_rows


# Times and values of runs ------------------------------------------------------------------------


class FactColumns(NamedTuple):
    """Further columns of the table of cells, as many as fit."""

    columns: list[TableColumn]
    rows: list[TableRow]
    """The texts of each cell in them."""


def make_fact_columns(result: StudyResult, groups: Sequence[CellGroup], room: int) -> FactColumns:
    """Return the columns that fit: how long runs took, how many steps they made if that differs,
    and where their values lie on an axis that all cells share."""
    table = list[tuple[TableColumn, list[TableCell]]]()
    if room >= DURATION_WIDTH:
        durations = [_took_cell(group, result.first_run) for group in groups]
        table.append((TableColumn("duration", DURATION_WIDTH), durations))
        room -= DURATION_WIDTH
    step_counts = [count_steps(group[0].cell) for group in groups]
    step_texts = [f"{steps:,}" if steps else UNKNOWN for steps in step_counts]
    steps_width = max(map(len, ("steps", *step_texts))) + SPACE
    if room >= steps_width and len(set(step_counts)) > 1:
        table.append((TableColumn("steps", steps_width), [TableCell(text) for text in step_texts]))
        room -= steps_width
    axis_column = _make_axis_column(result.study, groups, room - AXIS_GAP - 1)
    if axis_column:
        table.append(axis_column)
    rows = [
        tuple(column_cells[number] for _, column_cells in table) for number in range(len(groups))
    ]
    return FactColumns([column for column, _ in table], rows)


def _make_axis_column(
    study: Study, groups: Sequence[CellGroup], room: int
) -> tuple[TableColumn, list[TableCell]] | None:
    """Return where the values of the runs of each row lie; None without differences, or without the
    room to say what stands there."""
    values_by_row = [_values(group) for group in groups]
    values = [value for row_values in values_by_row for value in row_values]
    ends = [format_value(end(values), study.metric) for end in (min, max) if values]
    width = min(AXIS_WIDTHS[-1], room)
    # Values that differ by less than is shown would look far apart.
    if len(set(ends)) < 2 or width not in AXIS_WIDTHS:
        return None
    low, high = min(values), max(values)
    rounded_ends = [number(low), number(high)]
    if study.metric != "accuracy" and len(set(rounded_ends)) > 1:
        ends = rounded_ends
    title = _axis_title(ends, study, width)
    if not title:
        return None
    indent = " " * AXIS_GAP
    column = TableColumn(f"{indent}{title}", AXIS_GAP + width + 1, right=False)
    drawings = [draw_values(row_values, low, high, width) for row_values in values_by_row]
    cells = [TableCell(indent + drawing) for drawing in drawings]
    return column, cells


def _axis_title(ends: Sequence[str], study: Study, width: int) -> str:
    """Return what an axis shows and its ends, in as many words as fit: "each run, 2.24 to 2.31".
    Without room for the shortest, return "": two numbers over dots would be a riddle."""
    subjects = (metric_header(study), study.metric)
    names = [f"{subject} of each run" for subject in subjects]
    names += [f"{subject} of runs" for subject in subjects]
    for name in (*names, "each run"):
        title = f"{name}, {' to '.join(ends)}"
        if len(title) <= width:
            return title
    return ""


def _values(group: CellGroup) -> list[float]:
    values = [run.value for cell in group for run in cell.runs]
    return [value for value in values if value is not None and math.isfinite(value)]


def _took_cell(group: CellGroup, first_run: str) -> TableCell:
    """Return the mean time of the runs that count. The first run of the study also started the
    hosts, so it does not, unless it is the only one."""
    runs = [run for cell in group for run in cell.runs if run.seconds]
    later_runs = [run for run in runs if run.run != first_run]
    return TableCell(duration(finite_mean([run.seconds for run in later_runs or runs])))


def draw_values(values: Sequence[float], low: float, high: float, width: int) -> str:
    """Draw values on an axis from `low` to `high`, joined from the least to the largest."""
    if not values:
        return ""
    places = [round((value - low) / (high - low) * (width - 1)) for value in values]
    cells = [" "] * width
    for place in range(min(places), max(places) + 1):
        cells[place] = palette.sign("rest")
    for place in places:
        cells[place] = palette.sign("curve")
    return "".join(cells)
