"""Steps and epochs of lines that people write themselves, counted over the whole run."""

from __future__ import annotations

from collections.abc import Collection

from remote.formats.memory import MAX_COUNT, Memory
from remote.formats.names import PLACES, is_outcome
from remote.formats.reading import EVALUATION, Reading, ReadingKind

_ACCURACIES = ("accuracy", "accuracy_top5", "val_accuracy", "val_accuracy_top5")


class Percentages:
    """Finds out which accuracies are percentages without a sign: those above 1, and since then all
    of the same name."""

    def __init__(self) -> None:
        self._names: set[str] = set()

    def make_fractions(self, values: dict[str, float], fractions: Collection[str] = ()) -> None:
        """Divide percentages by 100, except those that are `fractions` by now."""
        for name in _ACCURACIES:
            if name not in values or name in fractions:
                continue
            if values[name] > 1:
                self._names.add(name)
            # An accuracy of 0.9 may be 0.9 % if this program has printed 91.5 before.
            if name in self._names:
                values[name] /= 100


class StepCounter:
    """Finds out whether steps count anew in each epoch. They do if a line has the totals of both,
    and once they fall while the epoch rises."""

    def __init__(self) -> None:
        self._epoch = 0.0
        self._step = 0.0
        self._first_epoch = 0.0
        self._steps_before = 0.0
        self._counts_anew = False
        self._percentages = Percentages()

    def reading(
        self,
        values: dict[str, float],
        memory: Memory,
        kind: ReadingKind | None = None,
        percentages: Collection[str] = (),
        *,
        may_be_of_epoch: bool = False,
    ) -> Reading | None:
        """Return the reading of values and places, None if there are only places. `percentages`
        are names whose values had a sign of percent, and are fractions by now. `may_be_of_epoch`:
        the line does not say whether its `steps` are those of an epoch or of the run."""
        part = values.pop("part", None)
        if "step" in values:
            values["step"] = memory.count(kind, values["step"], values)
        if "epoch" in values:
            values["epoch"] = memory.count_epoch(values["epoch"], values)
        if part is not None and "step" not in values:
            values["epoch"] = max(0.0, values["epoch"] - 1) + part
        if "step" in values and "epoch" in values and kind is not EVALUATION:
            self._count_over_epochs(values)
            if may_be_of_epoch and (self._counts_anew or self._epoch == self._first_epoch):
                values.pop("steps", None)
        self._percentages.make_fractions(values, percentages)
        return memory.placed(kind, values)

    def _count_over_epochs(self, values: dict[str, float]) -> None:
        epoch = values["epoch"]
        step = values["step"]
        steps = values.get("steps", 0.0)
        epochs = values.get("epochs", 0.0)
        if not all(0 <= count < MAX_COUNT for count in (epoch, step, steps)):
            return
        if "steps" in values and epochs > 1:  # of an epoch
            values["step"] = max(0.0, epoch - 1) * steps + step
            values["steps"] = steps * epochs
            return
        is_next_epoch = epoch > self._epoch
        if is_next_epoch and step <= self._step:
            self._counts_anew = True
        if self._counts_anew and is_next_epoch:
            self._steps_before += values.get("steps", self._step)
        self._first_epoch = self._first_epoch or epoch
        self._epoch = epoch
        self._step = step
        if self._counts_anew:
            values["step"] = self._steps_before + step
            if "steps" in values:
                values["steps"] = steps * epochs


def reports_progress(names: Collection[str]) -> bool:
    """Return True if values of these names have a step or an epoch, and what training strives
    for."""
    if "step" not in names and "epoch" not in names:
        return False
    return any(name not in PLACES and is_outcome(name) for name in names)
