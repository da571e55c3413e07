"""Progress bars with metrics beside them."""

import re
from collections.abc import Callable

from remote.formats.format import UNITS, Format, Lazy, Line, Names, Pairs, Sample
from remote.formats.memory import Memory
from remote.formats.names import NEVER, is_outcome
from remote.formats.numbers import NUMBER, number
from remote.formats.reading import (
    EVALUATION,
    STEP,
    UNDERSTOOD,
    Kind,
    Reading,
    evaluation,
    step,
)

_UNITS = r"it/s|s/it|step/s|s/step|steps/s|batch/s|s/batch|batches/s|s/ba|ba/s"
BAR = Lazy(
    r"\d{1,3}%\|[^|\r\n]{0,400}\|\s{0,4}(?P<n>\d{1,12})/(?P<total>\d{1,12}) "
    r"\[(?:[\d:]{1,12}|\d{1,4} days?, [\d:]{1,12})<(?:\d{1,4} days?, )?[\d:?-]{1,12}, {1,4}"
    rf"(?P<rate>[\d.]{{1,16}}|\?)(?P<unit>{_UNITS})(?:, (?P<postfix>[^\]\n]{{0,4000}}\]?)|\])"
)
_EPOCH = Lazy(r"[Ee]poch\W{0,4}(\d{1,9})(?:\s{0,2}/\s{0,2}(\d{1,9}))?")
_EVALUATES = Lazy(r"valid|\bval\b|eval|test|predict|sanity|infer", re.IGNORECASE)
_POSTFIX = Pairs(r"([A-Za-z_][^=,\s:|]{0,80})(?:=| ?: ?| )<num>(?=[,\]\s|;])")
_DESCRIPTION = Pairs(r"([A-Za-z_][\w/@]{0,80})(?:=|: {0,4}| )<num>(?=[,\]\s|;:]|$)")


class Bar:
    """The reader of bars of tqdm, of which the last in a line counts. The values behind a bar that
    are of whole epochs, such as `val_loss`, count once.

    Epochs count from 0 where `from_zero`, or once epoch 0 is seen.
    """

    open = False

    def __init__(self, from_zero: bool = False) -> None:
        self._from_zero = from_zero
        self._kept: dict[str, float] = {}

    def read(self, line: str, start: int, memory: Memory) -> Reading | None:
        """See `Reader`."""
        bars = list(BAR.finditer(line))
        if not bars:
            return None
        begin = bars[-2].end() if len(bars) > 1 else start
        found = bars[-1]
        about = line[max(begin, found.start() - 200) : found.start()]
        values = self._values(found, about)
        n = int(found["n"])
        total = int(found["total"])
        if not n or not any(map(is_outcome, values)):
            if not about.strip() or about.strip().lower().startswith("train"):
                memory.bar = n
                memory.steps = total
            return UNDERSTOOD
        return self._reading(found, about, values, memory)

    def _values(self, found: re.Match[str], about: str) -> dict[str, float]:
        values: dict[str, float] = {}
        if found["postfix"]:
            _POSTFIX.read(found["postfix"], values)
        said: dict[str, float] = {}
        _DESCRIPTION.read(about, said)
        for name, value in said.items():
            if is_outcome(name):
                values.setdefault(name, value)
        values.pop("epoch", None)
        for name in [name for name in values if name.startswith("val_") or name.endswith("_epoch")]:
            if self._kept.get(name) == values[name]:
                del values[name]
            else:
                self._kept[name] = values[name]
        return values

    def _reading(
        self, found: re.Match[str], about: str, values: dict[str, float], memory: Memory
    ) -> Reading | None:
        if found["rate"] != "?" and (rate := number(found["rate"])) > 0:
            seconds = found["unit"].startswith("s/")
            values.setdefault("step_seconds", rate if seconds else 1 / rate)
        kind: Kind | None = EVALUATION if _EVALUATES.search(about) else None
        n = float(found["n"])
        total = float(found["total"])
        epoch = _EPOCH.search(about)
        if epoch:
            self._from_zero = self._from_zero or epoch[1] == "0"
            if epoch[2]:
                values["epochs"] = float(epoch[2])
            values |= {"epoch": float(epoch[1]) + self._from_zero, "n": n, "total": total}
        elif "step" not in values and kind is not EVALUATION:
            values |= {"step": n, "steps": total}
        return memory.place(kind, values)


