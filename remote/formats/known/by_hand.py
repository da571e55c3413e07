"""What people print themselves: JSON, dicts of Python, name=value; and rankboard's own lines."""

import json
import re
from collections.abc import Collection
from typing import Any

from remote.formats.fields import Field, Found
from remote.formats.format import Format, Lazy, Line, Names, Sample
from remote.formats.memory import BEYOND, Memory
from remote.formats.names import NEVER, PLACES, is_outcome
from remote.formats.numbers import NUMBER, is_number
from remote.formats.reading import EVALUATION, OTHER, STEP, Reading, evaluation, other, step

_WRAPPED = Lazy(
    r"(?:tensor|np\.\w{1,10}|float)\((\s{0,2}[-+\w.]{1,40})(?:, (?:device|grad_fn|dtype)=[^)\n]{0,60})?\)"
)
_DICT_PAIR = Lazy(rf"'([\w/. ()@-]{{1,80}})': '?({NUMBER})'?(?![\w.])")
_PAIR = Lazy(
    r"((?:(?:[Tt]rain(?:ing)?|[Vv]al(?:id(?:ation)?)?|[Tt]est|[Ee]val(?:uation)?|[Ll]earning|[Gg]rad|[Aa]vg|[Aa]verage|[Mm]ean|[Tt]otal|[Rr]unning) )?"
    rf"[A-Za-z_][\w/.@-]{{0,63}})(?: {{0,2}}= {{0,2}}| ?: {{0,4}})({NUMBER})(%?)(?![\w.:/@-]|,\d)"
)
_SPACED = Lazy(
    r"(?<![\w.])(?<![Bb]est )((?:(?:[Tt]rain(?:ing)?|[Vv]al(?:id(?:ation)?)?|[Tt]est|[Ee]val(?:uation)?) )?"
    rf"[A-Za-z_][\w/@]{{0,40}}):? {{1,4}}({NUMBER})(%?)(?![\w.:/@-])"
)
_LISTED = Lazy(
    r"(?:(?<=[\d.%,;|:)\]>-])|(?<=nan|inf|NaN|NAN|INF))\s{1,8}((?:(?:[Tt]rain(?:ing)?|[Vv]al(?:id(?:ation)?)?|[Tt]est|[Ee]val(?:uation)?) )?"
    rf"[A-Za-z_][\w/@.-]{{0,63}})\s{{1,4}}({NUMBER})(%?)(?=\s{{0,8}}(?:$|[,;|)\]])|\s{{1,8}}[A-Za-z_][\w/@.-]{{0,63}}(?: [A-Za-z_][\w/@.-]{{0,63}})?[:=\s]\s{{0,4}}[-+.\d])"
)
"""A name and a number without a sign between them, after the end of another pair and before one."""
_PROSE = """
a after all and at before best but by each every for from in is last of on or over per since so the
then to took until up was with within
"""
_WORDS = frozenset(_PROSE.split())
"""What stands before a number in a sentence and is no name of it."""
_COUNTER = Lazy(
    r"[\W_]{0,8}(?:rank[= :]{1,2}\d{1,6}[\s,|\]]{1,4})?(?:train(?:ing)?[\s:|>-]{1,4})?"
    r"(?P<what>global[_ ]step|train[_ ]step|epoch|iteration|iter|step|it|batch|update)\]?"
    r"[\s:=#\[(]{1,6}(?P<n>\d{1,12})(?:\s{0,4}(?:/|of)\s{0,4}(?P<total>\d{1,12}))?(?![\w.%])",
    re.IGNORECASE,
)
_SECOND = Lazy(
    r"[^\n]{0,12}?\b(?P<what>step|iter|iteration|batch)\b[\s:=#\[(]{1,6}(?P<n>\d{1,12})(?:\s{0,4}(?:/|of)\s{0,4}(?P<total>\d{1,12}))?(?![\w.%])",
    re.IGNORECASE,
)


_ACCURACIES = frozenset(("accuracy", "val_accuracy", "accuracy_top5", "val_accuracy_top5"))


