"""How sentences on a study name its cells and values. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence

from remote.format import percent, seconds
from remote.statistics.interval import Interval, ValueScale
from remote.study.results import CellResult, value_scale
from remote.study.study import Cell, Study

NAMED = 3
"""The most cells that a line names."""


def is_outcome(study: Study) -> bool:
    """Whether the study compares what training leads to, which may be equal."""
    return value_scale(study) is ValueScale.DIFFERENCE


def cell_name(study: Study, cell: Cell) -> str:
    """A cell in a sentence: its value of the compared axis, where no other cell has that."""
    label = cell.label(study.compare)
    alone = sum(other.label(study.compare) == label for other in study.cells) == 1
    return label if alone else cell.key


def other_values(study: Study, row: CellResult) -> str:
    """The cell's values of the other axes."""
    pairs = [f"{name}={label}" for name, label in row.cell.labels if name != study.compare]
    return " ".join(pairs)


def change_range(study: Study, interval: Interval) -> str:
    """The bounds of a change of the study's metric."""
    return f"{change_text(study, interval.low)} to {change_text(study, interval.high)}"


def change_text(study: Study, value: float) -> str:
    """A change of the study's metric, with its sign."""
    return f"{value:+.1%}" if study.metric == "accuracy" else f"{value:+.3g}"


def value_text(value: float, study: Study) -> str:
    """A value of the study's metric."""
    if study.metric == "accuracy":
        return percent(value, 1)
    if value_scale(study) is ValueScale.RATIO:
        return f"{seconds(value)} s"
    return f"{value:.4f}" if study.metric == "loss" else f"{value:.4g}"


def ratio_text(ratio: Interval) -> str:
    """A ratio of times, and its bounds where they are known."""
    bounds = f" ({ratio.low:.3g} to {ratio.high:.3g})" if is_bounded(ratio) else ""
    return f"{ratio.value:.3g} times{bounds}"


def is_bounded(ratio: Interval) -> bool:
    """Whether its bounds are known."""
    return math.isfinite(ratio.low) and math.isfinite(ratio.high)


def first_names(names: Sequence[str]) -> str:
    """The first of these names, and how many more there are."""
    if len(names) <= NAMED:
        return ", ".join(names)
    return f"{', '.join(names[:NAMED])} and {len(names) - NAMED} more"
