"""What a study is: which runs it makes, in which order, and what it compares. Data only."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, replace

from training.job import Job

METRICS = {
    "step_seconds": "seconds per step",
    "elapsed": "training time in seconds",
    "loss": "test loss",
    "accuracy": "test accuracy",
}
"""What a study may compare, in words; one number per run."""
SEEDS = 2**32


@dataclass(frozen=True)
class Value:
    """One value of an axis: the settings that it stands for. Settings are job fields, options of
    the sync method, or fields of `Place`."""

    label: str
    settings: Mapping[str, object]


@dataclass(frozen=True)
class Axis:
    """What is varied."""

    name: str
    values: tuple[Value, ...]

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels of its values."""
        return tuple(value.label for value in self.values)


@dataclass(frozen=True)
class Place:
    """Where a cell runs: the number of hosts, and of ranks on each. `link` and `cpus` are the rate
    and the cores of each host of a lab; "" leaves them to the command line."""

    nodes: int = 1
    processes: int = 1
    link: str = ""
    cpus: str = ""

    @property
    def ranks(self) -> int:
        """The number of ranks."""
        return self.nodes * self.processes


@dataclass(frozen=True)
class Cell:
    """One row of the table: `labels` has a (name, label) pair per axis. `has_seed`: its seed is one
    of its settings, so that all its repetitions have it."""

    labels: tuple[tuple[str, str], ...]
    job: Job
    place: Place
    has_seed: bool = False

    @property
    def key(self) -> str:
        """Its name, such as "sync=ring nodes=4", the same in every call."""
        return " ".join(f"{name}={label}" for name, label in self.labels) or "all"

    def label(self, axis: str) -> str:
        """Its value of an axis; "" where there is no such axis."""
        return dict(self.labels).get(axis, "")


@dataclass(frozen=True)
class Trial:
    """One run of a cell. `repetition` counts from 1."""

    cell: Cell
    repetition: int

    @property
    def key(self) -> str:
        """Its name, such as "sync=ring nodes=4 #2", the same in every call."""
        return f"{self.cell.key} #{self.repetition}"

    @property
    def job(self) -> Job:
        """The job of the run. Each repetition has a seed of its own, the same for all cells where
        the study does not vary it."""
        job = self.cell.job
        if self.cell.has_seed:
            return job
        return replace(job, seed=(job.seed + self.repetition - 1) % SEEDS)


@dataclass(frozen=True)
class Target:
    """The loss or accuracy that a run shall reach."""

    metric: str
    value: float

    def text(self) -> str:
        """In words: "test accuracy 60.0%"."""
        value = f"{self.value:.1%}" if self.metric == "accuracy" else f"{self.value:g}"
        return f"{METRICS[self.metric]} {value}"


WITHOUT_EFFECT = ("data_dir", "verify_data", "log_format")
"""Settings on which no result depends: where the data lie, whether they are checked, how lines
look."""


@dataclass(frozen=True)
class Study:
    """A study as its file describes it.

    Cells are compared along the axis `compare`, each with the one that has the label `reference`
    and is otherwise equal. `baseline` is the key of the cell of which the speed-up is 1. `limit` is
    the most seconds that a run may take. `is_quick`: the variant of --quick. `text` is the file.
    `overrides` are the settings that the command line gave in place of those of the file.
    """

    name: str
    title: str
    question: str
    axes: tuple[Axis, ...]
    cells: tuple[Cell, ...]
    repetitions: int
    seed: int
    limit: float
    metric: str
    compare: str
    reference: str
    baseline: str
    target: Target | None
    is_quick: bool
    text: str
    overrides: tuple[str, ...] = ()

    @property
    def given(self) -> str:
        """The settings of the command line, in words; "" without any."""
        return f"set on the command line: {', '.join(self.overrides)}" if self.overrides else ""

    def block(self, repetition: int) -> list[Trial]:
        """The runs of one repetition: every cell once, shuffled by the seed, so that a drift of the
        machine affects all cells alike."""
        trials = [Trial(cell, repetition) for cell in self.cells]
        random.Random(f"{self.seed}/{repetition}").shuffle(trials)
        return trials

    def trials(self) -> list[Trial]:
        """All planned runs, block by block."""
        numbers = range(1, self.repetitions + 1)
        return [trial for number in numbers for trial in self.block(number)]

    def cell(self, key: str) -> Cell | None:
        """The cell of this name."""
        return next((cell for cell in self.cells if cell.key == key), None)

    def trial(self, key: str) -> Trial | None:
        """The trial of this name."""
        name, repetition = parts(key)
        cell = self.cell(name)
        return Trial(cell, repetition) if cell and repetition else None

    def counterpart(self, cell: Cell) -> Cell | None:
        """The cell with which this one is compared; None if it is the reference or there is
        none."""
        if not self.compare or cell.label(self.compare) == self.reference:
            return None
        labels = {**dict(cell.labels), self.compare: self.reference}
        return next((other for other in self.cells if dict(other.labels) == labels), None)


def parts(trial: str) -> tuple[str, int]:
    """The cell and the repetition that the key of a trial names; 0 where it names none."""
    cell, _, repetition = trial.rpartition(" #")
    return cell, int(repetition) if repetition.isdecimal() else 0