class Lightning(Bar):
    """The reader of Lightning's bars: of tqdm, or of rich, whose values may go on below.

    Bars of other programs may begin with an epoch as well. Those of Lightning tell the version of
    its logger, or come with bars of its loaders.
    """

    _rich = Line(
        r"Epoch <epoch_index:int>/(?:<last_index:int>|-\d{1,9})\s{1,4}[━╸╺ ─-]{1,400}\s<n:int>/(?:<total:int>|--)\s{1,4}[\d:]{1,12} • [\d:-]{1,12}\s{1,4}(?:<steps_per_second>it/s)?(?P<pairs>[^\n]{0,4000})",
        pairs=Pairs(r"([A-Za-z][\w/.@\[\]-]{0,80}): <num>(?=\s|$)"),
    )
    _loader = Lazy(r"(?:Validation|Testing|Predicting) DataLoader |Sanity Checking")
    _more = Lazy(rf"\s{{4,400}}(?:[A-Za-z][\w/.@\[\]-]{{0,80}}: {NUMBER}\s{{0,400}}){{1,20}}$")
    _pairs = Pairs(r"([A-Za-z][\w/.@\[\]-]{0,80}): <num>(?=\s|$)")

    def __init__(self) -> None:
        super().__init__(from_zero=True)
        self.open = self._is_sure = False
        self._place: dict[str, float] = {}

    def read(self, line: str, start: int, memory: Memory) -> Reading | None:
        """See `Reader`."""
        if "•" in line and (values := self._rich.values(line, start)) is not None:
            self.open = True
            names = ("epoch_index", "epochs", "n", "total")
            if "last_index" in values:
                values["epochs"] = values.pop("last_index") + 1
            self._place = {name: values[name] for name in names if name in values}
            if not set(values) - set(names):
                return UNDERSTOOD
            return memory.place(STEP, values)
        if self.open:
            self.open = False
            if len(line) < 1000 and self._more.match(line):
                values = dict(self._place)
                self._pairs.read(line, values)
                self.open = True
                return memory.place(STEP, values)
            return None
        if line.startswith("Epoch ", start):
            self._is_sure = self._is_sure or "v_num=" in line
            return super().read(line, start, memory) if self._is_sure else None
        if not self._loader.match(line, start) or "it/s" not in line:
            return None
        self._is_sure = True
        return UNDERSTOOD


TORCHTUNE = Format(
    "torchtune",
    ("|Loss: ", " | loss:"),
    (
        Sample(
            "1|3|Loss: 1.943998098373413:   0%|                    | 3/1617 [00:21<3:04:47,  6.87s/it]",
            [step(3, epoch=1, loss=1.943998098373413, step_seconds=6.87)],
        ),
        Sample(
            "Step 1 | loss:1.94 lr:2e-05 tokens_per_second_per_gpu:412.3",
            [step(1, loss=1.94, lr=2e-5, tokens_per_second_per_device=412.3)],
        ),
    ),
    (
        Line(
            r"(?:^|\s)<epoch:int>\|<step:int>\|Loss: <loss>:[^\n]{0,400}, {1,4}(?:<step_seconds>s/it|<steps_per_second>it/s)"
        ),
        Line(r"(?:^|\s)<epoch:int>\|<step:int>\|Loss: <loss>:"),
        Line(
            r"Step <step:int> \| (?P<pairs>loss:[^\n]{1,4000})",
            pairs=Pairs(r"([a-z][\w/@]{0,80}):<num>(?=\s|$)"),
        ),
    ),
)
LIGHTNING = Format(
    "Lightning",
    ("Epoch ", "Validation DataLoader ", "Testing DataLoader ", "Sanity Checking"),
    (
        Sample(
            "Epoch 0: 100%|██████████████| 25/25 [01:54<00:00,  0.22it/s, v_num=0, train_loss_step=1.310, train_acc_step=0.400, val_loss=0.776, val_acc=0.885, train_loss_epoch=1.690, train_acc_epoch=0.599]Epoch 0, global step 25: 'val_loss' reached 0.77609 (best 0.77609), saving model to …",
            [
                step(
                    25,
                    epoch=1,
                    loss=1.31,
                    accuracy=0.4,
                    val_loss=0.776,
                    val_accuracy=0.885,
                    train_loss_epoch=1.69,
                    train_acc_epoch=0.599,
                    step_seconds=1 / 0.22,
                )
            ],
        ),
        Sample(
            "Epoch 1:   8%|▊         | 2/25 [00:01<00:11,  2.00it/s, v_num=mcyz, train_loss_step=1.200, val_loss=0.776]\n"
            "Validation DataLoader 0:   3%|▎         | 1/38 [00:00<00:00, 40.91it/s]\n"
            "Epoch 1:  12%|█▏        | 3/25 [00:01<00:11,  2.00it/s, v_num=mcyz, train_loss_step=1.100, val_loss=0.776]",
            [
                step(27, epoch=2, loss=1.2, val_loss=0.776, step_seconds=0.5),
                step(28, epoch=2, loss=1.1, step_seconds=0.5),
            ],
        ),
        Sample(
            "Sanity Checking DataLoader 0: 100%|█| 2/2 [00:00<00:00, 40.91it/s]\n"
            "Epoch 1:   8%|▊         | 2/25 [00:01<00:11,  2.00it/s, train_loss=1.200]",
            [step(27, epoch=2, loss=1.2, step_seconds=0.5)],
        ),
        Sample(
            "\x1b[?25l\r\x1b[2KEpoch 0/23 ━━━━━━━━━━ 98/98 0:00:22 • 0:00:00 4.44it/s v_num: 0 train/loss: 1.559\n                                                        train/acc: 0.399",
            [
                step(
                    98,
                    epoch=1,
                    steps=24 * 98,
                    step_seconds=1 / 4.44,
                    loss=1.559,
                    accuracy=0.399,
                )
            ],
        ),
        Sample(
            "Epoch 0/-2 ━━━ 5072/-- 2:40:43 • -:--:-- 0.57it/s v_num: xn3p train_loss: 10.416",
            [step(5072, epoch=1, step_seconds=1 / 0.57, loss=10.416)],
        ),
    ),
    reader=Lightning,
)