class Counter:
    """Where a hand-made line stands in the run. Finds out whether steps count anew in each epoch:
    they do where both are told with their totals, and once they fall while the epoch rises."""

    def __init__(self) -> None:
        self._epoch = self._step = self._base = 0.0
        self._anew = False
        self._percent: set[str] = set()

    def reading(self, values: dict[str, float], memory: Memory) -> Reading | None:
        """The reading of values that tell something, see `_tells`; None of others."""
        return self.located(values, memory) if _tells(values) else None

    def located(self, values: dict[str, float], memory: Memory) -> Reading | None:
        """The reading of values; None where there is none but places."""
        if "step" in values:
            values["step"] = memory.count(None, values["step"], values)
        if "epoch" in values:
            values["epoch"] = memory.count_epoch(values["epoch"], values)
        if "step" in values and "epoch" in values:
            self._count(values)
        for name in () if _ACCURACIES.isdisjoint(values) else sorted(_ACCURACIES):
            if values.get(name, 0.0) > 1:
                self._percent.add(name)
            if name in values and name in self._percent:
                values[name] /= 100
        return memory.placed(None, values)

    def _count(self, values: dict[str, float]) -> None:
        epoch = values["epoch"]
        number = values["step"]
        steps = values.get("steps", 0.0)
        if not (0 <= epoch < BEYOND and 0 <= number < BEYOND and 0 <= steps < BEYOND):
            return
        if "steps" in values and values.get("epochs", 0.0) > 1:  # of an epoch
            values["step"] = max(0.0, epoch - 1) * values["steps"] + number
            values["steps"] *= values["epochs"]
            return
        if epoch > self._epoch and number <= self._step:
            self._anew = True
        if self._anew and epoch > self._epoch:
            self._base += values.get("steps", self._step)
        self._epoch = epoch
        self._step = number
        if self._anew:
            values["step"] = self._base + number
            if "steps" in values:
                values["steps"] *= values.get("epochs", 0.0)


def _tells(names: Collection[str]) -> bool:
    """Whether values of these names tell a step or an epoch, and what training strives for."""
    return ("step" in names or "epoch" in names) and any(
        name not in PLACES and is_outcome(name) for name in names
    )


class Objects:
    """The reader of JSON objects and dicts of Python, one a line."""

    open = False

    def __init__(self) -> None:
        self._names = Names()
        self._counter = Counter()

    def read(self, line: str, start: int, memory: Memory) -> Reading | None:
        """See `Reader`."""
        begin = line.find("{", start, start + 200)
        if begin < 0 or line[start:begin].rstrip().endswith(("=", "(")):  # code
            return None
        values: dict[str, float] = {}
        before = re.match(r"\s{0,8}(\d{1,12}) \{", line[start : begin + 1])
        if before:
            values["step"] = float(before[1])
        for name, value in self._pairs(line[begin:]):
            known, factor = self._names(name)
            if known is not NEVER and known not in values:
                values[known] = float(value) * factor
        if "step" in values:
            return self._counter.located(values, memory)
        return self._counter.reading(values, memory)

    def _pairs(self, text: str) -> list[tuple[str, Any]]:
        if text[:2] == "{'":
            pairs: list[tuple[str, Any]] = _DICT_PAIR.findall(_WRAPPED.sub(r"\1", text))
            return pairs
        try:
            found, _ = json.JSONDecoder().raw_decode(text)
        except (ValueError, RecursionError):
            return []
        return [(name, value) for name, value in found.items() if is_number(value)]


class KeyValue:
    """The reader of lines that begin with a counter such as `epoch 3`, or with name=value."""

    open = False

    def __init__(self) -> None:
        self._names = Names({"Epoch": "epoch", "Step": "step"})
        self._counter = Counter()

    def read(self, line: str, start: int, memory: Memory) -> Reading | None:
        """See `Reader`."""
        place = _COUNTER.match(line, start)
        if place is None and ("(" in line or not _PAIR.match(line, start)):
            return None
        if "(" in line:
            line = _WRAPPED.sub(r"\1", line)
        found = self._found(line, start, place)
        return None if found is None else found.tell(found.values(line), memory)

    def numbers(self, line: str, start: int) -> Found | None:
        """See `Finder`."""
        if "(" in line and _WRAPPED.search(line):
            return None
        return self._found(line, start, _COUNTER.match(line, start))

    def _found(self, line: str, start: int, place: re.Match[str] | None) -> Found | None:
        fields: dict[str, Field] = {}
        for found in _PAIR.finditer(line, start):
            self._put(fields, found)
        if not any(map(is_outcome, fields)):
            for found in _SPACED.finditer(line, start):
                known, _ = self._names(found[1])
                if is_outcome(known) or (known != found[1] and known not in PLACES):
                    self._put(fields, found)
        if place is not None:
            self._place(place, fields)
            second = _SECOND.match(line, place.end())
            if second is not None:
                self._place(second, fields)
            if any(map(is_outcome, fields)):
                self._put_listed(fields, line, (second or place).end())
        return Found(list(fields.values()), self._counter.located) if _tells(fields) else None

    def _put_listed(self, fields: dict[str, Field], line: str, begin: int) -> None:
        """Add the pairs without a sign, which stand between commas or one after the other."""
        for found in _LISTED.finditer(line, begin):
            known, _ = self._names(found[1])
            if known not in PLACES and found[1].lower() not in _WORDS:
                self._put(fields, found)

    def _put(self, fields: dict[str, Field], found: re.Match[str]) -> None:
        known, factor = self._names(found[1])
        if known is not NEVER and known not in fields:
            factor = 0.01 if found[3] else factor
            fields[known] = Field(known, factor, *found.span(2), found.start(1))

    def _place(self, found: re.Match[str], fields: dict[str, Field]) -> None:
        """Add what a counter says."""
        what = found["what"].lower()
        if what == "epoch":
            names = "epoch", "epochs"
        elif what != "batch" or "epoch" in fields:
            names = "step", "steps"
        else:
            return
        for name, group in zip(names, ("n", "total"), strict=True):
            if found[group] and (name not in fields or fields[name][2:4] == found.span(group)):
                fields[name] = Field(name, 1.0, *found.span(group), found.start(group), whole=True)


