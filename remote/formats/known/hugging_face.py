"""The Hugging Face trainer and what is built on it: a dict of Python, anywhere in the line. Its
numbers are bare up to version 4, in quotes since version 5. It has no step: that stands in the
progress bar."""

import re

from remote.formats.format import Format, Names, Sample
from remote.formats.memory import Memory
from remote.formats.numbers import NUMBER
from remote.formats.reading import EVALUATION, OTHER, STEP, Reading, evaluation, other, step

_PAIR = re.compile(
    rf"'([^'\n]{{1,80}})': (?:'({NUMBER})%?'|(?:np\.float64\()?({NUMBER})(?![\w.]))"
).findall
_BAR = re.compile(r"(\d{1,12})/(\d{1,12}) \[\d{1,4}:[^\]\n]{0,60}\]")
_OF = re.compile(r"'global_step/max_steps': '(\d{1,12})/(\d{1,12})'")


class Dict:
    """The reader of the trainer's lines."""

    def __init__(self) -> None:
        self._names = Names(
            {
                "train_loss": "train_loss",
                "loss": "loss",
                "percentage": "",
                "train_runtime": "train_runtime",
            }
        )

    def read(self, line: str, start: int, memory: Memory) -> Reading | None:
        """See `Reader`."""
        begin = line.find("{'")
        if begin < 0:
            return None
        values: dict[str, float] = {}
        names = self._names
        for name, quoted, bare in _PAIR(line, begin):
            known, factor = names(name)
            if known and known not in values:
                values[known] = float(quoted or bare) * factor
        if "epoch" not in values or len(values) < 2 or "step" in values:
            return None
        return self._reading(line, begin, values, memory)

    def _reading(
        self, line: str, begin: int, values: dict[str, float], memory: Memory
    ) -> Reading | None:
        if "train_runtime" in values or "train_loss" in values:
            kind = OTHER
        elif "loss" in values:
            kind = STEP
        elif any(name.startswith("val_") for name in values):
            kind = EVALUATION
        else:
            kind = OTHER
        reading = memory.place(kind, values)
        if reading is None:
            return None
        number, steps = self._step(line, begin, reading.epoch, memory)
        if kind is OTHER:
            number = 0
        return Reading(kind, number, reading.epoch, values, steps or reading.steps)

    def _step(self, line: str, begin: int, epoch: float, memory: Memory) -> tuple[int, int]:
        """The step and the number of all steps, as far as they are known."""
        if found := _OF.search(line, begin):
            return int(found[1]), int(found[2])
        bars = _BAR.findall(line, 0, begin) if begin else []
        if bars:
            at, memory.steps = map(int, bars[-1])
        else:
            at = memory.bar
        memory.bar = 0
        if at > memory.step and epoch:
            memory.per_epoch = at / epoch
            return at, memory.steps
        return 0, memory.steps


FORMATS = (
    Format(
        "Hugging Face Trainer",
        ("'epoch': ",),
        (
            Sample(
                "{'loss': 2.119, 'grad_norm': 37.657958984375, 'learning_rate': "
                "4.5833333333333334e-05, 'epoch': 0.25}" + " " * 100,
                [
                    step(
                        0,
                        epoch=0.25,
                        loss=2.119,
                        grad_norm=37.657958984375,
                        lr=4.5833333333333334e-05,
                    )
                ],
            ),
            Sample(
                "{'loss': '1.44', 'grad_norm': '223', 'learning_rate': '1e-05', 'epoch': '0.2727'}",
                [step(0, epoch=0.2727, loss=1.44, grad_norm=223, lr=1e-05)],
            ),
            Sample(
                "Train:   2%|▏         | 1/60 [00:55<54:36, 55.53s/it]{'loss': '0.6647', 'grad_norm': "
                "'2.5', 'learning_rate': '0', 'epoch': '0.05'}",
                [step(1, epoch=0.05, steps=60, loss=0.6647, grad_norm=2.5, lr=0)],
            ),
            Sample(
                "{'eval_loss': '0.8885', 'eval_runtime': '425.8', 'epoch': '1'}\n"
                "{'train_runtime': '70.47', 'train_samples_per_second': '1.277', 'train_loss': "
                "'2.286', 'epoch': '1'}",
                [
                    evaluation(0, epoch=1, val_loss=0.8885, val_runtime=425.8),
                    other(
                        0,
                        epoch=1,
                        train_runtime=70.47,
                        train_samples_per_second=1.277,
                        train_loss=2.286,
                    ),
                ],
            ),
        ),
        reader=Dict,
        family="Hugging Face",
    ),
)