class Ultralytics:
    """The reader of YOLO's rows. Their columns are those of the header before them; `loss` is the
    sum of the losses in a row."""

    open = False
    _header = Lazy(
        r"\s{1,20}Epoch {1,12}GPU_mem(?P<columns>(?: {1,20}[A-Za-z]\w{0,40}){1,20})\s{0,4}$"
    )
    _row = Lazy(
        r"\s{1,20}(\d{1,9})/(\d{1,9}) {1,12}[\d.]{1,12}[GMK]?(?P<values>(?: {1,20}[\w.+-]{1,24}){2,20}): {1,4}\d{1,3}%[ |][^\n\d]{0,400}(?P<n>\d{1,12})/(?P<total>\d{1,12})"
        r"(?:[^\n]{0,80}?(?P<rate>[\d.]{1,12})(?P<unit>it/s|s/it))?"
    )
    _all = Lazy(
        r"\s{4,40}all {1,20}\d{1,12} {1,20}\d{1,12}(?P<values>(?: {1,20}[\d.e-]{1,16}){4,8})\s{0,8}$"
    )

    def __init__(self) -> None:
        self._columns: list[str] = []

    def read(self, line: str, start: int, memory: Memory) -> Reading | None:
        """See `Reader`."""
        header = self._header.match(line)
        if header:
            self._columns = header["columns"].split()
            return UNDERSTOOD
        if not self._columns:
            return None
        row = self._row.match(line)
        if row:
            return self._losses(row, memory) if int(row["n"]) else UNDERSTOOD
        found = self._all.match(line)
        if found:
            names = ("val_precision", "val_recall", "val_mAP50", "val_mAP50-95")
            values = dict(zip(names, map(number, found["values"].split()), strict=False))
            return memory.place(EVALUATION, values | {"epoch": float(memory.epoch)})
        return None

    def _losses(self, row: re.Match[str], memory: Memory) -> Reading | None:
        found = dict(zip(self._columns, row["values"].split(), strict=False))
        values: dict[str, float] = {}
        try:
            for name, text in found.items():
                if name.endswith("loss"):
                    values[name] = number(text)
        except ValueError:
            return None
        if not values:
            return None
        values["loss"] = sum(values.values())
        if row["rate"] and (rate := number(row["rate"])) > 0:
            values["step_seconds"] = 1 / rate if row["unit"] == "it/s" else rate
        memory.epoch = int(row[1])
        place = {
            "epoch": float(row[1]),
            "epochs": float(row[2]),
            "n": float(row["n"]),
            "total": float(row["total"]),
        }
        return memory.place(STEP, values | place)


