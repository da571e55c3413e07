"""Chooses the next run of a study. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from remote.study.progress import CellProgress, Progress
from remote.study.study import Trial

MOST = 10
"""With --until-stable, a cell has at most this many times the planned repetitions."""

Width = Callable[[Sequence[float]], float]
"""The width of the interval of these values, as a share of their middle."""


def next_trial(progress: Progress, stable: float = 0.0, width: Width | None = None) -> Trial | None:
    """The next run: of the planned ones the first that is not settled, then, with `stable`, another
    one of each cell of which the interval is wider than this share. None if nothing is left."""
    study = progress.study
    for trial in study.trials():
        if not progress.is_settled(trial):
            return trial
    if not stable or not width:
        return None
    for cell in progress.cells.values():
        cell.is_unstable = is_unstable(cell, stable, width)
    number = 1 + max((max(cell.counted, default=0) for cell in progress.cells.values()), default=0)
    for repetition in range(study.repetitions + 1, min(number, MOST * study.repetitions) + 1):
        for trial in study.block(repetition):
            cell = progress.cells[trial.cell.key]
            if cell.is_unstable and not cell.failed and not progress.is_settled(trial):
                return trial
    return None


def is_unstable(cell: CellProgress, stable: float, width: Width) -> bool:
    """Whether the interval of the cell is wider than this share."""
    return len(cell.values) < 2 or width(cell.values) > stable
