"""The Hugging Face trainer and what is built on it: a dict of Python, anywhere in the line.

Its numbers are bare up to version 4, in quotes since version 5. The dict has no step: that is in
the progress bar before it, or follows from the epoch.
"""

from __future__ import annotations

from remote.formats.catalog import LogFormat
from remote.formats.memory import Memory, as_count
from remote.formats.numbers import NUMBER
from remote.formats.patterns import LazyRegex, Pairs
from remote.formats.reading import EVALUATION, OTHER, STEP, UNDERSTOOD, Reading, ReadingKind

_PAIR = rf"'([^'\n]{{1,80}})': (?:np\.\w{{1,10}}\()?(')?({NUMBER})(?(2)%?'|(?![\w.]))"
_BAR = LazyRegex(r"(\d{1,12})/(\d{1,12}) \[\d{1,4}:[^\]\n]{0,60}\]")
_STEP_OF_ALL = LazyRegex(r"'global_step/max_steps': '(\d{1,12})/(\d{1,12})'")
_ALL_STEPS = LazyRegex(r"^\W{0,8}Total optimization steps = ([\d,]{1,20})")
_ALL_EPOCHS = LazyRegex(r"^\W{0,8}Num Epochs = ([\d,]{1,12})")
_OF_RUN = frozenset(("train_runtime", "train_loss", "train_samples_per_second"))
"""Values that only the last dict of a run has."""


class TrainerDict:
    """Reads the dicts, and what the trainer prints before it begins."""

    open = False

    def __init__(self, log_format: LogFormat) -> None:
        self._pairs = Pairs(_PAIR, log_format.names)

    def read(self, line: str, start: int, memory: Memory) -> Reading | None:
        """See `FormatReader`."""
        begin = line.find("{'")
        if begin < 0:
            return _read_header(line[start : start + 200], memory)
        values: dict[str, float] = {}
        self._pairs.add_to(values, line[begin:])
        if "epoch" not in values or len(values) < 2 or "step" in values:
            return None
        kind = _kind_of(values)
        place = _STEP_OF_ALL.search(line, begin)
        if place:
            step = int(place[1])
            steps = int(place[2])
        else:
            bars = _BAR.findall(line, 0, begin)
            step = _find_step(kind, values["epoch"], bars[-1] if bars else None, memory)
            steps = memory.steps
        if step:
            values["step"] = step
        if steps:
            values["steps"] = steps
        return memory.place(kind, values)


def _read_header(text: str, memory: Memory) -> Reading | None:
    all_steps = _ALL_STEPS.match(text)
    all_epochs = _ALL_EPOCHS.match(text)
    if all_steps:
        memory.steps = int(all_steps[1].replace(",", ""))
    elif all_epochs:
        memory.epochs = int(all_epochs[1].replace(",", ""))
    else:
        return None
    if memory.steps and memory.epochs:
        memory.per_epoch = memory.steps / memory.epochs
    return UNDERSTOOD


def _kind_of(values: dict[str, float]) -> ReadingKind:
    if not _OF_RUN.isdisjoint(values):
        return OTHER
    if "loss" not in values and any(name.startswith("val_") for name in values):
        return EVALUATION
    return STEP


def _find_step(kind: ReadingKind, epoch: float, bar: tuple[str, str] | None, memory: Memory) -> int:
    """Return the step by the bar in front of the dict or in a line before it, or else by the epoch;
    0 if it is unknown."""
    step = memory.bar
    memory.bar = 0
    if kind is not STEP:
        return 0
    if bar:
        step = int(bar[0])
        memory.steps = int(bar[1])
    # A bar that has not moved since the last dict is that of another loop, such as an evaluation.
    if step <= memory.step or not epoch:
        # The epoch is printed with few digits, so its step is the nearest whole number.
        return as_count(epoch * memory.per_epoch + 0.5)
    return step
