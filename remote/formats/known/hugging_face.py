"""The Hugging Face trainer and what is built on it: a dict of Python, anywhere in the line. Its
numbers are bare up to version 4, in quotes since version 5. It has no step: that stands in the
progress bar."""

from remote.formats.fields import Field, Found
from remote.formats.format import Format, Ignored, Lazy, Line, Names, Sample
from remote.formats.memory import Memory, whole
from remote.formats.names import NEVER
from remote.formats.numbers import NUMBER
from remote.formats.reading import (
    EVALUATION,
    OTHER,
    STEP,
    UNDERSTOOD,
    Kind,
    Reading,
    evaluation,
    other,
    step,
)

PAIR = Lazy(rf"'([^'\n]{{1,80}})': (?:np\.\w{{1,10}}\()?(?:'({NUMBER})%?'|({NUMBER})(?![\w.]))")
_BAR = Lazy(r"(\d{1,12})/(\d{1,12}) \[\d{1,4}:[^\]\n]{0,60}\]")
_OF = Lazy(r"'global_step/max_steps': '(\d{1,12})/(\d{1,12})'")
_ALL_STEPS = Lazy(r"^\W{0,8}Total optimization steps = ([\d,]{1,20})")
_EPOCHS = Lazy(r"^\W{0,8}Num Epochs = ([\d,]{1,12})")
_AT = "n of all"
_ALL = "all"
"""Names of what `_OF` finds."""
_RUN = frozenset(("train_runtime", "train_loss", "train_samples_per_second"))
NAMES = {
    "train_loss": "train_loss",
    "percentage": "",
    "entropy": "entropy",
    "throughput": "tokens_per_second",
    "total_flos": "",
    "elapsed_time": "",
    "tokens/train_per_sec_per_gpu": "tokens_per_second_per_device",
    "train_tokens_per_second": "tokens_per_second",
    "eval_runtime": "val_seconds",
    "eval_samples_per_second": "val_samples_per_second",
    "eval_steps_per_second": "",
}


class Dict:
    """The reader of the trainer's lines."""

    open = False

    def __init__(self) -> None:
        self._names = Names(NAMES)

    def read(self, line: str, start: int, memory: Memory) -> Reading | None:
        """See `Reader`."""
        begin = line.find("{'")
        if begin < 0:
            return self._header(line, start, memory)
        found = self._numbers(line, begin)
        if found is None:
            return None
        bars = _BAR.findall(line, 0, begin) if begin else ()
        return self._told(found.values(line), bars[-1] if bars else None, memory)

    def numbers(self, line: str, start: int) -> Found | None:
        """See `Finder`. What a bar before the dict tells is none of its numbers."""
        begin = line.find("{'")
        if begin < 0 or _BAR.search(line, 0, begin):
            return None
        return self._numbers(line, begin)

    def _numbers(self, line: str, begin: int) -> Found | None:
        fields: list[Field] = []
        known: set[str] = set()
        for found in PAIR.finditer(line, begin):
            name, factor = self._names(found[1])
            name = NEVER if name in known else name
            known.add(name)
            begins, ends = found.span(found.lastindex)
            fields.append(Field(name, factor, begins, ends, found.start()))
        if "epoch" not in known or len(known - {NEVER}) < 2 or "step" in known:
            return None
        place = _OF.search(line, begin)
        if place:
            for name, group in ((_AT, 1), (_ALL, 2)):
                begins, ends = place.span(group)
                fields.append(Field(name, 1.0, begins, ends, begins, whole=True))
        return Found(fields, self._tell)

    def _tell(self, values: dict[str, float], memory: Memory) -> Reading | None:
        return self._told(values, None, memory)

    def _header(self, line: str, start: int, memory: Memory) -> Reading | None:
        """What the trainer says before it begins."""
        text = line[start : start + 200]
        found = _ALL_STEPS.match(text)
        if found:
            memory.steps = int(found[1].replace(",", ""))
        elif found := _EPOCHS.match(text):
            memory.epochs = int(found[1].replace(",", ""))
        else:
            return None
        if memory.steps and memory.epochs:
            memory.per_epoch = memory.steps / memory.epochs
        return UNDERSTOOD

    def _told(
        self, values: dict[str, float], bar: tuple[str, str] | None, memory: Memory
    ) -> Reading | None:
        kind: Kind = STEP
        if not _RUN.isdisjoint(values):
            kind = OTHER
        elif "loss" not in values and any(name.startswith("val_") for name in values):
            kind = EVALUATION
        if _AT in values:
            at = values.pop(_AT)
            steps = values.pop(_ALL)
        else:
            at = self._step(values["epoch"], bar, memory, kind)
            steps = memory.steps
        if at:
            values["step"] = at
        if steps:
            values["steps"] = steps
        return memory.place(kind, values)

    def _step(self, epoch: float, bar: tuple[str, str] | None, memory: Memory, kind: Kind) -> int:
        """The step as far as it is known: from the bar before the dict, or from the epoch."""
        at = memory.bar
        memory.bar = 0
        if kind is not STEP:
            return 0
        if bar:
            at, memory.steps = map(int, bar)
        if not memory.step < at or not epoch:
            at = whole(epoch * memory.per_epoch + 0.5)
        return at


