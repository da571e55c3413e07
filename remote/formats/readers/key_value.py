"""Lines that people print themselves: where the training is, then names with values.

step=3 loss=0.5                                   Epoch [1/5], Step [20/98], Loss: 0.5 (0.6)
epoch 3: train loss 0.5, val loss 0.6             20 loss:  3.9
[0/5][20/98] Loss_D: 1.8 Loss_G: 5.6              ====> Test set loss: 222.3
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from remote.formats.catalog import LogFormat
from remote.formats.memory import Memory, is_of_evaluation
from remote.formats.names import NEVER, PLACES, is_outcome, is_standard
from remote.formats.numbers import number
from remote.formats.patterns import UNITS, LazyRegex, NameTable
from remote.formats.readers.line_pairs import Pair, begins_with_pair, find_pairs
from remote.formats.readers.line_places import (
    EVALUATION_WORDS,
    LineHead,
    read_epoch_alone,
    read_head,
)
from remote.formats.readers.objects import WRAPPED
from remote.formats.reading import EVALUATION, OTHER, UNDERSTOOD, Reading, ReadingKind
from remote.formats.step_counter import StepCounter, reports_progress

_EVALUATION_WORD = LazyRegex(rf"\b(?:{EVALUATION_WORDS})\b", re.IGNORECASE)
_FARTHEST = 80
"""Characters between a place and the first name, in which it may say what the values are of."""
_STEP_TIME = "dt"
"""With a unit, it is the time of a step; without one, perhaps the step of a simulation."""
_TOTALS = {"step": "steps", "epoch": "epochs"}
"""The names of what places are part of."""
_OF_TRAINING = ("loss", "accuracy")
"""Names that only values of the training have."""
_OF_EVALUATION = ("val_loss", "val_accuracy", "val_accuracy_top5", "val_perplexity")
"""Names that say by themselves that a line is of an evaluation."""
_MEANS = {"loss": "train_loss", "accuracy": "train_accuracy"}
"""What the mean of an epoch is called, beside the values of its steps."""


class KeyValueLine:
    """Reads lines that begin with a place of the training, with name=value, or with the word for an
    evaluation."""

    open = False

    def __init__(self, log_format: LogFormat) -> None:
        self._names = NameTable(log_format.names)
        self._counter = StepCounter()
        self._has_steps = False
        self._last_batch = -1.0
        self._restarts = False

    def read(self, line: str, start: int, memory: Memory) -> Reading | None:
        """See `FormatReader`."""
        epoch = read_epoch_alone(line, start)
        if epoch is not None:
            memory.epoch = int(memory.count_epoch(epoch[0], {}))
            memory.epochs = int(epoch[1]) or memory.epochs
            return UNDERSTOOD
        head = read_head(line, start)
        if head is None and ("(" in line or not begins_with_pair(line, start)):  # code, or text
            return None
        if "(" in line:
            line = WRAPPED.sub(r"\1", line)
        begin = head.end if head is not None else start
        pairs = list(find_pairs(line, begin))
        if not pairs or not self._begins_as_metrics(head, pairs, begin):
            return None
        values, percentages = self._values(pairs, head)
        is_evaluation = head is not None and _is_evaluation(head, line, pairs, values)
        if is_evaluation:
            values = _as_evaluation(values)
        if head is not None:
            self._add_places(values, head, memory)
        if is_evaluation:
            _leave_out_own_steps(values, memory)
        has_place = head is not None and bool(head.places)
        if not _reports(values, has_place=has_place, is_evaluation=is_evaluation):
            return None
        kind = EVALUATION if is_evaluation else self._kind_of_mean(values)
        may_be_of_epoch = head is not None and "steps" in head.places and "epochs" not in values
        return self._counter.reading(
            values, memory, kind, percentages, may_be_of_epoch=may_be_of_epoch
        )

    def _begins_as_metrics(self, head: LineHead | None, pairs: Sequence[Pair], begin: int) -> bool:
        """Return True if a line begins as lines of metrics do: with a clear place, or a name of
        what training strives for."""
        if head is None or (head.places and not head.is_number_alone):
            return True
        first = pairs[0]
        # Without a word for the number, a sentence could begin so: "3 files: 5 changed".
        if head.is_number_alone and first.begin > begin + 2:
            return False
        return first.is_signed and is_outcome(self._names(first.name)[0])

    def _values(
        self, pairs: Sequence[Pair], head: LineHead | None
    ) -> tuple[dict[str, float], set[str]]:
        """Return the values by name, and the names of those with a sign of percent."""
        values: dict[str, float] = {}
        percentages: set[str] = set()
        unsigned: list[Pair] = []
        for pair in pairs:
            if pair.is_signed:
                self._add(values, percentages, pair)
            elif self._normalised(pair.name)[0] not in PLACES:
                unsigned.append(pair)
        # In a sentence a number follows a word as well. So a pair without a sign counts only if
        # there is no other, or with separators around it, beside a place of the training.
        if not any(map(is_outcome, values)):
            for pair in filter(self._is_known, unsigned):
                self._add(values, percentages, pair)
        if head is not None and any(map(is_outcome, values)):
            for pair in unsigned:
                if pair.is_separate:
                    self._add(values, percentages, pair)
        return values, percentages

    def _is_known(self, pair: Pair) -> bool:
        name, _ = self._normalised(pair.name)
        return is_outcome(name) or name != pair.name

    def _normalised(self, printed: str) -> tuple[str, float]:
        """Return the normalised name, and the factor into its unit. `Average Loss(20)` is a loss,
        `D(x)` no other name."""
        name, factor = self._names(printed)
        if name == printed and printed.endswith(")"):
            bare = printed[: printed.index("(")]
            bare_name, bare_factor = self._names(bare)
            if bare_name != bare:
                return bare_name, bare_factor
        return name, factor

    def _add(self, values: dict[str, float], percentages: set[str], pair: Pair) -> None:
        name, factor = self._normalised(pair.name)
        if name == _STEP_TIME and pair.unit in UNITS:
            name = "step_seconds"
        if name is NEVER or name in values:
            return
        value = number(pair.value) * factor
        if pair.total and name in _TOTALS:
            values[_TOTALS[name]] = float(pair.total)
        elif pair.total:
            # "97/100" is a share of what is right; of anything else, nobody knows what it is.
            if "accuracy" not in name:
                return
            value /= max(1.0, float(pair.total))
            percentages.add(name)
        elif pair.unit == "%":
            value /= 100
            percentages.add(name)
        elif name.endswith("_seconds"):
            value *= UNITS.get(pair.unit, 1.0)
        values[name] = value

    def _add_places(self, values: dict[str, float], head: LineHead, memory: Memory) -> None:
        """Add what the beginning of the line says. A pair such as `global_step: 3` goes before."""
        places = dict(head.places)
        if "n" in places:
            step = places.pop("n")
            places |= {"step": step, "steps": places.pop("total")}
            if memory.epoch and "epoch" not in values:
                places |= {"epoch": _printed_epoch(memory), "epochs": float(memory.epochs)}
        elif head.is_of_begun_epoch and memory.epoch:
            places["epoch"] = _printed_epoch(memory)
        if head.is_batch and "epoch" not in places and "epoch" not in values:
            places.pop("steps", None)  # perhaps those of an epoch
            self._leave_out_restart(places)
        for name, place in places.items():
            values.setdefault(name, place)

    def _leave_out_restart(self, places: dict[str, float]) -> None:
        """Leave out the step of a line without an epoch once batches have begun anew: nobody knows
        how many an epoch has."""
        batch = places["step"]
        self._restarts = self._restarts or batch < self._last_batch
        self._last_batch = batch
        if self._restarts:
            places.clear()

    def _kind_of_mean(self, values: dict[str, float]) -> ReadingKind | None:
        """Rename what is the mean of an epoch: the values of a line without a step, in a log that
        has steps. Return its kind, None for any other line."""
        if "step" in values or "part" in values:
            self._has_steps = True
            return None
        if not self._has_steps:
            return None
        for name, mean_name in _MEANS.items():
            if name in values:
                values[mean_name] = values.pop(name)
        return None if any(map(is_of_evaluation, values)) else OTHER


def _printed_epoch(memory: Memory) -> float:
    """Return the epoch that has begun, as the program counts."""
    return float(memory.epoch - memory.epoch_base.offset)


def _is_evaluation(
    head: LineHead, line: str, pairs: Sequence[Pair], values: dict[str, float]
) -> bool:
    """Return True if all values of a line are of an evaluation, as it says itself, "Test set: loss
    0.5", or by one name and none of the training: "testing psnr = 34, ssim = 0.9"."""
    is_of_training = any(name in _OF_TRAINING or name.startswith("train") for name in values)
    if head.is_evaluation or (any(map(is_of_evaluation, values)) and not is_of_training):
        return True
    about = line[head.end : min(pairs[0].begin, head.end + _FARTHEST)]
    return _EVALUATION_WORD.search(about) is not None


def _as_evaluation(values: dict[str, float]) -> dict[str, float]:
    """Return what an evaluation reports, by the names of its values."""
    renamed: dict[str, float] = {}
    for name, value in values.items():
        if name in PLACES or is_of_evaluation(name):
            renamed[name] = value
        elif is_outcome(name) or not is_standard(name):
            renamed.setdefault(f"val_{name}", value)
        else:
            renamed[name] = value
    return renamed


def _leave_out_own_steps(values: dict[str, float], memory: Memory) -> None:
    """Leave out the step of an evaluation that counts its own batches: it is behind the
    training."""
    values.pop("steps", None)
    if values.get("step", math.inf) + memory.step_base.offset < memory.step:
        del values["step"]


def _reports(values: dict[str, float], *, has_place: bool, is_evaluation: bool) -> bool:
    """Return True if values have a place and what training strives for. An evaluation with one of
    the usual names needs no place."""
    if reports_progress(values) or (has_place and any(map(is_outcome, values))):
        return True
    # "Validation error: 3 fields" begins so as well.
    return is_evaluation and any(name in _OF_EVALUATION for name in values)
