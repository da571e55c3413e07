"""A study: which runs it makes, in which order, and what it compares. Data only."""

from __future__ import annotations

import random
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from remote.plan.plan import Script
from training.job import Job
from training.mistake import MistakeError

METRICS = {
    "step_seconds": "seconds per step",
    "elapsed": "training time in seconds",
    "loss": "test loss",
    "accuracy": "test accuracy",
}
"""What a study of jobs may compare, in words; one number per run."""
SCRIPT_METRICS = {
    "step_seconds": METRICS["step_seconds"],
    "elapsed": METRICS["elapsed"],
    "loss": "training loss",
}
"""What a study of a script may compare, beside its own metrics."""
TIME_METRICS = ("step_seconds", "elapsed")
"""The metrics that compare as ratios."""
METRIC_PREFIX = "metric:"
"""Stands before the name of a metric that a script prints or writes."""
LOWER_IS_BETTER = re.compile(r"loss|err|perplexity|ppl|mae|mse|seconds|time|_ms|memory", re.I)
"""In the name of a metric whose lowest value is best."""
REPETITION = "{seed}"
"""Stands in the words of a script for the number of the repetition."""
SEEDS = 2**32
UNITS = {"s": 1.0, "min": 60.0, "h": 3600.0}
"""The units of times in study files, in seconds."""
Labels = tuple[tuple[str, str], ...]
"""The name and the label of each axis."""


class StudyError(MistakeError):
    """Mistakes in a study or in how it is called, one line each, with what to write instead."""


@dataclass(frozen=True)
class AxisValue:
    """One value of an axis."""

    label: str
    settings: Mapping[str, object]
    """What it stands for: settings of the job, options of the sync method, or of `CellPlace`."""


@dataclass(frozen=True)
class StudyAxis:
    """One thing that a study varies."""

    name: str
    values: tuple[AxisValue, ...]

    @property
    def labels(self) -> tuple[str, ...]:
        """Return the labels of its values."""
        return tuple(value.label for value in self.values)


@dataclass(frozen=True)
class CellPlace:
    """Where a cell runs. The names of the fields are the keys of study files."""

    nodes: int = 1
    """The number of hosts."""
    processes: int = 1
    """The number of ranks on each host."""
    link: str = ""
    """The rate of each host of a lab; "" leaves it to the command line."""
    cpus: str = ""
    """The cores of each host of a lab; "" leaves them to the command line."""

    @property
    def ranks(self) -> int:
        """Return the number of ranks."""
        return self.nodes * self.processes


@dataclass(frozen=True)
class Cell:
    """One combination of settings, which is a row of the table."""

    labels: Labels
    work: Job | Script
    place: CellPlace
    has_seed: bool = False
    """True if the seed is one of its settings, so that all its repetitions have it."""
    is_on_all_hosts: bool = False
    """True if the study does not say on how many hosts it runs: on all that there are."""

    @property
    def job(self) -> Job | None:
        """Return the job of ours that it trains, or None for a script."""
        return self.work if isinstance(self.work, Job) else None

    @property
    def key(self) -> str:
        """Return its name, such as "sync=ring nodes=4", the same in every call."""
        return cell_key(self.labels)

    def label(self, axis: str) -> str:
        """Return its value of an axis; "" if there is no such axis."""
        return dict(self.labels).get(axis, "")


@dataclass(frozen=True)
class Trial:
    """One run of a cell."""

    cell: Cell
    repetition: int
    """Counts from 1."""

    @property
    def key(self) -> str:
        """Return its name, such as "sync=ring nodes=4 #2", the same in every call."""
        return f"{self.cell.key} #{self.repetition}"

    @property
    def work(self) -> Job | Script:
        """Return the work of the run.

        Each repetition has a seed of its own, the same for all cells that do not vary it.
        """
        work = self.cell.work
        # A script has no setting for its seed: the repetition stands in its arguments.
        if isinstance(work, Script):
            repetition_text = str(self.repetition)
            script_words = tuple(word.replace(REPETITION, repetition_text) for word in work.words)
            before = work.before.replace(REPETITION, repetition_text)
            return replace(work, words=script_words, before=before)
        if self.cell.has_seed:
            return work
        # The sum may go past the largest seed.
        return replace(work, seed=(work.seed + self.repetition - 1) % SEEDS)


@dataclass(frozen=True)
class Target:
    """The loss or accuracy that a run shall reach."""

    metric: str
    value: float

    def text(self) -> str:
        """Return it in words: "test accuracy 60.0%"."""
        value = f"{self.value:.1%}" if self.metric == "accuracy" else f"{self.value:g}"
        return f"{METRICS[self.metric]} {value}"