ULTRALYTICS = Format(
    "Ultralytics",
    ("GPU_mem", "━", "─", "%|", "    all  "),
    (
        Sample(
            "      Epoch    GPU_mem   box_loss   cls_loss   dfl_loss  Instances       Size\n"
            "      1/100      2.09G     0.8904      3.502      1.383          8        640: 100% ━━━━━━━━━━━━ 200/200 8.5it/s 23.4s\n"
            "                   all        800        256      0.657      0.202      0.212      0.108",
            [
                step(
                    200,
                    epoch=1,
                    steps=20000,
                    box_loss=0.8904,
                    cls_loss=3.502,
                    dfl_loss=1.383,
                    loss=5.7754,
                    step_seconds=1 / 8.5,
                ),
                evaluation(
                    0,
                    {"val_mAP50-95": 0.108},
                    epoch=1,
                    steps=20000,
                    val_precision=0.657,
                    val_recall=0.202,
                    val_mAP50=0.212,
                ),
            ],
        ),
        Sample(
            "      Epoch    GPU_mem   box_loss   cls_loss   dfl_loss  Instances       Size\n"
            "\r\x1b[K        1/3         0G      1.352       3.58      1.419          4        320: 0% ──── 0/1  0.3s"
            "\r\x1b[K        1/3         0G      1.352       3.58      1.419          4        320: 100% ━━━━ 1/1 8.0s/it 8.0s\n",
            [
                step(
                    1,
                    epoch=1,
                    steps=3,
                    box_loss=1.352,
                    cls_loss=3.58,
                    dfl_loss=1.419,
                    loss=6.351,
                    step_seconds=8.0,
                )
            ],
        ),
        Sample(
            "      Epoch    GPU_mem   box_loss   cls_loss   dfl_loss  Instances       Size\n"
            "       2/10      2.09G        0.5        1.5        1.0          8        640: 100%|██████████| 38/38 [00:05<00:00,  7.00it/s]",
            [
                step(
                    76,
                    epoch=2,
                    steps=380,
                    box_loss=0.5,
                    cls_loss=1.5,
                    dfl_loss=1.0,
                    loss=3.0,
                    step_seconds=1 / 7,
                )
            ],
        ),
    ),
    reader=Ultralytics,
)


class Keras:
    """The reader of Keras: a line tells the epoch, the bars after it the steps and the means of the
    epoch so far. A bar after that of an epoch has ended is one of an evaluation."""

    open = False
    _epoch = Lazy(r"Epoch (\d{1,9})/(\d{1,9})\s{0,4}$")
    _glued = Lazy(r"Epoch (\d{1,9})/(\d{1,9}?)(?=(\d{1,12})/\3 )")
    _row = Lazy(
        r"\s{0,8}(?P<n>\d{1,12})/(?P<total>\d{1,12}) (?:[━╸ ]{1,60}|\[[=>. ]{1,60}\] -|-) (?:ETA: )?[\w:.]{1,16}"
        r"(?: (?:- )?(?P<each>[\d.]{1,12})(?P<unit>ms|us|s)/(?:step|epoch))?(?: - (?P<pairs>[^\n]{1,4000}))?"
    )
    _pairs = Pairs(r"([A-Za-z]\w{0,80}): <num>(?=\s|$)")

    def __init__(self) -> None:
        self._ended = True

    def read(self, line: str, start: int, memory: Memory) -> Reading | None:
        """See `Reader`."""
        begin = start
        if line.startswith("Epoch ", start):
            said = self._epoch.match(line, start)
            if said:
                self._begin(said, memory)
                return UNDERSTOOD
            said = self._glued.match(line, start)
            if not said:
                return None
            self._begin(said, memory)
            begin = said.end()
        row = self._row.match(line, begin)
        return None if row is None else self._values(row, memory)

    def _begin(self, said: re.Match[str], memory: Memory) -> None:
        memory.epoch, memory.epochs = int(said[1]), int(said[2])
        self._ended = False

    def _values(self, row: re.Match[str], memory: Memory) -> Reading | None:
        values: dict[str, float] = {}
        if row["pairs"]:
            self._pairs.read(row["pairs"], values)
        if not values:
            return UNDERSTOOD
        n = float(row["n"])
        total = float(row["total"])
        if self._ended and (n, total) != (memory.per_epoch, memory.per_epoch):
            values = {
                name if name.startswith("val_") else f"val_{name}": one
                for name, one in values.items()
            }
            return memory.place(EVALUATION, values) if n == total else UNDERSTOOD
        self._ended = n == total
        if row["each"]:
            values["step_seconds"] = number(row["each"]) * UNITS.get(row["unit"], 1.0)
        return memory.place(STEP, values | {"epoch": float(memory.epoch), "n": n, "total": total})


