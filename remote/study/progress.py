"""How far a study is, from its journal. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from enum import StrEnum

from remote.study.folder import JournalEntry, RunBegun, RunEnded, TrialOutcome
from remote.study.study import Cell, Study, Trial, split_trial_key


class CellState(StrEnum):
    """The state of a cell, as its row shows it."""

    WAITING = "waiting"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    UNSTABLE = "unstable"


@dataclass
class CellProgress:
    """The runs of a cell. `counted` has one per repetition, `failed` those that failed in this
    call; `running` is the run under way, "" if there is none. `is_unstable`: its values differ too
    much."""

    cell: Cell
    counted: dict[int, RunEnded] = field(default_factory=dict)
    failed: dict[int, RunEnded] = field(default_factory=dict)
    running: str = ""
    is_unstable: bool = False

    @property
    def values(self) -> list[float]:
        """What was measured, in order of the repetitions."""
        ends = (self.counted[number] for number in sorted(self.counted))
        return [end.value for end in ends if end.value is not None]

    @property
    def cause(self) -> str:
        """Why a run of the cell failed; "" if none did."""
        return next((end.cause for end in self.failed.values()), "")

    def state(self, repetitions: int) -> CellState:
        """The state of a cell that is to have so many runs."""
        if self.running:
            return CellState.RUNNING
        if self.failed:
            return CellState.FAILED
        if len(self.counted) < repetitions:
            return CellState.WAITING
        return CellState.UNSTABLE if self.is_unstable else CellState.DONE


@dataclass
class StudyProgress:
    """What has become of the runs of a study. `open` are runs that have begun and not ended, by
    trial: those under way, or interrupted."""

    study: Study
    cells: dict[str, CellProgress] = field(init=False)
    open: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.cells = {cell.key: CellProgress(cell) for cell in self.study.cells}

    @classmethod
    def of(cls, study: Study, entries: Iterable[JournalEntry]) -> StudyProgress:
        """The progress after these facts. Runs that failed before are tried again."""
        progress = cls(study)
        for entry in entries:
            progress.apply(entry)
        for cell in progress.cells.values():
            cell.failed.clear()
            cell.running = ""
        return progress

    def apply(self, entry: JournalEntry) -> None:
        """Take in a fact. One of a trial that the study no longer has does not count."""
        key, number = split_trial_key(entry.trial)
        cell = self.cells.get(key)
        if not cell or not number:
            return
        match entry:
            case RunBegun(trial, run):
                self.open[trial] = cell.running = run
                cell.failed.pop(number, None)
            case RunEnded(trial):
                self.open.pop(trial, None)
                cell.running = ""
                if entry.outcome is TrialOutcome.COUNTED:
                    cell.counted.setdefault(number, entry)
                elif entry.outcome is TrialOutcome.FAILED:
                    cell.failed[number] = entry

    def is_settled(self, trial: Trial) -> bool:
        """Whether this call has nothing left to do for the trial."""
        cell = self.cells[trial.cell.key]
        return trial.repetition in cell.counted or trial.repetition in cell.failed

    @property
    def settled(self) -> int:
        """How many runs this call has no more to do for."""
        return sum(len(cell.counted) + len(cell.failed) for cell in self.cells.values())

    def copy(self) -> StudyProgress:
        """The progress as it is now."""
        copied = StudyProgress(self.study, open=dict(self.open))
        for key, cell in self.cells.items():
            copied.cells[key] = replace(cell, counted=dict(cell.counted), failed=dict(cell.failed))
        return copied

    @property
    def seconds(self) -> float:
        """How long the runs took that count."""
        return sum(one.seconds for cell in self.cells.values() for one in cell.counted.values())

    @property
    def runs(self) -> list[str]:
        """The runs that count, by cell and repetition."""
        return [
            cell.counted[number].run
            for cell in self.cells.values()
            for number in sorted(cell.counted)
        ]
