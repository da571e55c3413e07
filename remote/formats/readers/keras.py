"""Bars below a line that has the epoch: Keras."""

from __future__ import annotations

import re

from remote.formats.catalog import LogFormat
from remote.formats.memory import Memory
from remote.formats.numbers import number
from remote.formats.patterns import UNITS, LazyRegex, Pairs
from remote.formats.reading import EVALUATION, STEP, UNDERSTOOD, Reading

_KERAS_EPOCH = LazyRegex(r"Epoch (\d{1,9})/(\d{1,9})\s{0,4}$")
_KERAS_GLUED = LazyRegex(r"Epoch (\d{1,9})/(\d{1,9}?)(?=(\d{1,12})/\3 )")
"""The epoch and a bar behind it, without a space between them: "Epoch 7/1520/20"."""
_KERAS_BAR = LazyRegex(
    r"\s{0,8}(?P<n>\d{1,12})/(?P<total>\d{1,12}) (?:[━╸ ]{1,60}|\[[=>. ]{1,60}\] -|-) "
    r"(?:ETA: )?[\w:.]{1,16}(?: (?:- )?(?P<each>[\d.]{1,12})(?P<unit>ms|us|s)"
    r"/(?P<of>step|epoch|sample))?"
    r"(?: - (?P<pairs>[^\n]{1,4000}))?"
)
_KERAS_LINE = LazyRegex(
    r"\d{1,6}s(?: \d{1,6}[mu]?s/\w{1,10})? - (?P<pairs>[a-z]\w{0,40}: [^\n]{1,4000})"
)
"""What stands below an epoch without a bar: "7s - loss: 0.5"."""
_KERAS_SAMPLES = LazyRegex(r"Train on (\d{1,12}) samples")
_KERAS_PAIRS = Pairs(r"([A-Za-z]\w{0,80}): <num>(?=\s|$)")


class KerasBar:
    """Reads Keras: a line has the epoch, the bars after it the steps and the means of the epoch so
    far. A bar after that of an epoch has ended is one of an evaluation."""

    open = False

    def __init__(self, log_format: LogFormat) -> None:
        self._has_ended = True
        self._samples = 0.0
        """How many an epoch has, in a version whose bars count them."""

    def read(self, line: str, start: int, memory: Memory) -> Reading | None:
        """See `FormatReader`."""
        begin = start
        samples = _KERAS_SAMPLES.match(line, start)
        if samples:
            self._samples = float(samples[1])
            return UNDERSTOOD
        epoch = _KERAS_EPOCH.match(line, start)
        if epoch:
            self._begin_epoch(epoch, memory)
            return UNDERSTOOD
        glued_epoch = _KERAS_GLUED.match(line, start)
        if glued_epoch:
            self._begin_epoch(glued_epoch, memory)
            begin = glued_epoch.end()
        bar = _KERAS_BAR.match(line, begin)
        if bar is not None:
            return self._reading(bar, memory)
        epoch_line = _KERAS_LINE.match(line, begin) if not self._has_ended else None
        if epoch_line is None:
            return None
        self._has_ended = True
        values = {"epoch": float(memory.epoch)}
        _KERAS_PAIRS.add_to(values, epoch_line["pairs"])
        return memory.place(STEP, values)

    def _begin_epoch(self, epoch: re.Match[str], memory: Memory) -> None:
        memory.epoch = int(memory.count_epoch(float(epoch[1]), {}))
        memory.epochs = int(epoch[2])
        self._has_ended = False

    def _reading(self, bar: re.Match[str], memory: Memory) -> Reading | None:
        values: dict[str, float] = {}
        if bar["pairs"]:
            _KERAS_PAIRS.add_to(values, bar["pairs"])
        if not values:
            return UNDERSTOOD
        count = float(bar["n"])
        total = float(bar["total"])
        # The last bar of an epoch is printed again, once its evaluation has added values.
        is_of_epoch = count == total == memory.per_epoch
        if self._has_ended and not is_of_epoch:
            if count != total:
                return UNDERSTOOD
            return memory.place(EVALUATION, _as_evaluation(values))
        self._has_ended = count == total
        if self._counts_samples(bar, total):
            values["epoch"] = memory.epoch - 1 + count / max(1.0, total)
            memory.per_epoch = total
            return memory.place(STEP, values)
        if bar["each"]:
            values["step_seconds"] = number(bar["each"]) * UNITS.get(bar["unit"], 1.0)
        values |= {"epoch": float(memory.epoch), "n": count, "total": total}
        return memory.place(STEP, values)

    def _counts_samples(self, bar: re.Match[str], total: float) -> bool:
        """Return True if a bar counts samples, which is all that versions before 2.3 say of
        steps."""
        if bar["of"]:
            return bar["of"] == "sample"
        is_whole = bar["n"] == bar["total"]
        return total == self._samples or is_whole


def _as_evaluation(values: dict[str, float]) -> dict[str, float]:
    renamed: dict[str, float] = {}
    for name, value in values.items():
        renamed[name if name.startswith("val_") else f"val_{name}"] = value
    return renamed