KERAS = Format(
    "Keras",
    ("Epoch ", "/step", "/epoch", "- ETA: "),
    (
        Sample(
            "Epoch 1/5\n313/313 ━━━━━━━━━━━━━━━━━━━━ 50s 151ms/step - accuracy: 0.6617 - loss: 0.5807 - val_accuracy: 0.8452 - val_loss: 0.3591",
            [
                step(
                    313,
                    epoch=1,
                    steps=1565,
                    accuracy=0.6617,
                    loss=0.5807,
                    val_accuracy=0.8452,
                    val_loss=0.3591,
                    step_seconds=0.151,
                )
            ],
        ),
        Sample(
            "Epoch 2/5\n\x1b[1m  1/313\x1b[0m \x1b[37m━━━━━━━━━━━━━━━━━━━━\x1b[0m \x1b[1m10s\x1b[0m 35ms/step - accuracy: 0.5000 - loss: 0.7000"
            + "\x08" * 80
            + "\r\x1b[1m  2/313\x1b[0m \x1b[37m━━━━━━━━━━━━━━━━━━━━\x1b[0m \x1b[1m10s\x1b[0m 35ms/step - accuracy: 0.5100 - loss: 0.6900",
            [
                step(314, epoch=2, steps=1565, accuracy=0.5, loss=0.7, step_seconds=0.035),
                step(315, epoch=2, steps=1565, accuracy=0.51, loss=0.69, step_seconds=0.035),
            ],
        ),
        Sample(
            "Epoch 1/5\n313/313 - 50s - 151ms/step - accuracy: 0.6617 - loss: 0.5807",
            [step(313, epoch=1, steps=1565, accuracy=0.6617, loss=0.5807, step_seconds=0.151)],
        ),
        Sample(
            "Epoch 7/1520/20 ━━━━━━━━━━━━━━━━━━━━ 1s 923us/step - loss: 0.5",
            [step(140, epoch=7, steps=300, loss=0.5, step_seconds=923e-6)],
        ),
        Sample(
            "Epoch 1/2\n 1/10 [==>...........................] - ETA: 0s - loss: 16.0433\b\b\b\r10/10 [==============================] - 0s 908us/step - loss: 10.4883\n"
            "1/1 [==============================] - 0s 153ms/step - loss: 3.7311e-04\n",
            [
                step(1, epoch=1, steps=20, loss=16.0433),
                step(10, epoch=1, steps=20, loss=10.4883, step_seconds=908e-6),
                evaluation(0, steps=20, val_loss=3.7311e-4),
            ],
        ),
        Sample(
            "Epoch 1/2\n15/15 [==============================] - 0s 8ms/step - accuracy: 0.9770 - loss: 0.0585",
            [step(15, epoch=1, steps=30, accuracy=0.977, loss=0.0585, step_seconds=0.008)],
        ),
    ),
    reader=Keras,
)


class Fastai:
    """The reader of fastai's table: a header with the columns, a row for each epoch."""

    _header = Lazy(
        r"\s{0,8}epoch {2,20}(?P<columns>train_loss(?: {1,20}\S{1,60}){0,20} {1,20}time)\s{0,8}$"
    )
    _row = Lazy(
        r"\s{0,8}(?P<epoch>\d{1,9}) {2,20}(?P<values>\S{1,24}(?: {1,20}\S{1,24}){0,20})\s{0,8}$"
    )
    _bar = Line(
        r"Epoch <epoch:int>/<epochs:int> ?: {0,2}\|[^|\n]{0,400}\| [\d.]{1,8}% \[<n:int>/<total:int> [\d:]{1,12}<[\d:]{1,12}(?: <loss>)?"
    )

    def __init__(self) -> None:
        self.open = False
        self._columns: list[str] = []
        self._names = Names(
            {
                "train_loss": "train_loss",
                "accuracy": "val_accuracy",
                "error_rate": "val_error_rate",
                "time": "",
            }
        )

    def read(self, line: str, start: int, memory: Memory) -> Reading | None:
        """See `Reader`."""
        header = self._header.match(line)
        if header:
            self.open, self._columns = True, header["columns"].split()
            return UNDERSTOOD
        if "% [" in line and (values := self._bar.values(line, start)) is not None:
            return memory.place(STEP, values) if "loss" in values else UNDERSTOOD
        row = self._row.match(line) if self.open and len(line) < 1000 else None
        if row is None or len(texts := row["values"].split()) != len(self._columns):
            return None
        values = {"epoch_index": float(row["epoch"])}
        for column, text in zip(self._columns, texts, strict=True):
            known, factor = self._names(column)
            try:
                if known is not NEVER:
                    values[known] = number(text) * factor
            except ValueError:
                continue
        return memory.place(EVALUATION, values)