FAMILY = "Hugging Face"
TRL = Format(
    "TRL",
    ("'mean_token_accuracy': ", "'rewards/", "'completions/", "'num_tokens': "),
    (
        Sample(
            "{'loss': '1.823', 'grad_norm': '0.6094', 'learning_rate': '0.0001747', 'entropy': '1.829', 'num_tokens': '2.424e+04', 'mean_token_accuracy': '0.6248', 'epoch': '0.4'}",
            [
                step(
                    0,
                    epoch=0.4,
                    loss=1.823,
                    grad_norm=0.6094,
                    lr=0.0001747,
                    entropy=1.829,
                    num_tokens=24240,
                    accuracy=0.6248,
                )
            ],
        ),
        Sample(
            "{'loss': 0.0001, 'grad_norm': 0.25, 'learning_rate': 1e-06, 'rewards/accuracies': 0.75, 'completions/mean_length': 210.5, 'reward@8': 0.5, 'epoch': 0.01}",
            [
                step(
                    0,
                    {"rewards/accuracies": 0.75, "completions/mean_length": 210.5, "reward@8": 0.5},
                    epoch=0.01,
                    loss=0.0001,
                    grad_norm=0.25,
                    lr=1e-6,
                )
            ],
        ),
    ),
    reader=Dict,
    family=FAMILY,
)
AXOLOTL = Format(
    "axolotl",
    ("'memory/max_active (GiB)': ", "'tokens/trainable': ", "'tokens/train_per_sec_per_gpu': "),
    (
        Sample(
            "{'loss': '0.7157', 'grad_norm': '12.79', 'learning_rate': '0', 'ppl': '2.046', 'memory/max_active (GiB)': '2.98', 'memory/device_reserved (GiB)': '4.12', 'tokens/trainable': 93, 'tokens/total': 512, 'tokens/train_per_sec_per_gpu': '3049', 'epoch': '0.1333'}",
            [
                step(
                    0,
                    {
                        "memory/max_active (GiB)": 2.98,
                        "memory/device_reserved (GiB)": 4.12,
                        "tokens/trainable": 93,
                        "tokens/total": 512,
                    },
                    epoch=0.1333,
                    loss=0.7157,
                    grad_norm=12.79,
                    lr=0,
                    perplexity=2.046,
                    tokens_per_second_per_device=3049,
                )
            ],
        ),
    ),
    reader=Dict,
    family=FAMILY,
)
LLAMA_FACTORY = Format(
    "LLaMA-Factory",
    ("'throughput': ",),
    (
        Sample(
            "[INFO|2024-07-01 10:00:00] llamafactory.train.callbacks:143 >> {'loss': 1.3391, 'learning_rate': 4.9e-05, 'epoch': 0.05, 'throughput': 2300.5}",
            [step(0, epoch=0.05, loss=1.3391, lr=4.9e-5, tokens_per_second=2300.5)],
        ),
    ),
    reader=Dict,
    family=FAMILY,
)
MS_SWIFT = Format(
    "ms-swift",
    ("'global_step/max_steps': ",),
    (
        Sample(
            "{'loss': 1.47077751, 'grad_norm': 10.5625, 'learning_rate': 2e-06, 'token_acc': 0.65511727, 'epoch': 0.01, 'global_step/max_steps': '1/94', 'percentage': '1.06%', 'elapsed_time': '2s', 'remaining_time': '4m 28s', 'memory(GiB)': 4.87, 'train_speed(iter/s)': 0.345807}",
            [
                step(
                    1,
                    {"memory(GiB)": 4.87},
                    steps=94,
                    epoch=0.01,
                    loss=1.47077751,
                    grad_norm=10.5625,
                    lr=2e-6,
                    accuracy=0.65511727,
                    step_seconds=1 / 0.345807,
                )
            ],
        ),
        Sample(
            "{'loss': '1.4', 'learning_rate': '2e-06', 'epoch': '0.02', 'global_step/max_steps': '2/94', 'train_speed(s/it)': '55.54'}",
            [step(2, steps=94, epoch=0.02, loss=1.4, lr=2e-6, step_seconds=55.54)],
        ),
    ),
    reader=Dict,
    family=FAMILY,
)
UNSLOTH = Format(
    "Unsloth",
    ('"-____-"',),
    (
        Sample(
            '  "-____-"     Trainable parameters = 122,429,440 of 31,395,515,952 (0.39% trained)\n'
            "{'loss': 1.5, 'grad_norm': 0.5, 'learning_rate': 0.0002, 'epoch': 0.1}",
            [step(0, epoch=0.1, loss=1.5, grad_norm=0.5, lr=0.0002)],
        ),
    ),
    (Ignored('"-____-"'),),
    family=FAMILY,
)
TRAINER = Format(
    "Hugging Face Trainer",
    ("'epoch': ", "Total optimization steps = ", "Num Epochs = "),
    (
        Sample(
            "{'loss': 2.119, 'grad_norm': 37.657958984375, 'learning_rate': 4.5833333333333334e-05, 'epoch': 0.25}"
            + " " * 100,
            [step(0, epoch=0.25, loss=2.119, grad_norm=37.657958984375, lr=4.5833333333333334e-05)],
        ),
        Sample(
            "{'loss': '1.44', 'grad_norm': '223', 'learning_rate': '1e-05', 'epoch': '0.2727'}",
            [step(0, epoch=0.2727, loss=1.44, grad_norm=223, lr=1e-05)],
        ),
        Sample(
            "Train:   2%|▏         | 1/60 [00:55<54:36, 55.53s/it]{'loss': '0.6647', 'grad_norm': '2.5', 'learning_rate': '0', 'epoch': '0.05'}",
            [step(1, epoch=0.05, steps=60, loss=0.6647, grad_norm=2.5, lr=0)],
        ),
        Sample(
            "\r 51%|█████     | 2110/4128 [1:00<1:00,  3.33s/it]\n{'loss': 0.5, 'learning_rate': 1e-05, 'epoch': 1.53}\n{'eval_loss': 0.6, 'eval_runtime': 12.5, 'epoch': 1.53}",
            [
                step(2110, epoch=1.53, steps=4128, loss=0.5, lr=1e-5),
                evaluation(0, epoch=1.53, steps=4128, val_loss=0.6, val_seconds=12.5),
            ],
        ),
        Sample(
            "***** Running training *****\n  Num examples = 3,668\n  Num Epochs = 3\n  Total optimization steps = 345\n{'loss': 0.5, 'learning_rate': 1e-05, 'epoch': 0.2}",
            [step(23, epoch=0.2, steps=345, loss=0.5, lr=1e-5)],
        ),
        Sample(
            "{'eval_loss': '0.8885', 'eval_runtime': '425.8', 'epoch': '1'}\n"
            "{'train_runtime': '70.47', 'train_samples_per_second': '1.277', 'train_loss': '2.286', 'epoch': '1'}",
            [
                evaluation(0, epoch=1, val_loss=0.8885, val_seconds=425.8),
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
    family=FAMILY,
)


class Accelerate:
    """The reader of the examples of Accelerate: what an epoch ended with."""

    open = False
    _percent = Line(r"^epoch <epoch_index:int>: <val_accuracy__percent>\s{0,4}$", EVALUATION)
    _epoch = Lazy(r"epoch (\d{1,9}): \{'")

    def __init__(self) -> None:
        self._names = Names(
            {
                "accuracy": "val_accuracy",
                "f1": "val_f1",
                "train_loss": "train_loss",
                "eval_loss": "val_loss",
            }
        )

    def read(self, line: str, start: int, memory: Memory) -> Reading | None:
        """See `Reader`."""
        found = self._epoch.match(line, start)
        if found is None:
            return self._percent.read(line, start, memory)
        values = {"epoch_index": float(found[1])}
        for name, quoted, bare in PAIR.findall(line, found.end() - 2):
            known, factor = self._names(name)
            if known:
                values.setdefault(known, float(quoted or bare) * factor)
        return memory.place(EVALUATION, values)


ACCELERATE = Format(
    "Accelerate examples",
    ("epoch ",),
    (
        Sample(
            "[1,mpirank:0,algo-1]<stdout>:epoch 0: {'accuracy': 0.6862745098039216, 'f1': 0.8134110787172011}",
            [evaluation(0, epoch=1, val_accuracy=0.6862745098039216, val_f1=0.8134110787172011)],
        ),
        Sample("epoch 0: 91.25", [evaluation(0, epoch=1, val_accuracy=0.9125)]),
    ),
    reader=Accelerate,
)


class OpenRlhf:
    """The reader of the steps of PPO in OpenRLHF."""

    open = False
    _step = Lazy(r"Global step (\d{1,12}): \{'")

    def __init__(self) -> None:
        self._names = Names({"actor_lr": "lr"})

    def read(self, line: str, start: int, memory: Memory) -> Reading | None:
        """See `Reader`."""
        found = self._step.search(line)
        if found is None:
            return None
        values = {"step": float(found[1])}
        for name, quoted, bare in PAIR.findall(line, found.end() - 2):
            known, factor = self._names(name)
            if known:
                values.setdefault(known, float(quoted or bare) * factor)
        return memory.place(STEP, values)


OPENRLHF = Format(
    "OpenRLHF",
    ("Global step ",),
    (
        Sample(
            "(PPOTrainer pid=12) 2025-01-01 10:00:00 INFO ✨ Global step 1: {'policy_loss': 0.024, 'kl': 0.001, 'actor_lr': 5e-07}",
            [step(1, policy_loss=0.024, kl=0.001, lr=5e-7)],
        ),
    ),
    reader=OpenRlhf,
)

FORMATS = (UNSLOTH, AXOLOTL, MS_SWIFT, TRL, LLAMA_FACTORY, TRAINER, OPENRLHF, ACCELERATE)
