"""What earlier lines of a rank say about later ones: the last progress bar, the steps of an epoch,
whether steps count from 0."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from remote.formats.names import is_outcome
from remote.formats.reading import EVALUATION, OTHER, STEP, Reading, ReadingKind

RATE = "steps_per_second"
"""The name of a value that becomes `step_seconds`."""
MAX_COUNT = 1e15
"""From here on, a number is no count of steps or epochs."""
BY_EVALUATION = 1
BY_TRAINING = 2
"""How surely it is known where counting begins: the first evaluation may be one before step 1."""


@dataclass(slots=True)
class CountBase:
    """How a program counts steps, or epochs: from 0 if the first one is 0."""

    offset: int = 0
    """What to add, so that they count from 1."""
    certainty: int = 0
    """0: nothing is counted yet."""

    def begin(self, first: float, certainty: int) -> None:
        """Take a number as the first one, unless another one is more certain."""
        if certainty > self.certainty:
            self.offset = int(first == 0)
            self.certainty = certainty


@dataclass(slots=True)
class Memory:
    """The memory of one rank. 0 is unknown."""

    rank: int = -1
    """The rank that its lines begin with; -1 if they begin with none."""
    bar: int = 0
    """Where the last progress bar without metrics stood, until a line used it."""
    steps: int = 0
    """Of the whole run."""
    epoch: int = 0
    """The one that has begun, from 1."""
    epochs: int = 0
    epoch_offset: int = 0
    """What to add to epochs of a table, so that they count from 1."""
    per_epoch: float = 0.0
    """Steps of an epoch."""
    step: int = 0
    """The last step that was read."""
    step_base: CountBase = field(default_factory=CountBase)
    epoch_base: CountBase = field(default_factory=CountBase)

    def count(self, kind: ReadingKind | None, number: float, values: Mapping[str, float]) -> float:
        """Return the step of these values, counted from 1. Evaluations that a format names as such
        (`kind`) do not decide how steps are counted."""
        return _from_1(self.step_base, kind, number, values)

    def count_epoch(self, number: float, values: Mapping[str, float]) -> float:
        """Return the epoch of these values, counted from 1."""
        if number % 1 > 0:  # epochs that have passed: they begin at 0, and none is added
            self.epoch_base = CountBase(certainty=BY_TRAINING)
        return _from_1(self.epoch_base, None, number, values)

    def place(self, kind: ReadingKind | None, values: dict[str, float]) -> Reading | None:
        """Return the reading of these values, some of which say where the training is, and are
        removed. None: there are no others. Without a kind, the names of the values decide."""
        if "step" in values:
            values["step"] = self.count(kind, values["step"], values)
        return self.placed(kind, values)

    def placed(self, kind: ReadingKind | None, values: dict[str, float]) -> Reading | None:
        """Do the same as `place` with a step that counts from 1."""
        step = 0
        if "step" in values:
            step = as_count(values.pop("step"))
        elif "index" in values:
            step = as_count(values.pop("index")) + 1
        epoch = _take_epoch(values)
        steps = 0
        if "steps" in values:
            steps = self.steps = as_count(values.pop("steps"))
        if "epochs" in values:
            self.epochs = as_count(values.pop("epochs"))
        if "n_index" in values:
            n = as_count(values.pop("n_index")) + 1
            step = self._step_within_epoch(n, values, epoch, step, kind)
        elif "n" in values:
            n = as_count(values.pop("n"))
            step = self._step_within_epoch(n, values, epoch, step, kind)
        if RATE in values:
            rate = values.pop(RATE)
            if rate > 0:
                values.setdefault("step_seconds", 1 / rate)
        if not values:
            return None
        return Reading(kind or kind_of(values), step, epoch, values, steps or self.steps)

    def _step_within_epoch(
        self, n: int, values: dict[str, float], epoch: float, step: int, kind: ReadingKind | None
    ) -> int:
        """Return the step of the whole run, of the `n`th of an epoch. A `step` of the line
        comes first."""
        total = as_count(values.pop("total", 0.0))
        if kind is EVALUATION:  # its batches are no steps of the training
            return step
        if not total:
            # Without its length, it is unknown how many steps the epochs before have had.
            return step or (n if epoch <= 1 else 0)
        self.per_epoch = total
        if self.epochs:
            self.steps = as_count(total * self.epochs)
        epochs_before = max(0, math.ceil(epoch) - 1)
        return step or as_count(epochs_before * total + n)


def _from_1(
    base: CountBase, kind: ReadingKind | None, number: float, values: Mapping[str, float]
) -> float:
    is_open = base.certainty < BY_TRAINING and 0 <= number < MAX_COUNT
    if is_open and kind is not EVALUATION:
        if kind_of(values) is not EVALUATION:
            is_training = "loss" in values or "step_seconds" in values
            base.begin(number, BY_TRAINING if is_training else BY_EVALUATION)
        elif kind is None:
            base.begin(number, BY_EVALUATION)
    return number + base.offset if number >= 0 else number


def _take_epoch(values: dict[str, float]) -> float:
    epoch = 0.0
    if "epoch" in values:
        epoch = values.pop("epoch")
    elif "epoch_index" in values:
        epoch = values.pop("epoch_index") + 1
    return epoch if 0 <= epoch < MAX_COUNT else 0.0


def kind_of(names: Collection[str]) -> ReadingKind:
    """Return what values of these names belong to."""
    # This comes first: a line of the training may repeat the values of the last evaluation.
    if "loss" in names:
        return STEP
    if any(map(is_of_evaluation, names)):
        return EVALUATION
    if "step_seconds" in names or any(map(is_outcome, names)):
        return STEP
    return OTHER


def is_of_evaluation(name: str) -> bool:
    """Return True if a normalised name is of an evaluation."""
    return name.startswith(("val_", "val/", "val-", "test_", "eval_"))


def as_count(value: float) -> int:
    """Return a count as a whole number, 0 if the value is none."""
    return int(value) if 0 <= value < MAX_COUNT else 0
