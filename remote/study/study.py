"""What a study is: which runs it makes, in which order, and what it compares. Data only."""

from __future__ import annotations

import random
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from remote.plan.plan import Script
from training.job import Job

METRICS = {
    "step_seconds": "seconds per step",
    "elapsed": "training time in seconds",
    "loss": "test loss",
    "accuracy": "test accuracy",
}
"""What a study of jobs may compare, in words; one number per run."""
SCRIPT_METRICS = {**METRICS, "loss": "training loss of the last step"}
del SCRIPT_METRICS["accuracy"]
"""What a study of a script may compare, beside its own metrics."""
NAMED = "metric:"
"""Stands before the name of a metric that a script prints or writes."""
LOWER = re.compile(r"loss|err|perplexity|ppl|mae|mse|seconds|time|_ms|memory", re.I)
"""In the name of a metric of which the lowest value is best."""
REPETITION = "{seed}"
"""Stands in the words of a script for the number of the repetition."""
SEEDS = 2**32
UNITS = {"s": 1.0, "min": 60.0, "h": 3600.0}
"""The units of times in study files, in seconds."""
Labels = tuple[tuple[str, str], ...]
"""The name and the label of each axis."""


class StudyError(ValueError):
    """Mistakes in a study or in how it is called, one line each, with what to write instead."""


@dataclass(frozen=True)
class AxisValue:
    """One value of an axis: the settings that it stands for. Settings are job fields, options of
    the sync method, or fields of `CellPlace`."""

    label: str
    settings: Mapping[str, object]


@dataclass(frozen=True)
class StudyAxis:
    """What is varied."""

    name: str
    values: tuple[AxisValue, ...]

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels of its values."""
        return tuple(value.label for value in self.values)


@dataclass(frozen=True)
class CellPlace:
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

    labels: Labels
    work: Job | Script
    place: CellPlace
    has_seed: bool = False

    @property
    def job(self) -> Job | None:
        """The work, where it is a job of ours and not a user's own program."""
        return self.work if isinstance(self.work, Job) else None

    @property
    def key(self) -> str:
        """Its name, such as "sync=ring nodes=4", the same in every call."""
        return cell_key(self.labels)

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
    def work(self) -> Job | Script:
        """The work of the run. Each repetition has a seed of its own, the same for all cells where
        the study does not vary it."""
        work = self.cell.work
        if isinstance(work, Script):
            number = str(self.repetition)
            return replace(work, words=tuple(one.replace(REPETITION, number) for one in work.words))
        if self.cell.has_seed:
            return work
        return replace(work, seed=(work.seed + self.repetition - 1) % SEEDS)


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
    axes: tuple[StudyAxis, ...]
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
    def is_of_script(self) -> bool:
        """Whether its runs are of a user's own program."""
        return any(cell.job is None for cell in self.cells)

    @property
    def measured(self) -> str:
        """What is compared, in words: "seconds per step"."""
        known = SCRIPT_METRICS if self.is_of_script else METRICS
        return known.get(self.metric, self.metric.removeprefix(NAMED))

    @property
    def is_higher_better(self) -> bool:
        """Whether the highest value is best; of a metric of a script, its name says so."""
        return self.metric == "accuracy" or (
            self.metric.startswith(NAMED) and not LOWER.search(self.metric)
        )

    @property
    def given(self) -> str:
        """The settings of the command line, in words; "" without any."""
        return f"set on the command line: {', '.join(self.overrides)}" if self.overrides else ""

    @property
    def most_nodes(self) -> int:
        """The most hosts of any of its runs."""
        return max((cell.place.nodes for cell in self.cells), default=1)

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
        name, repetition = split_trial_key(key)
        cell = self.cell(name)
        return Trial(cell, repetition) if cell and repetition else None

    def counterpart(self, cell: Cell) -> Cell | None:
        """The cell with which this one is compared; None if it is the reference or there is
        none."""
        if not self.compare or cell.label(self.compare) == self.reference:
            return None
        labels = {**dict(cell.labels), self.compare: self.reference}
        return next((other for other in self.cells if dict(other.labels) == labels), None)


def named_metric(metric: str) -> str:
    """Return the name of a metric that a script prints or writes; "" for one of ours."""
    return metric.removeprefix(NAMED) if metric.startswith(NAMED) else ""


def cell_key(labels: Labels) -> str:
    """Return the key of a cell, such as "sync=ring nodes=4"."""
    return " ".join(f"{axis}={label}" for axis, label in labels) or "all"


def split_trial_key(trial: str) -> tuple[str, int]:
    """The cell and the repetition that the key of a trial names; 0 where it names none."""
    cell, _, repetition = trial.rpartition(" #")
    return cell, int(repetition) if repetition.isdecimal() else 0