@dataclass(frozen=True)
class Study:
    """A study as its file describes it."""

    name: str
    title: str
    question: str
    axes: tuple[StudyAxis, ...]
    cells: tuple[Cell, ...]
    repetitions: int
    seed: int
    """Decides on the order of the runs."""
    limit: float
    """The most seconds that a run may take."""
    metric: str
    compare: str
    """The axis along which cells are compared; "" if there is none."""
    reference: str
    """The label on this axis of the cells with which the others are compared."""
    baseline: str
    """The key of the cell whose speed-up is 1; "" if there is none."""
    target: Target | None
    is_quick: bool
    """True for the short variant of --quick."""
    text: str
    """The text of the file."""
    among: tuple[str, ...] = ()
    """Labels of the compared axis of which the answer also names the best alone."""
    overrides: tuple[str, ...] = ()
    """The settings that the command line gave in place of those of the file."""

    @property
    def is_of_script(self) -> bool:
        """Return whether its runs are of a script."""
        return any(cell.job is None for cell in self.cells)

    @property
    def gives_no_seed(self) -> bool:
        """Return whether it is of a script that does not hear which repetition it is."""
        return any(
            isinstance(cell.work, Script)
            and REPETITION not in " ".join((*cell.work.words, cell.work.before))
            for cell in self.cells
        )

    @property
    def compares_times(self) -> bool:
        """Return whether it compares times, which do so as ratios."""
        return self.metric in TIME_METRICS

    @property
    def measured(self) -> str:
        """Return what is compared, in words: "seconds per step"."""
        metric_texts = SCRIPT_METRICS if self.is_of_script else METRICS
        return metric_texts.get(self.metric) or named_metric(self.metric) or self.metric

    @property
    def is_higher_better(self) -> bool:
        """Return whether the highest value is best; of a metric of a script, by its name."""
        metric_name = named_metric(self.metric)
        return self.metric == "accuracy" or bool(
            metric_name and not LOWER_IS_BETTER.search(metric_name)
        )

    @property
    def overrides_text(self) -> str:
        """Return the settings of the command line, in words; "" if there are none."""
        return f"set on the command line: {', '.join(self.overrides)}" if self.overrides else ""

    @property
    def most_nodes(self) -> int:
        """Return the most hosts of any of its runs."""
        return max((cell.place.nodes for cell in self.cells), default=1)

    def block(self, repetition: int) -> list[Trial]:
        """Return the runs of one repetition: every cell once.

        They are shuffled by the seed, so that a drift of the machine affects all cells alike.
        """
        trials = [Trial(cell, repetition) for cell in self.cells]
        # A generator of its own for each repetition, so that its order is the same in every call.
        random.Random(f"{self.seed}/{repetition}").shuffle(trials)
        return trials

    def trials(self) -> list[Trial]:
        """Return all planned runs, block by block."""
        trials = []
        for repetition in range(1, self.repetitions + 1):
            trials += self.block(repetition)
        return trials

    def cell(self, key: str) -> Cell | None:
        """Return the cell of this name."""
        return next((cell for cell in self.cells if cell.key == key), None)

    def trial(self, key: str) -> Trial | None:
        """Return the trial of this name."""
        cell_name, repetition = split_trial_key(key)
        cell = self.cell(cell_name)
        return Trial(cell, repetition) if cell and repetition else None

    def counterpart(self, cell: Cell) -> Cell | None:
        """Return the cell with which this one is compared.

        Return None if it is the reference, or if there is no such cell.
        """
        if not self.compare or cell.label(self.compare) == self.reference:
            return None
        reference_labels = {**dict(cell.labels), self.compare: self.reference}
        return next(
            (
                other_cell
                for other_cell in self.cells
                if dict(other_cell.labels) == reference_labels
            ),
            None,
        )


def named_metric(metric: str) -> str:
    """Return the name of a metric that a script prints or writes; "" for one of ours."""
    return metric.removeprefix(METRIC_PREFIX) if metric.startswith(METRIC_PREFIX) else ""


def cell_key(labels: Labels) -> str:
    """Return the key of a cell, such as "sync=ring nodes=4"."""
    return " ".join(f"{axis}={label}" for axis, label in labels) or "all"


def split_trial_key(trial: str) -> tuple[str, int]:
    """Return the cell and the repetition that the key of a trial names; 0 if it names none."""
    # The last of these signs: a label may hold them, too.
    cell, _, repetition = trial.rpartition(" #")
    return cell, int(repetition) if repetition.isdecimal() else 0
