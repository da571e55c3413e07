"""The words for cells, values and changes in sentences on a study. Pure."""

from __future__ import annotations

import math

from remote.format import percent, seconds
from remote.statistics.interval import Interval
from remote.study.results import CellResult
from remote.study.study import Cell, Labels, Study, StudyAxis, cell_key
from remote.study.tables import format_label, with_underscores

BATCH_SIZE = "batch_size"
"""The setting of a job that says how many samples a step has."""


def cell_name(study: Study, cell: Cell) -> str:
    """Return a cell in a sentence: its value of the compared axis, if no other cell has that.

    Where cells differ in their batch, a cell that takes no part in that has its own behind it.
    """
    label = cell.label(study.compare)
    same_label_cells = [
        other_cell for other_cell in study.cells if other_cell.label(study.compare) == label
    ]
    if len(same_label_cells) > 1:
        return shown_key(study, cell)
    batch_text = _describe_hidden_batch(study, cell)
    return f"{label} ({batch_text})" if batch_text else label


def shown_key(study: Study, cell: Cell) -> str:
    """Return the values of a cell on all axes: "method=ring nodes=4"."""
    return cell_key(shown_labels(study, cell))


def shown_labels(study: Study, cell: Cell) -> Labels:
    """Return the labels of a cell as they are shown.

    A [[cell]] has its label on each axis that it does not mention. This says on one of them what
    the cell is, and of the others the values that it has are shown.
    """
    labels = []
    for axis in study.axes:
        label = cell.label(axis.name)
        is_own_label = label not in axis.labels and label == cell.label(study.compare)
        if axis.name != study.compare and is_own_label:
            label = _describe_setting(cell, axis) or label
        labels.append((axis.name, label))
    return tuple(labels)


def _describe_setting(cell: Cell, axis: StudyAxis) -> str:
    """Return the value that a cell has of what an axis varies; "" if that has no single name."""
    setting = axis.name.replace("-", "_")
    for settings in (vars(cell.place), vars(cell.job) if cell.job else {}):
        if setting in settings:
            return format_label(settings[setting])
    if cell.job and _varies_batch(axis):
        return f"batch {cell.job.batch_size}"
    return ""


def _varies_batch(axis: StudyAxis) -> bool:
    return any(BATCH_SIZE in with_underscores(value.settings) for value in axis.values)


def _describe_hidden_batch(study: Study, cell: Cell) -> str:
    """Return the batch of a cell where cells differ in it and none of its own labels says so."""
    batches = {other_cell.job.batch_size for other_cell in study.cells if other_cell.job}
    batch_axes = [axis for axis in study.axes if _varies_batch(axis)]
    takes_part = any(cell.label(axis.name) in axis.labels for axis in batch_axes)
    if cell.job is None or len(batches) < 2 or takes_part:
        return ""
    return f"batch {cell.job.batch_size}"


def label_name(axis: str, label: str) -> str:
    """Return a label as it stands alone: a bare number has its axis, as in "nodes 4"."""
    return f"{axis} {label}" if label[:1].isdecimal() else label


def other_values(study: Study, row: CellResult) -> str:
    """Return the cell's values of the axes along which it is not compared."""
    labels = shown_labels(study, row.cell)
    pairs = [f"{axis}={label}" for axis, label in labels if axis != study.compare]
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