JSON_LINES = Format(
    "JSON lines",
    (
        'step"',
        '"epoch"',
        "step'",
        "'epoch'",
        '"iter',
        '"current_steps"',
        "'iter",
    ),
    (
        Sample('{"step": 10, "loss": 0.516, "lr": 0.001}', [step(10, loss=0.516, lr=0.001)]),
        Sample(
            "{'loss': 0.516, 'val_loss': 0.5113, 'val_accuracy': 0.845, 'step': 10, 'epoch': 0}\r\n",
            [step(10, epoch=1, loss=0.516, val_loss=0.5113, val_accuracy=0.845)],
        ),
        Sample(
            '2026-01-01 10:00:00 INFO {"epoch": 2, "val_loss": 0.25, "port": 8080}',
            [evaluation(0, epoch=2, val_loss=0.25)],
        ),
        Sample(
            '{"current_steps": 5, "total_steps": 60, "loss": 1.25, "lr": 1e-05, "epoch": 0.25, "percentage": 8.33, "elapsed_time": "0:00:12", "remaining_time": "0:02:10"}',
            [step(5, steps=60, epoch=0.25, loss=1.25, lr=1e-5)],
        ),
        Sample('{"step": 1, "valx": 1}', [other(1, valx=1)]),
        Sample(
            '{"_step": 0, "_timestamp": 1795490498.25, "_runtime": 3.5, "loss": 5.0}',
            [step(1, loss=5.0)],
        ),
        Sample(
            '{"step": 0, "loss": 5.0}\n{"step": 1, "loss": 4.0}',
            [step(1, loss=5.0), step(2, loss=4.0)],
        ),
        Sample(
            "{'step': 3, 'loss': np.float64(0.25)}",
            [step(3, loss=0.25)],
        ),
    ),
    reader=Objects,
    generic=True,
)
TENSORS = Format(
    "printed tensors",
    ("': tensor(",),
    (
        Sample(
            "8 {'loss_classifier': tensor(0.1707, grad_fn=<NllLossBackward0>), 'loss_box_reg': tensor(0.2500, device='cuda:0')}",
            [step(8, loss_classifier=0.1707, loss_box_reg=0.25)],
        ),
    ),
    reader=Objects,
    generic=True,
)
NAME_VALUE = Format(
    "name=value",
    ("step", "Step", "STEP", "poch", "EPOCH", "iter", "Iter", "ITER", "atch ", "pdate "),
    (
        Sample(
            "rank=0 epoch=1 step=50 loss=1.2345 ppl=3.456 lr=1e-4",
            [step(50, epoch=1, loss=1.2345, perplexity=3.456, lr=1e-4)],
        ),
        Sample(
            "step 0 loss 5.0\nstep 100 loss 4.0\nstep 200 loss 3.0",
            [step(1, loss=5.0), step(101, loss=4.0), step(201, loss=3.0)],
        ),
        Sample(
            "Epoch 0/2, Step 0/2, Loss: 4.5\nEpoch 0/2, Step 1/2, Loss: 4.0\nEpoch 1/2, Step 0/2, Loss: 3.5",
            [
                step(1, epoch=1, steps=4, loss=4.5),
                step(2, epoch=1, steps=4, loss=4.0),
                step(3, epoch=2, steps=4, loss=3.5),
            ],
        ),
        Sample("iter 18 rmse 12.2614 r2 0.9960", [step(18, rmse=12.2614, r2=0.996)]),
        Sample(
            "epoch=3 val_loss=0.25 val_acc=0.9",
            [evaluation(0, epoch=3, val_loss=0.25, val_accuracy=0.9)],
        ),
        Sample(
            "Epoch [1/2], Step [100/100], Loss: 0.5, Acc: 91.50%\nEpoch [2/2], Step [50/100], Loss: 0.25, Acc: 95.00%",
            [
                step(100, epoch=1, steps=200, loss=0.5, accuracy=0.915),
                step(150, epoch=2, steps=200, loss=0.25, accuracy=0.95),
            ],
        ),
        Sample(
            "epoch 1 step 5 loss 0.5\nepoch 1 step 10 loss 0.4\nepoch 2 step 5 loss 0.3",
            [step(5, epoch=1, loss=0.5), step(10, epoch=1, loss=0.4), step(15, epoch=2, loss=0.3)],
        ),
        Sample(
            "Epoch 2/10, Train Loss: 0.1561, Validation Loss: 0.1345, Accuracy: 96.11%",
            [step(0, epoch=2, loss=0.1561, val_loss=0.1345, accuracy=0.9611)],
        ),
        Sample(
            "Epoch: 3 | Train Loss: 0.125 | Val Loss: 0.22 | Val Acc: 90.5",
            [step(0, epoch=3, loss=0.125, val_loss=0.22, val_accuracy=0.905)],
        ),
        Sample(
            "step 10 | loss 0.5 | grad_norm 1.3 | lr 1e-1\nstep 11, loss 0.5, grad_norm 1.2, lr 1e-1",
            [
                step(10, loss=0.5, grad_norm=1.3, lr=0.1),
                step(11, loss=0.5, grad_norm=1.2, lr=0.1),
            ],
        ),
        Sample(
            "step 1 loss 3 tokens 512 mfu 0.3 acc 0.5 custom 7",
            [step(1, loss=3, tokens=512, mfu=0.3, accuracy=0.5, custom=7)],
        ),
        Sample(
            "epoch 0 test accuracy 0.5220\nepoch 1 test acc 0.6",
            [
                evaluation(0, epoch=1, val_accuracy=0.522),
                evaluation(0, epoch=2, val_accuracy=0.6),
            ],
        ),
        Sample(
            "epoch 1 train loss 0.5 test loss 0.25 test acc 0.6",
            [step(0, epoch=1, loss=0.5, val_loss=0.25, val_accuracy=0.6)],
        ),
        Sample(
            "epoch 3 of 5, after 7 minutes, best 9: loss 0.5 in 6 s",
            [step(0, epoch=3, loss=0.5)],
        ),
        Sample("step 7: loss = tensor(0.3000, device='cuda:0')", [step(7, loss=0.3)]),
        Sample(
            "2026-01-01 10:00:00,123 INFO train: iteration 40 loss nan",
            [step(40, loss=float("nan"))],
        ),
    ),
    reader=KeyValue,
    generic=True,
)


