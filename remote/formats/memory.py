"""What the lines before tell about a line: the last progress bar, the steps of an epoch."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from remote.formats.names import is_outcome
from remote.formats.reading import EVALUATION, OTHER, STEP, Kind, Reading

RATE = "steps_per_second"
"""The name of a value that becomes `step_seconds`."""
BEYOND = 1e15
"""What is no count any more: of steps, or of epochs."""


@dataclass(slots=True)
class Count:
    """Steps, or epochs, as a program counts them: from 0 if the first one is 0."""

    more: int = 0
    """What to add, so that they count from 1."""
    sure: int = 0
    """0: nothing is counted yet; 1: by an evaluation, which may be one before the first step; 2: by
    the training."""

    def begin(self, first: float, sure: int) -> None:
        """The first one that is told with so much certainty."""
        if sure > self.sure:
            self.more = int(first == 0)
            self.sure = sure


@dataclass(slots=True)
class Memory:
    """Of one rank. 0 is unknown."""

    bar: int = 0
    """Where the last progress bar without metrics stood, until a line used it."""
    steps: int = 0
    epoch: int = 0
    epochs: int = 0
    per_epoch: float = 0.0
    """Steps of an epoch."""
    step: int = 0
    """The last step that was read."""
    step_count: Count = field(default_factory=Count)
    epoch_count: Count = field(default_factory=Count)

    def count(self, kind: Kind | None, number: float, values: Mapping[str, float]) -> float:
        """The step of these values, counted from 1. Evaluations that a format names as such
        (`kind`) do not decide how steps are counted."""
        return self._from_1(self.step_count, kind, number, values)

    def count_epoch(self, number: float, values: Mapping[str, float]) -> float:
        """The epoch of these values, counted from 1. Parts of epochs are no count."""
        if number % 1 > 0:
            self.epoch_count = Count(sure=2)
        return self._from_1(self.epoch_count, None, number, values)

    def _from_1(
        self, count: Count, kind: Kind | None, number: float, values: Mapping[str, float]
    ) -> float:
        if count.sure < 2 and 0 <= number < BEYOND and kind is not EVALUATION:
            if kind_of(values) is not EVALUATION:
                count.begin(number, 2 if "loss" in values or "step_seconds" in values else 1)
            elif kind is None:
                count.begin(number, 1)
        return number + count.more if number >= 0 else number

    def place(self, kind: Kind | None, values: dict[str, float]) -> Reading | None:
        """The reading of these values, some of which say where the training is; None where nothing
        but the place is said. Without a kind, the values tell it."""
        if "step" in values:
            values["step"] = self.count(kind, values["step"], values)
        return self.placed(kind, values)

    def placed(self, kind: Kind | None, values: dict[str, float]) -> Reading | None:
        """See `place`, of a step that counts from 1."""
        take = values.pop
        step = steps = 0
        epoch = 0.0
        if "step" in values:
            step = whole(take("step"))
        elif "index" in values:
            step = whole(take("index")) + 1
        if "epoch" in values:
            epoch = take("epoch")
        elif "epoch_index" in values:
            epoch = take("epoch_index") + 1
        if not 0 <= epoch < BEYOND:
            epoch = 0.0
        if "steps" in values:
            self.steps = steps = whole(take("steps"))
        if "epochs" in values:
            self.epochs = whole(take("epochs"))
        if "n_index" in values:
            step = self._within(whole(take("n_index")) + 1, values, epoch, step, kind)
        elif "n" in values:
            step = self._within(whole(take("n")), values, epoch, step, kind)
        if RATE in values and (rate := take(RATE)) > 0:
            values.setdefault("step_seconds", 1 / rate)
        if not values:
            return None
        return Reading(kind or kind_of(values), step, epoch, values, steps or self.steps)

    def _within(
        self, n: int, values: dict[str, float], epoch: float, step: int, kind: Kind | None
    ) -> int:
        """The step of the whole run, of the `n`th of an epoch, which counts from 1; or `step`, if
        the line tells it."""
        total = whole(values.pop("total", 0.0))
        if kind is EVALUATION:
            return step
        if not total:
            return step or (n if epoch <= 1 else 0)
        self.per_epoch = total
        if self.epochs:
            self.steps = whole(total * self.epochs)
        before = max(0, math.ceil(epoch) - 1)
        return step or whole(before * total + n)


def kind_of(values: Collection[str]) -> Kind:
    """What the values belong to, by their names."""
    if "loss" in values:
        return STEP
    if any(map(is_of_evaluation, values)):
        return EVALUATION
    if "step_seconds" in values or any(map(is_outcome, values)):
        return STEP
    return OTHER


def is_of_evaluation(name: str) -> bool:
    """Whether the (normalised) name is of an evaluation."""
    return name.startswith(("val_", "val/", "val-", "test_", "eval_"))


def whole(value: float) -> int:
    """A count as a whole number; 0 of what is none."""
    return int(value) if 0 <= value < BEYOND else 0
