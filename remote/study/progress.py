"""How far a study is, from its journal, and which run comes next. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from remote.study.folder import JournalEntry, RunBegun, RunEnded, TrialOutcome
from remote.study.study import Cell, Study, Trial, split_trial_key

MOST_REPEATS = 10
"""With --until-stable, a cell has at most this many times the planned repetitions."""

IntervalWidth = Callable[[Sequence[float]], float]
"""Returns the width of the interval of some values, as a share of their middle."""


class CellState(StrEnum):
    """The state of a cell, as its row shows it."""

    WAITING = "waiting"
    RUNNING = "running"
    FINISHED = "finished"
    FAILED = "failed"
    UNSTABLE = "unstable"


@dataclass
class CellProgress:
    """The runs of a cell."""

    cell: Cell
    counted: dict[int, RunEnded] = field(default_factory=dict)
    """One run for each repetition that has one."""
    failed: dict[int, RunEnded] = field(default_factory=dict)
    """Runs that failed in this call."""
    running: str = ""
    """The run under way; "" if there is none."""
    is_unstable: bool = False
    """True if its values differ too much, with --until-stable."""

    @property
    def counted_runs(self) -> list[RunEnded]:
        """Return the runs that count, in order of the repetitions."""
        return [self.counted[number] for number in sorted(self.counted)]

    @property
    def values(self) -> list[float]:
        """Return what was measured, in order of the repetitions."""
        return [end.value for end in self.counted_runs if end.value is not None]

    @property
    def cause(self) -> str:
        """Return why a run of the cell failed; "" if none did."""
        return next((end.cause for end in self.failed.values()), "")

    def state(self, repetitions: int) -> CellState:
        """Return the state of a cell that is to have so many runs."""
        if self.running:
            return CellState.RUNNING
        if self.failed:
            return CellState.FAILED
        if len(self.counted) < repetitions:
            return CellState.WAITING
        return CellState.UNSTABLE if self.is_unstable else CellState.FINISHED


@dataclass
class StudyProgress:
    """What has become of the runs of a study."""

    study: Study
    cells: dict[str, CellProgress] = field(init=False)
    open: dict[str, str] = field(default_factory=dict)
    """The runs that have begun and not ended, by trial: under way, or interrupted."""
    first_run: str = ""
    """The run that began first. It took longer, as it also started the hosts."""

    def __post_init__(self) -> None:
        self.cells = {cell.key: CellProgress(cell) for cell in self.study.cells}

    @classmethod
    def of(cls, study: Study, entries: Iterable[JournalEntry]) -> StudyProgress:
        """Return the progress by a journal. Runs that failed before are tried again."""
        progress = cls.recorded(study, entries)
        for cell_progress in progress.cells.values():
            # What failed may work now: the user has seen why, and has called again.
            cell_progress.failed.clear()
            cell_progress.running = ""
        return progress

    @classmethod
    def recorded(cls, study: Study, entries: Iterable[JournalEntry]) -> StudyProgress:
        """Return the progress as a journal has it, with the runs that failed and the one under
        way."""
        progress = cls(study)
        for entry in entries:
            progress.apply(entry)
        return progress

    def apply(self, entry: JournalEntry) -> None:
        """Take in an entry of the journal. One of a trial that is no longer planned is ignored."""
        key, repetition = split_trial_key(entry.trial)
        cell_progress = self.cells.get(key)
        # The file may have lost this cell since; its runs stay in the journal for its return.
        if not cell_progress or not repetition:
            return
        if isinstance(entry, RunBegun):
            self.first_run = self.first_run or entry.run
            cell_progress.running = entry.run
            self.open[entry.trial] = entry.run
            # The trial has another chance, so its cell has not failed.
            cell_progress.failed.pop(repetition, None)
            return
        cell_progress.running = ""
        self.open.pop(entry.trial, None)
        if entry.outcome is TrialOutcome.COUNTED:
            # Of two runs of a trial the first counts, so that results do not change.
            cell_progress.counted.setdefault(repetition, entry)
        elif entry.outcome is TrialOutcome.FAILED:
            cell_progress.failed[repetition] = entry

    def is_settled(self, trial: Trial) -> bool:
        """Return whether this call has nothing left to do for the trial."""
        cell_progress = self.cells[trial.cell.key]
        return trial.repetition in cell_progress.counted or trial.repetition in cell_progress.failed

    def missing_trials(self) -> list[Trial]:
        """Return the planned runs that this call has still to make, in order."""
        return [trial for trial in self.study.trials() if not self.is_settled(trial)]

    @property
    def num_settled(self) -> int:
        """Return for how many runs this call has nothing left to do."""
        return sum(len(cell.counted) + len(cell.failed) for cell in self.cells.values())

    @property
    def num_failed(self) -> int:
        """Return how many runs failed in this call."""
        return sum(len(cell.failed) for cell in self.cells.values())

    @property
    def running_cell(self) -> str:
        """Return the key of the cell whose run is under way; "" if there is none."""
        return next((key for key, cell in self.cells.items() if cell.running), "")

    def copy(self) -> StudyProgress:
        """Return the progress as it is now."""
        # Screens draw a copy, because the thread that makes the runs goes on writing.
        progress_copy = StudyProgress(self.study, open=dict(self.open), first_run=self.first_run)
        for key, cell in self.cells.items():
            progress_copy.cells[key] = replace(
                cell, counted=dict(cell.counted), failed=dict(cell.failed)
            )
        return progress_copy

    @property
    def counted_runs(self) -> list[RunEnded]:
        """Return the runs that count, by cell and repetition."""
        return [end for cell in self.cells.values() for end in cell.counted_runs]

    @property
    def seconds(self) -> float:
        """Return how long the runs took that count."""
        return sum(end.seconds for end in self.counted_runs)


# The next run -------------------------------------------------------------------------------------


def next_trial(progress: StudyProgress) -> Trial | None:
    """Return the first planned run that is missing, or None."""
    return next(iter(progress.missing_trials()), None)


def unstable_cells(
    progress: StudyProgress, widest_interval: float, width: IntervalWidth
) -> set[str]:
    """Return the keys of the cells whose interval is wider than this share of its middle."""
    unstable_keys = set()
    for key, cell_progress in progress.cells.items():
        values = cell_progress.values
        if len(values) < 2 or width(values) > widest_interval:
            unstable_keys.add(key)
    return unstable_keys


def repeat_trial(progress: StudyProgress, unstable_keys: Collection[str]) -> Trial | None:
    """Return one more run of an unstable cell, or None if none of them may have more."""
    study = progress.study
    newest_repetition = max(
        (max(cell.counted, default=0) for cell in progress.cells.values()), default=0
    )
    last_repetition = min(newest_repetition + 1, MOST_REPEATS * study.repetitions)
    for repetition in range(study.repetitions + 1, last_repetition + 1):
        # In blocks here, too: a cell alone would be repeated at another time than its reference.
        for trial in study.block(repetition):
            key = trial.cell.key
            has_failed = bool(progress.cells[key].failed)
            if key in unstable_keys and not has_failed and not progress.is_settled(trial):
                return trial
    return None
