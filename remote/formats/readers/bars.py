"""Progress bars with metrics beside them: those of tqdm, and Lightning's."""

from __future__ import annotations

import re

from remote.formats.catalog import LogFormat
from remote.formats.memory import Memory
from remote.formats.names import canonical, is_outcome
from remote.formats.numbers import NUMBER, number
from remote.formats.patterns import LazyRegex, LinePattern, Pairs
from remote.formats.readers.line_pairs import find_pairs
from remote.formats.reading import EVALUATION, STEP, UNDERSTOOD, Reading, ReadingKind
from remote.formats.step_counter import Percentages

_UNITS = r"it/s|s/it|step/s|s/step|steps/s|batch/s|s/batch|batches/s|s/ba|ba/s"
_BAR = LazyRegex(
    r"\d{1,3}%\|[^|\r\n]{0,400}\|\s{0,4}(?P<n>\d{1,12})/(?P<total>\d{1,12}) "
    r"\[(?:[\d:]{1,12}|\d{1,4} days?, [\d:]{1,12})<(?:\d{1,4} days?, )?[\d:?-]{1,12}, {1,4}"
    rf"(?P<rate>[\d.]{{1,16}}|\?)(?P<unit>{_UNITS})(?:, (?P<postfix>[^\]\n]{{0,4000}}\]?)|\])"
)
_EPOCH = LazyRegex(r"[Ee]poch\W{0,12}(\d{1,9})(?:\s{0,2}/\s{0,2}(\d{1,9}))?")
_EVALUATES = LazyRegex(r"valid|\bval\b|eval|test|predict|sanity|infer", re.IGNORECASE)
_POSTFIX = Pairs(r"([A-Za-z_][^=,\s:|]{0,80})(?:=| ?: ?| )<num>(?=[,\]\s|;])")
_LONGEST_DESCRIPTION = 200


class Bar:
    """Reads the last bar in a line. Values behind it that are of whole epochs, such as `val_loss`,
    count once."""

    open = False

    def __init__(self, log_format: LogFormat) -> None:
        self._epochs_from_0 = False  # until epoch 0 is seen
        self._of_epoch: dict[str, float] = {}
        self._percentages = Percentages()

    def read(self, line: str, start: int, memory: Memory) -> Reading | None:
        """See `FormatReader`."""
        bars = list(_BAR.finditer(line))
        if not bars:
            return None
        bar = bars[-1]
        begin = bars[-2].end() if len(bars) > 1 else start
        description = line[max(begin, bar.start() - _LONGEST_DESCRIPTION) : bar.start()]
        values = self._values(bar, description)
        if int(bar["n"]) and any(map(is_outcome, values)):
            return self._reading(bar, description, values, memory)
        about = description.strip().lower()
        # Any other bar counts something else, such as the batches of an evaluation.
        if not about or about.startswith("train"):
            memory.bar = int(bar["n"])
            memory.steps = int(bar["total"])
        return UNDERSTOOD

    def _values(self, bar: re.Match[str], description: str) -> dict[str, float]:
        values: dict[str, float] = {}
        if bar["postfix"]:
            _POSTFIX.add_to(values, bar["postfix"])
        # A description such as "epoch 3 lr 0.1" has settings too, which are no values of a step.
        for pair in find_pairs(description.rstrip(" :"), 0):
            name, factor = canonical(pair.name)
            if is_outcome(name):
                fraction = 0.01 if pair.unit == "%" else factor
                values.setdefault(name, number(pair.value) * fraction)
        values.pop("epoch", None)
        self._percentages.make_fractions(values)
        for name in list(values):
            if name.startswith("val_") or name.endswith("_epoch"):
                if self._of_epoch.get(name) == values[name]:
                    del values[name]
                else:
                    self._of_epoch[name] = values[name]
        return values

    def _reading(
        self, bar: re.Match[str], description: str, values: dict[str, float], memory: Memory
    ) -> Reading | None:
        rate = 0.0 if bar["rate"] == "?" else number(bar["rate"])
        if rate > 0:
            is_seconds = bar["unit"].startswith("s/")
            values.setdefault("step_seconds", rate if is_seconds else 1 / rate)
        kind: ReadingKind | None = None
        is_training = "train" in description.lower() or "loss" in values
        if not is_training and _EVALUATES.search(description):
            kind = EVALUATION
        count = float(bar["n"])
        total = float(bar["total"])
        epoch = _EPOCH.search(description)
        if epoch and "step" in values:
            # NeMo's `global_step` is one behind the bar. Its bar is that of the run.
            del values["step"]
            if "consumed_samples" in values and float(epoch[1]) == 0:
                values["steps"] = total
        if epoch:
            self._epochs_from_0 = self._epochs_from_0 or epoch[1] == "0"
            if epoch[2]:
                values["epochs"] = float(epoch[2])
            values["epoch"] = float(epoch[1]) + self._epochs_from_0
            values |= {"n": count, "total": total}
        elif "step" not in values and kind is not EVALUATION:
            values |= {"step": count, "steps": total}
        return memory.place(kind, values)