FASTAI = Format(
    "fastai",
    ("train_loss", "% ["),
    (
        Sample(
            "epoch     train_loss  valid_loss  accuracy  time    \n0         3.886147    3.948560    0.430394  47:41     \n1         3.5         3.6         0.5       1:47:41   ",
            [
                evaluation(
                    0, epoch=1, train_loss=3.886147, val_loss=3.94856, val_accuracy=0.430394
                ),
                evaluation(0, epoch=2, train_loss=3.5, val_loss=3.6, val_accuracy=0.5),
            ],
        ),
        Sample(
            "\rEpoch 1/5 : |████----| 45.00% [90/200 00:12<00:15 1.2345]",
            [step(90, epoch=1, steps=1000, loss=1.2345)],
        ),
    ),
    reader=Fastai,
)


TQDM = "tqdm"
"""The family of bars of tqdm: other formats take their step from them."""


def _tqdm(
    name: str, marks: tuple[str, ...], *samples: Sample, make: Callable[[], Bar] = Bar
) -> Format:
    return Format(name, marks, samples, reader=make, family=TQDM, generic=True)


FORMATS = (
    ULTRALYTICS,
    KERAS,
    FASTAI,
    TORCHTUNE,
    LIGHTNING,
    _tqdm(
        "diffusers",
        (", step_loss=",),
        Sample(
            "Steps:   1%|          | 3/500 [00:48<2:08:43, 15.54s/it, lr=7.5e-7, step_loss=0.00447]",
            [step(3, steps=500, lr=7.5e-7, loss=0.00447, step_seconds=15.54)],
        ),
        Sample(
            "\rSteps:   1%|          | 3/500 [00:48<2:08:43, 15.54s/it, lr=7.5e-7, step_loss=0.004]\rSteps:   1%|          | 3/500 [00:48<2:08:43, 15.54s/it, lr=7.5e-7, step_loss=0.005]",
            [step(3, steps=500, lr=7.5e-7, loss=0.005, step_seconds=15.54)],
        ),
    ),
    _tqdm(
        "kohya sd-scripts",
        (", avr_loss=",),
        Sample(
            "steps:  12%|█▏        | 240/2000 [02:04<15:12,  1.93it/s, avr_loss=0.0821]\nepoch 2/10",
            [step(240, steps=2000, loss=0.0821, step_seconds=1 / 1.93)],
        ),
    ),
    _tqdm(
        "OpenRLHF bars",
        (", gpt_loss=",),
        Sample(
            "Train step of epoch 0:  12%|█▏        | 12/100 [00:12<01:28,  1.00s/it, gpt_loss=2.1, loss_mean=2.2, lr=1e-5]",
            [step(12, epoch=1, loss=2.1, loss_mean=2.2, lr=1e-5, step_seconds=1.0)],
        ),
    ),
    _tqdm(
        "tqdm",
        (
            "it/s",
            "s/it",
            "step/s",
            "s/step",
            "batch/s",
            "s/batch",
            "s/ba",
            "ba/s",
            "batches/s",
            "steps/s",
        ),
        Sample(
            "\rtrain:   1%|1         | 1/100 [00:00<00:10, 10.0it/s, loss=0.5]\rtrain:   2%|1         | 2/100 [00:00<00:10, 10.0it/s, loss=0.4]",
            [
                step(1, steps=100, loss=0.5, step_seconds=0.1),
                step(2, steps=100, loss=0.4, step_seconds=0.1),
            ],
        ),
        Sample(
            "Epoch 1:   8%|8         | 2/25 [00:01<00:11,  2.00it/s, loss=1.25]",
            [step(2, epoch=1, loss=1.25, step_seconds=0.5)],
        ),
        Sample(
            "epoch 2/3 loss: 0.7000:  45%|####5     | 45/100 [00:10<00:12,  4.50it/s]",
            [step(145, epoch=2, steps=300, loss=0.7, step_seconds=1 / 4.5)],
        ),
        Sample("100%|██████████| 26/26 [00:03<00:00,  8.00it/s]", []),
    ),
)
