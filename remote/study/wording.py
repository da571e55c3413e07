"""The words for cells, values and changes in sentences on a study. Pure."""

from __future__ import annotations

import math

from remote.format import percent, seconds
from remote.statistics.interval import Interval
from remote.study.results import CellResult
from remote.study.study import Cell, Study


def cell_name(study: Study, cell: Cell) -> str:
    """Return a cell in a sentence: its value of the compared axis, if no other cell has that."""
    label = cell.label(study.compare)
    same_label_cells = [
        other_cell for other_cell in study.cells if other_cell.label(study.compare) == label
    ]
    return label if len(same_label_cells) == 1 else cell.key


def label_name(axis: str, label: str) -> str:
    """Return a label as it stands alone: a bare number has its axis, as in "nodes 4"."""
    return f"{axis} {label}" if label[:1].isdecimal() else label


def other_values(study: Study, row: CellResult) -> str:
    """Return the cell's values of the axes along which it is not compared."""
    pairs = [f"{axis}={label}" for axis, label in row.cell.labels if axis != study.compare]
    return " ".join(pairs)


def change_text(study: Study, value: float) -> str:
    """Return a change of the study's metric, with its sign."""
    return f"{value:+.1%}" if study.metric == "accuracy" else f"{value:+.3g}"


def change_range(study: Study, interval: Interval) -> str:
    """Return the bounds of a change of the study's metric."""
    return f"{change_text(study, interval.low)} to {change_text(study, interval.high)}"


def value_text(value: float, study: Study) -> str:
    """Return a value of the study's metric."""
    if study.compares_times:
        return f"{seconds(value)} s"
    match study.metric:
        case "accuracy":
            return percent(value, 1)
        case "loss":
            return f"{value:.4f}"
    return f"{value:.4g}"


def ratio_text(ratio: Interval) -> str:
    """Return a ratio of times, and its bounds if they are known."""
    bounds = f" ({ratio.low:.3g} to {ratio.high:.3g})" if is_bounded(ratio) else ""
    return f"{ratio.value:.3g} times{bounds}"


def is_bounded(ratio: Interval) -> bool:
    """Return whether the bounds of a ratio are known."""
    return math.isfinite(ratio.low) and math.isfinite(ratio.high)