class Tutorial:
    """The reader of the lines of PyTorch's tutorials, which count batches or samples in an epoch
    and tell no step."""

    open = False
    _batches = Line(r"^\[<epoch:int>, {1,8}<num>\] loss: <loss>\s{0,4}$")
    _samples = Line(r"^loss: <loss> {1,4}\[ {0,8}<n:int>/ {0,8}<total:int>\]")
    _tested = Line(r"^ ?Accuracy: <val_accuracy__percent>%, Avg loss: <val_loss>", EVALUATION)
    _epoch = Lazy(r"Epoch (\d{1,9})\s{0,4}$")

    def read(self, line: str, start: int, memory: Memory) -> Reading | None:
        """See `Reader`."""
        found = self._epoch.match(line, start)
        if found:
            memory.epoch = int(found[1])
            return None
        values = self._samples.values(line, start)
        if values:
            passed = max(0, memory.epoch - 1) + values.pop("n") / max(1, values.pop("total"))
            return memory.place(None, values | {"epoch": passed})
        values = self._tested.values(line, start)
        if values:
            return memory.place(EVALUATION, values | {"epoch": float(memory.epoch)})
        return self._batches.read(line, start, memory)


TUTORIAL = Format(
    "PyTorch tutorial",
    ("loss: ", "Epoch "),
    (
        Sample("[1,  2000] loss: 2.173", [step(0, epoch=1, loss=2.173)]),
        Sample(
            "loss: 2.303494  [   64/60000]\nloss: 2.250000  [ 6464/60000]",
            [step(0, epoch=64 / 60000, loss=2.303494), step(0, epoch=6464 / 60000, loss=2.25)],
        ),
        Sample(
            "Epoch 2\n-------------------------------\nloss: 1.500000  [30000/60000]\nTest Error: \n Accuracy: 58.8%, Avg loss: 1.080000 \n",
            [
                step(0, epoch=1.5, loss=1.5),
                evaluation(0, epoch=2, val_accuracy=0.588, val_loss=1.08),
            ],
        ),
    ),
    reader=Tutorial,
    generic=True,
)


