"""Formats that print a header, or the epoch, and then rows or bars below it: Ultralytics, Keras and
fastai."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress

from remote.formats.catalog import LogFormat
from remote.formats.memory import Memory
from remote.formats.numbers import number
from remote.formats.patterns import UNITS, LazyRegex, LinePattern, NameTable, Pairs
from remote.formats.reading import EVALUATION, STEP, UNDERSTOOD, Reading

_YOLO_HEADER = LazyRegex(
    r"\s{1,20}Epoch {1,12}GPU_mem(?P<columns>(?: {1,20}[A-Za-z]\w{0,40}){1,20})\s{0,4}$"
)
_YOLO_ROW = LazyRegex(
    r"\s{1,20}(?P<epoch>\d{1,9})/(?P<epochs>\d{1,9}) {1,12}[\d.]{1,12}[GMK]?"
    r"(?P<values>(?: {1,20}[\w.+-]{1,24}){2,20}): {1,4}\d{1,3}%[ |][^\n\d]{0,400}"
    r"(?P<n>\d{1,12})/(?P<total>\d{1,12})"
    r"(?:[^\n]{0,80}?(?P<rate>[\d.]{1,12})(?P<unit>it/s|s/it))?"
)
_YOLO_EVALUATION = LazyRegex(
    r"\s{4,40}all {1,20}\d{1,12} {1,20}\d{1,12}(?P<values>(?: {1,20}[\d.e-]{1,16}){4,8})\s{0,8}$"
)
_YOLO_METRICS = ("val_precision", "val_recall", "val_mAP50", "val_mAP50-95")


class UltralyticsTable:
    """Reads YOLO's rows. Their columns are those of the header before them; `loss` is the sum of
    the losses in a row."""

    open = False

    def __init__(self, log_format: LogFormat) -> None:
        self._columns: list[str] = []

    def read(self, line: str, start: int, memory: Memory) -> Reading | None:
        """See `FormatReader`."""
        header = _YOLO_HEADER.match(line)
        if header:
            self._columns = header["columns"].split()
            return UNDERSTOOD
        if not self._columns:
            return None
        row = _YOLO_ROW.match(line)
        if row:
            return self._losses(row, memory) if int(row["n"]) else UNDERSTOOD
        row = _YOLO_EVALUATION.match(line)
        if not row:
            return None
        numbers = map(number, row["values"].split())
        values = dict(zip(_YOLO_METRICS, numbers, strict=False))
        return memory.place(EVALUATION, values | {"epoch": float(memory.epoch)})

    def _losses(self, row: re.Match[str], memory: Memory) -> Reading | None:
        values: dict[str, float] = {}
        for name, text in zip(self._columns, row["values"].split(), strict=False):
            if name.endswith("loss"):
                values[name] = number(text)
        if not values:
            return None
        values["loss"] = sum(values.values())
        rate = number(row["rate"]) if row["rate"] else 0.0
        if rate > 0:
            values["step_seconds"] = 1 / rate if row["unit"] == "it/s" else rate
        memory.epoch = int(row["epoch"])
        for name in ("epoch", "epochs", "n", "total"):
            values[name] = float(row[name])
        return memory.place(STEP, values)


_KERAS_EPOCH = LazyRegex(r"Epoch (\d{1,9})/(\d{1,9})\s{0,4}$")
_KERAS_GLUED = LazyRegex(r"Epoch (\d{1,9})/(\d{1,9}?)(?=(\d{1,12})/\3 )")
"""The epoch and a bar behind it, without a space between them: "Epoch 7/1520/20"."""
_KERAS_BAR = LazyRegex(
    r"\s{0,8}(?P<n>\d{1,12})/(?P<total>\d{1,12}) (?:[━╸ ]{1,60}|\[[=>. ]{1,60}\] -|-) "
    r"(?:ETA: )?[\w:.]{1,16}(?: (?:- )?(?P<each>[\d.]{1,12})(?P<unit>ms|us|s)/(?:step|epoch))?"
    r"(?: - (?P<pairs>[^\n]{1,4000}))?"
)
_KERAS_PAIRS = Pairs(r"([A-Za-z]\w{0,80}): <num>(?=\s|$)")


class KerasBar:
    """Reads Keras: a line has the epoch, the bars after it the steps and the means of the epoch so
    far. A bar after that of an epoch has ended is one of an evaluation."""

    open = False

    def __init__(self, log_format: LogFormat) -> None:
        self._has_ended = True

    def read(self, line: str, start: int, memory: Memory) -> Reading | None:
        """See `FormatReader`."""
        begin = start
        if line.startswith("Epoch ", start):
            epoch = _KERAS_EPOCH.match(line, start)
            if epoch:
                self._begin_epoch(epoch, memory)
                return UNDERSTOOD
            epoch = _KERAS_GLUED.match(line, start)
            if not epoch:
                return None
            self._begin_epoch(epoch, memory)
            begin = epoch.end()
        bar = _KERAS_BAR.match(line, begin)
        return None if bar is None else self._reading(bar, memory)

    def _begin_epoch(self, epoch: re.Match[str], memory: Memory) -> None:
        memory.epoch = int(epoch[1])
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
        if bar["each"]:
            values["step_seconds"] = number(bar["each"]) * UNITS.get(bar["unit"], 1.0)
        values |= {"epoch": float(memory.epoch), "n": count, "total": total}
        return memory.place(STEP, values)


def _as_evaluation(values: dict[str, float]) -> dict[str, float]:
    renamed: dict[str, float] = {}
    for name, value in values.items():
        renamed[name if name.startswith("val_") else f"val_{name}"] = value
    return renamed


_FASTAI_HEADER = LazyRegex(
    r"\s{0,8}epoch {2,20}(?P<columns>train_loss(?: {1,20}\S{1,60}){0,20} {1,20}time)\s{0,8}$"
)
_FASTAI_ROW = LazyRegex(
    r"\s{0,8}(?P<epoch>\d{1,9}) {2,20}(?P<values>\S{1,24}(?: {1,20}\S{1,24}){0,20})\s{0,8}$"
)
_FASTAI_BAR = LinePattern(
    r"Epoch <epoch:int>/<epochs:int> ?: {0,2}\|[^|\n]{0,400}\| [\d.]{1,8}% "
    r"\[<n:int>/<total:int> [\d:]{1,12}<[\d:]{1,12}(?: <loss>)?"
)
_LONGEST_ROW = 1_000


class FastaiTable:
    """Reads fastai's table: a header with the columns, a row for each epoch."""

    def __init__(self, log_format: LogFormat) -> None:
        self.open = False
        self._columns: list[str] = []
        self._names = NameTable(log_format.names)

    def read(self, line: str, start: int, memory: Memory) -> Reading | None:
        """See `FormatReader`."""
        header = _FASTAI_HEADER.match(line)
        if header:
            self.open = True
            self._columns = header["columns"].split()
            return UNDERSTOOD
        bar = _FASTAI_BAR.values(line, start) if "% [" in line else None
        if bar is not None:
            return memory.place(STEP, bar) if "loss" in bar else UNDERSTOOD
        row = _FASTAI_ROW.match(line) if self.open and len(line) < _LONGEST_ROW else None
        cells = row["values"].split() if row else []
        if not row or len(cells) != len(self._columns):
            return None
        values = {"epoch_index": float(row["epoch"])}
        self._add_cells(values, cells)
        return memory.place(EVALUATION, values)

    def _add_cells(self, values: dict[str, float], cells: Sequence[str]) -> None:
        for column, cell in zip(self._columns, cells, strict=True):
            with suppress(ValueError):  # not every cell is a number
                self._names.add(values, column, cell)
