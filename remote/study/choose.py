"""Chooses the next run of a study. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from remote.study.progress import StudyProgress
from remote.study.study import Trial

MOST = 10
"""With --until-stable, a cell has at most this many times the planned repetitions."""

Width = Callable[[Sequence[float]], float]
"""The width of the interval of these values, as a share of their middle."""


def next_trial(progress: StudyProgress) -> Trial | None:
    """The first of the planned runs that is not settled; None if all are."""
    trials = progress.study.trials()
    return next((trial for trial in trials if not progress.is_settled(trial)), None)


def unstable(progress: StudyProgress, stable: float, width: Width) -> set[str]:
    """The cells of which the interval is wider than this share."""
    return {
        key
        for key, cell in progress.cells.items()
        if len(cell.values) < 2 or width(cell.values) > stable
    }


def another(progress: StudyProgress, unstable: Collection[str]) -> Trial | None:
    """One more run of one of these cells; None if none of them may have more."""
    study = progress.study
    number = 1 + max((max(cell.counted, default=0) for cell in progress.cells.values()), default=0)
    for repetition in range(study.repetitions + 1, min(number, MOST * study.repetitions) + 1):
        for trial in study.block(repetition):
            cell = progress.cells[trial.cell.key]
            if trial.cell.key in unstable and not cell.failed and not progress.is_settled(trial):
                return trial
    return None
