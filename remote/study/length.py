"""How long the runs of a study train, and how to make it again with longer ones."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace

from remote.format import count
from remote.plan.expected import steps_per_epoch
from remote.study.folder import StudyCall
from remote.study.start_study import parse_call
from remote.study.study import Cell, Study, StudyError
from remote.study.tables import override
from training.job import Job

LONGER = 10
"""How many times as long runs are to train whose study has no longer variant."""


@dataclass(frozen=True)
class TrainingLength:
    """How long a job trains: so many epochs, or steps."""

    setting: str
    """"epochs" or "steps"."""
    value: int

    @classmethod
    def of(cls, job: Job) -> TrainingLength:
        """Return how long a job trains."""
        return cls("steps", job.steps) if job.steps else cls("epochs", job.epochs or 1)

    def __str__(self) -> str:
        return count(self.value, self.setting.removesuffix("s"))


def find_length(study: Study) -> TrainingLength | None:
    """Return how long all runs of a study train; None if that differs, or is up to a script."""
    lengths = set()
    for cell in study.cells:
        if cell.job is None:
            return None
        lengths.add(TrainingLength.of(cell.job))
    return lengths.pop() if len(lengths) == 1 else None


def count_steps(cell: Cell) -> int:
    """Return the steps of a run of a cell; 0 if they are not known."""
    job = cell.job
    if job is None:
        return 0
    return job.total_steps(steps_per_epoch(job, len(job.trainers(cell.place.ranks))))


def suggest_longer(study: Study, call: StudyCall) -> TrainingLength | None:
    """Return how long the runs of a study that say little should train: of a quick one, as long as
    those of the whole study. Return None where no command line can change it."""
    length = find_length(study)
    if length is None:
        return None
    longer_length = replace(length, value=length.value * LONGER)
    if call.quick:
        other_given = {key: call.given[key] for key in call.given.keys() - {"epochs", "steps"}}
        whole_length = _parse_length(replace(call, given=other_given, quick=False))
        is_same_unit = whole_length is not None and whole_length.setting == length.setting
        if whole_length and is_same_unit and whole_length.value > length.value:
            longer_length = whole_length
    # The study may vary its length, or its cells set it.
    is_possible = _parse_length(lengthen(call, longer_length)) == longer_length
    return longer_length if is_possible else None


def _parse_length(call: StudyCall) -> TrainingLength | None:
    """Return how long the runs of a study train that is called so; None if it has mistakes."""
    with suppress(StudyError):
        return find_length(parse_call("", call))
    return None


def lengthen(call: StudyCall, length: TrainingLength) -> StudyCall:
    """Return the call of a study with runs of another length."""
    return replace(call, given=override(call.given, {length.setting: length.value}))