_RICH_PAIR = r"([A-Za-z][\w/.@\[\]-]{0,80}): <num>(?=\s|$)"
_RICH_BAR = LinePattern(
    r"Epoch <epoch_index:int>/(?:<last_index:int>|-\d{1,9})\s{1,4}[━╸╺ ─-]{1,400}"
    r"\s<n:int>/(?:<total:int>|--)\s{1,4}[\d:]{1,12} • [\d:-]{1,12}\s{1,4}"
    r"(?:<steps_per_second>it/s)?(?P<pairs>[^\n]{0,4000})",
    _RICH_PAIR,
)
_MORE_VALUES = LazyRegex(
    rf"\s{{4,400}}(?:[A-Za-z][\w/.@\[\]-]{{0,80}}: {NUMBER}\s{{0,400}}){{1,20}}$"
)
_MORE_PAIRS = Pairs(_RICH_PAIR)
_EPOCH_BAR = LazyRegex(r"Epoch ")
_LOADER = LazyRegex(r"(?:Validation|Testing|Predicting) DataLoader |Sanity Checking")
_LONGEST_ROW = 1_000


class LightningBar(Bar):
    """Reads Lightning's bars: of tqdm, or of rich, whose values may go on in the next lines.

    Bars of other programs may begin with an epoch as well. Those of Lightning have the version of
    its logger, or come with bars of its loaders.
    """

    def __init__(self, log_format: LogFormat) -> None:
        super().__init__(log_format)
        self._epochs_from_0 = True
        self.open = False
        self._is_lightning = False
        self._place: dict[str, float] = {}

    def read(self, line: str, start: int, memory: Memory) -> Reading | None:
        """See `FormatReader`."""
        values = _RICH_BAR.values(line, start) if "•" in line else None
        if values is not None:
            return self._read_rich(values, memory)
        if self.open:
            return self._read_more(line, memory)
        if _EPOCH_BAR.match(line, start):
            self._is_lightning = self._is_lightning or "v_num=" in line
            return super().read(line, start, memory) if self._is_lightning else None
        if not _LOADER.match(line, start) or "it/s" not in line:
            return None
        self._is_lightning = True
        return UNDERSTOOD

    def _read_rich(self, values: dict[str, float], memory: Memory) -> Reading | None:
        self.open = True
        if "last_index" in values:
            values["epochs"] = values.pop("last_index") + 1
        places = values.keys() & {"epoch_index", "epochs", "n", "total"}
        self._place = {name: values[name] for name in places}
        return memory.place(STEP, values) if len(values) > len(places) else UNDERSTOOD

    def _read_more(self, line: str, memory: Memory) -> Reading | None:
        self.open = len(line) < _LONGEST_ROW and _MORE_VALUES.match(line) is not None
        if not self.open:
            return None
        values = dict(self._place)
        _MORE_PAIRS.add_to(values, line)
        return memory.place(STEP, values)