class Rankboard:
    """The reader of what rankboard's own ranks print, now and before. Batches count from 0 in an
    epoch, which is told at its end."""

    open = False
    _lines = (
        Line(
            r"^epoch <epoch:int> step <step:int>/<steps:int> loss <loss> acc <accuracy> <step_seconds> s/iter"
        ),
        Line(r"^epoch <epoch:int> done: mean loss <train_loss> acc <train_accuracy> ", OTHER),
        Line(r"^epoch <epoch:int> test loss <val_loss> acc <val_accuracy>", EVALUATION),
    )
    _batch = Line(
        r"^Rank: \d{1,6} Batch Idx: <n_index:int>, Batch Loss: <loss>, Batch Accuracy: <accuracy>, Batch Duration: <step_seconds> seconds"
    )
    _epoch = Line(
        r"^Rank: \d{1,6} Epoch: <epoch:int>, Train Loss: <train_loss>, Train Accuracy: <train_accuracy>, Avg Batch Duration: ",
        OTHER,
    )
    _test = Line(r"^Test Loss: <val_loss>, Test Accuracy: <val_accuracy>", EVALUATION)

    def __init__(self) -> None:
        self._ended = 0.0

    def read(self, line: str, start: int, memory: Memory) -> Reading | None:
        """See `Reader`."""
        values = self._batch.values(line, start)
        if values:
            return memory.place(STEP, values | {"epoch": self._ended + 1})
        values = self._epoch.values(line, start)
        if values:
            self._ended = values["epoch"]
            return memory.place(OTHER, values)
        if self._ended and (values := self._test.values(line, start)):
            return memory.place(EVALUATION, values | {"epoch": self._ended})
        for one in self._lines:
            reading = one.read(line, start, memory)
            if reading is not None:
                return reading
        return None


RANKBOARD = Format(
    "rankboard",
    ("s/iter", " test loss ", " Batch Idx: ", " Avg Batch Duration: ", "Test Loss: "),
    (
        Sample(
            "epoch 1 step 1/500 loss 2.2913 acc 0.20 0.040 s/iter\nepoch 1 done: mean loss 2.2908 acc 0.20 0.018 s/iter, 0.09 s\nepoch 1 test loss 2.3022 acc 0.1500",
            [
                step(1, epoch=1, steps=500, loss=2.2913, accuracy=0.2, step_seconds=0.04),
                other(0, epoch=1, steps=500, train_loss=2.2908, train_accuracy=0.2),
                evaluation(0, epoch=1, steps=500, val_loss=2.3022, val_accuracy=0.15),
            ],
        ),
        Sample(
            "Rank: 0 Batch Idx: 20, Batch Loss: 1.413, Batch Accuracy: 0.484, Batch Duration: 2.267 seconds\n"
            "Rank: 0 Epoch: 1, Train Loss: 1.649, Train Accuracy: 0.398, Avg Batch Duration: 2.382 seconds, Epoch Duration: 95.290 seconds\n"
            "Test Loss: 1.617, Test Accuracy: 0.425\n"
            "Rank: 0 Batch Idx: 0, Batch Loss: 1.313, Batch Accuracy: 0.500, Batch Duration: 2.267 seconds",
            [
                step(21, epoch=1, loss=1.413, accuracy=0.484, step_seconds=2.267),
                other(0, epoch=1, train_loss=1.649, train_accuracy=0.398),
                evaluation(0, epoch=1, val_loss=1.617, val_accuracy=0.425),
                step(0, epoch=2, loss=1.313, accuracy=0.5, step_seconds=2.267),
            ],
        ),
    ),
    reader=Rankboard,
)

FORMATS = (RANKBOARD, TENSORS, JSON_LINES, TUTORIAL, NAME_VALUE)
