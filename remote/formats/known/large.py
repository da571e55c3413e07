"""Trainers of large models: Megatron-LM and its kin, NeMo, DeepSpeed, Composer, fairseq, Marian."""

import json

from remote.formats.fields import Field, Found
from remote.formats.format import Format, Ignored, Line, Names, Pairs, Sample
from remote.formats.known.tables import Headed
from remote.formats.memory import Memory
from remote.formats.names import NEVER
from remote.formats.numbers import number
from remote.formats.reading import EVALUATION, OTHER, STEP, Reading, evaluation, other, step

_MEGATRON_NAMES = {
    "elapsed time per iteration (ms)": "step_seconds__ms",
    "throughput per GPU (TFLOP/s/GPU)": "tflops_per_device",
    "tokens per GPU (tokens/s/GPU)": "tokens_per_second_per_device",
    "approx flops per GPU": "tflops_per_device",
    "consumed samples": "consumed_samples",
    "global batch size": "global_batch_size",
    "number of skipped iterations": "skipped_iterations",
    "number of nan iterations": "nan_iterations",
    "samples per second": "samples_per_second",
    "TFLOPs": "tflops_per_device",
    "loss scale": "loss_scale",
    "grad norm": "grad_norm",
    "params norm": "",
    "num zeros": "",
}


class Megatron:
    """The reader of iterations of Megatron-LM, Megatron-DeepSpeed, GPT-NeoX and Primus: fields
    between bars, each with its name. Where there are two numbers, `this/mean`, the first counts."""

    open = False
    _evaluation = Line(
        r"(?:validation|test) loss at (?:iteration|the end of training)[^\d|]{0,60}<step:int>?[^|\n]{0,60}\| lm[ _]loss value: <val_loss> \| lm[ _]loss PPL: <val_perplexity>",
        EVALUATION,
    )
    _place = Line(r"iteration {1,12}<step:int>/ {0,12}<steps:int> \|")

    def __init__(self) -> None:
        self._names = Names(_MEGATRON_NAMES)

    def read(self, line: str, start: int, memory: Memory) -> Reading | None:
        """See `Reader`."""
        found = self.numbers(line, start)
        if found is None:
            return self._evaluation.read(line, start, memory)
        return self.tell(found.values(line), memory)

    def numbers(self, line: str, start: int) -> Found | None:
        """See `Finder`."""
        place = self._place.numbers(line, start)
        if place is None:
            return None
        fields = [*place.fields]
        known = {"step", "steps"}
        end = -1
        for part in line.split("|"):
            begin = end + 1
            end = end + 1 + len(part)
            name, colon, text = part.partition(": ")
            if not colon:
                continue
            told, factor = self._names(name.strip())
            told = NEVER if told in known else told
            at = begin + len(name) + len(colon) + len(text) - len(text.lstrip())
            first = _first(text)
            if first:
                known.add(told)
                fields.append(Field(told, factor, at, at + len(first), begin))
        return Found(fields, self.tell)

    def tell(self, values: dict[str, float], memory: Memory) -> Reading | None:
        """What the values of an iteration tell."""
        seconds = values.get("step_seconds", 0.0)
        batch = values.get("global_batch_size")
        if "samples_per_second" not in values and batch and seconds > 0:
            values["samples_per_second"] = batch / seconds
        return memory.place(STEP, values)


def _first(text: str) -> str:
    """The number that the text begins with, "" if there is none: "13100.0/13240.9",
    "112.9TFLOPS"."""
    text = text.split("/")[0].strip().rstrip("TFLOPSs")
    try:
        number(text)
    except ValueError:
        return ""
    return text


PRIMUS = Format(
    "Primus",
    ("| tokens per GPU (tokens/s/GPU): ",),
    (
        Sample(
            "[\x1b[32m20251202 06:56:28\x1b[0m][\x1b[36mrank-7/8\x1b[0m][\x1b[1mINFO \x1b[0m] \x1b[1m[--------trainer.py:2560] : iteration     4408/    5000 | consumed samples:       564224 | elapsed time per iteration (ms): 13100.0/13240.9 | tokens per GPU (tokens/s/GPU): 10005.5/9903.7 | learning rate: 3.421949E-07 | global batch size:   128 | lm loss: 4.142716E-03 |",
            [
                step(
                    4408,
                    steps=5000,
                    rank=7,
                    consumed_samples=564224,
                    step_seconds=13.1,
                    tokens_per_second_per_device=10005.5,
                    lr=3.421949e-7,
                    global_batch_size=128,
                    loss=4.142716e-3,
                    samples_per_second=128 / 13.1,
                )
            ],
        ),
    ),
    reader=Megatron,
    family="Megatron",
)
NEOX = Format(
    "GPT-NeoX",
    ("| approx flops per GPU: ",),
    (
        Sample(
            " samples/sec: 7.799 | iteration       34/   10000 | elapsed time per iteration (ms): 4103.1 | learning rate: 2.111E-06 | approx flops per GPU: 112.9TFLOPS | lm_loss: 1.118665E+01 | number of skipped iterations:   0 | number of nan iterations:   0 |",
            [
                step(
                    34,
                    steps=10000,
                    samples_per_second=7.799,
                    step_seconds=4.1031,
                    lr=2.111e-6,
                    tflops_per_device=112.9,
                    loss=11.18665,
                    skipped_iterations=0,
                    nan_iterations=0,
                )
            ],
        ),
    ),
    reader=Megatron,
    family="Megatron",
)
MEGATRON = Format(
    "Megatron-LM",
    ("elapsed time per iteration (ms)", " loss value: "),
    (
        Sample(
            " [2026-04-28 14:23:45.123456] iteration       42/    500 | consumed samples:     10752 | elapsed time per iteration (ms): 892.1 | throughput per GPU (TFLOP/s/GPU): 245.3 | tokens/sec/GPU: 74994 | learning rate: 3.000000E-04 | global batch size:   256 | lm loss: 3.214500E+00 | loss scale: 1.0 | grad norm: 0.543 | number of skipped iterations:   0 | number of nan iterations:   0 |",
            [
                step(
                    42,
                    steps=500,
                    consumed_samples=10752,
                    step_seconds=0.8921,
                    tflops_per_device=245.3,
                    tokens_per_second_per_device=74994,
                    lr=3e-4,
                    global_batch_size=256,
                    loss=3.2145,
                    loss_scale=1.0,
                    grad_norm=0.543,
                    skipped_iterations=0,
                    nan_iterations=0,
                    samples_per_second=256 / 0.8921,
                )
            ],
        ),
        Sample(
            " iteration       10/  500000 | consumed samples:        10240 | elapsed time per iteration (ms): 2000.0 | learning rate: 0.000000E+00 | global batch size:  1024 | loss scale: 8388608.0 | number of skipped iterations:  10 | number of nan iterations:   0 |",
            [
                step(
                    10,
                    steps=500000,
                    consumed_samples=10240,
                    step_seconds=2.0,
                    lr=0.0,
                    global_batch_size=1024,
                    loss_scale=8388608.0,
                    skipped_iterations=10,
                    nan_iterations=0,
                    samples_per_second=512.0,
                )
            ],
        ),
        Sample(
            " iteration        2/     100 | consumed samples: 64 | elapsed time per iteration (ms): 500.0 | learning rate: 1.0E-04 | load_balancing_loss: 1.329517E+00 | mtp_1 loss: 7.925096E+00 | lm loss: 7.9E+00 |\n"
            "-----\n validation loss at iteration 2 | lm loss value: 7.850000E+00 | lm loss PPL: 2.565734E+03 | \n",
            [
                step(
                    2,
                    {"mtp_1 loss": 7.925096},
                    steps=100,
                    consumed_samples=64,
                    step_seconds=0.5,
                    lr=1e-4,
                    load_balancing_loss=1.329517,
                    loss=7.9,
                ),
                evaluation(2, steps=100, val_loss=7.85, val_perplexity=2565.734),
            ],
        ),
    ),
    reader=Megatron,
    family="Megatron",
)
BRIDGE = Format(
    "Megatron-Bridge",
    ("Step Time : ",),
    (
        Sample(
            "Step Time : 11.65s GPU utilization: 1158.1TFLOP/s/GPU",
            [other(0, step_seconds=11.65, tflops_per_device=1158.1)],
        ),
        Sample(
            "Step Time : 2.5s GPU utilization: 400.0MODEL_TFLOP/s/GPU",
            [other(0, step_seconds=2.5, tflops_per_device=400.0)],
        ),
    ),
    (
        Line(
            r"Step Time : <step_seconds>s GPU utilization: <tflops_per_device>(?:MODEL_)?TFLOP/s/GPU",
            OTHER,
        ),
    ),
    companion=True,
)
NEMO = Format(
    "NeMo",
    ("| global_step: ",),
    (
        Sample(
            "retraining/0 [default0]:Training epoch 0, iteration 49/49 | lr: 7.496e-06 | global_batch_size: 128 | global_step: 49 | peak_memory_usage: 70833405952 | memory_allocated: 44271689728 | reduced_train_loss: 11.96 | train_step_timing in s: 12.39 | consumed_samples: 6400 | val_loss: 2.861 | val_ppl: 17.57",
            [
                step(
                    50,
                    rank=0,
                    epoch=1,
                    lr=7.496e-6,
                    global_batch_size=128,
                    peak_memory_usage=70833405952,
                    memory_allocated=44271689728,
                    loss=11.96,
                    step_seconds=12.39,
                    consumed_samples=6400,
                    val_loss=2.861,
                    val_perplexity=17.57,
                )
            ],
        ),
    ),
    (
        Line(
            r"Training epoch <epoch_index:int>, iteration \d{1,12}/\d{1,12} \| (?P<pairs>[^\n]{1,4000})",
            pairs=Pairs(
                r"([a-zA-Z][^:|\n]{0,60}): <num>(?= |\n|$)",
                {"global_step": "index", "train_step_timing in s": "step_seconds"},
            ),
        ),
    ),
)
DEEPSPEED = Format(
    "DeepSpeed",
    ("skipped=", "RunningAvgSamplesPerSec=", "_microstep: ", "OVERFLOW! "),
    (
        Sample(
            "[2023-12-29 13:02:49,647] [INFO] [logging.py:96:log_dist] [Rank 0] step=10, skipped=0, lr=[0.0003333333333333334], mom=[(0.9, 0.999)]",
            [other(10, skipped_steps=0, lr=0.0003333333333333334)],
        ),
        Sample(
            "worker-0: [2023-07-25 21:03:17,269] [INFO] [timer.py:215:stop] epoch=0/micro_step=34/global_step=34, RunningAvgSamplesPerSec=7.864669709950182, CurrSamplesPerSec=8.00912418308922, MemAllocated=59.65GB, MaxMemAllocated=63.31GB",
            [step(34, epoch=1, samples_per_second=8.00912418308922, memory_gb=59.65)],
        ),
        Sample(
            "[2023-07-25 21:03:17,269] [INFO] [logging.py:96:log_dist] [Rank 0] rank=0 time (ms) | forward_microstep: 652.42 | backward_microstep: 2164.53 | backward_inner_microstep: 2001.89 | backward_allreduce_microstep: 162.60 | step_microstep: 1172.13",
            [
                other(
                    0,
                    forward_seconds=0.65242,
                    backward_seconds=2.16453,
                    allreduce_seconds=0.1626,
                    optimizer_seconds=1.17213,
                )
            ],
        ),
        Sample(
            "[2023-07-25 21:03:17,269] [INFO] [stage_1_and_2.py:96:step] OVERFLOW! Rank 0 Skipping step. Attempted loss scale: 65536, reducing to 65536",
            [],
        ),
    ),
    (
        Line(r"\bstep=<step:int>, skipped=<skipped_steps:int>, lr=\[<lr>", OTHER),
        Line(
            r"epoch=<epoch_index:int>/micro_step=\d{1,12}/global_step=<step:int>, RunningAvgSamplesPerSec=<num>, CurrSamplesPerSec=<samples_per_second>, MemAllocated=<memory_gb>GB",
            STEP,
        ),
        Line(
            r"time \(ms\) \| (?P<pairs>[^\n]{0,1000}_microstep: [^\n]{1,1000})",
            OTHER,
            pairs=Pairs(
                r"(\w{1,60}): <num>",
                {
                    "forward_microstep": "forward_seconds__ms",
                    "backward_microstep": "backward_seconds__ms",
                    "step_microstep": "optimizer_seconds__ms",
                    "backward_allreduce_microstep": "allreduce_seconds__ms",
                    "backward_inner_microstep": "",
                },
            ),
        ),
        Ignored(r"OVERFLOW! .{0,20}Skipping step"),
    ),
    companion=True,
)
COMPOSER = Format(
    "Composer",
    ("[batch=", "[Eval batch=", "][batch=", "[metric][batch="),
    (
        Sample(
            "[batch=1/4800]:\n\t Train loss/train/total: 8.4213\n\t Train throughput/device/tokens_per_sec: 1255.1776\n\t Train throughput/samples_per_sec: 2.7330\n",
            [
                step(
                    1,
                    steps=4800,
                    loss=8.4213,
                    tokens_per_second_per_device=1255.1776,
                    samples_per_second=2.733,
                )
            ],
        ),
        Sample(
            "[epoch=2][batch=20/50]:\n\t Train loss/train/total: 1.5\n[Eval batch=1/10] Eval on eval data:\n[Eval batch=10/10] Eval on eval data:\n\t Eval metrics/eval/LanguageCrossEntropy: 2.5000\n",
            [step(70, epoch=2, loss=1.5), evaluation(0, val_loss=2.5)],
        ),
        Sample(
            "[metric][batch=1]: loss: 2 \n[metric][batch=2]: loss: 1.5 ",
            [step(1, loss=2), step(2, loss=1.5)],
        ),
    ),
    reader=lambda: Composer(),
)


class Composer:
    """The reader of Composer's console: a header, then one value a line; and of its log files."""

    def __init__(self) -> None:
        names = Names(
            {
                "metrics/eval/LanguageCrossEntropy": "val_loss",
                "metrics/eval/CrossEntropy": "val_loss",
                "metrics/eval/Accuracy": "val_accuracy",
                "metrics/eval/MulticlassAccuracy": "val_accuracy",
                "metrics/train/MulticlassAccuracy": "accuracy",
            }
        )
        self._headed = Headed(
            r"\[(?:epoch=<epoch:int>\]\[batch=<n:int>/<total:int>|batch=<step:int>(?:/<steps:int>)?|Eval batch=\d{1,12}/\d{1,12})\](?::| Eval on [^\n]{0,80}:)\s{0,4}$",
            r"^\s{0,8}(?:Train|Eval) ([A-Za-z][^:\n]{0,100}): <num>\s{0,4}$",
            names,
            "[Eval ",
        )
        self._file = Line(
            r"\[metric\]\[batch=<step:int>\]: (?P<pairs>[^\n]{1,200})",
            pairs=Pairs(r"^([A-Za-z][^:\n]{0,100}): <num>", {}),
        )

    @property
    def open(self) -> bool:
        """Whether values may follow."""
        return self._headed.open

    def read(self, line: str, start: int, memory: Memory) -> Reading | None:
        """See `Reader`."""
        return self._headed.read(line, start, memory) or self._file.read(line, start, memory)


class Fairseq:
    """The reader of fairseq's lines: `name=value`, `name value` between bars, or JSON whose numbers
    are strings."""

    open = False
    _train = Line(
        r"epoch <epoch:int>: {1,8}\d{1,12} / \d{1,12} (?P<pairs>[^\n]{1,4000})",
        pairs=Pairs(
            r"([A-Za-z_]\w{0,40})=<num>",
            {"gnorm": "grad_norm", "train_wall": "", "wps": "tokens_per_second"},
        ),
    )
    _summary = Line(
        r"(?P<pairs>epoch <epoch:int> \| [^\n]{1,4000})",
        None,
        pairs=Pairs(
            r"\| ([A-Za-z_]\w{0,40}) <num>",
            {"gnorm": "grad_norm", "train_wall": "", "wps": "tokens_per_second"},
        ),
    )

    def __init__(self) -> None:
        self._names = Names({"train_wall": "", "update": "", "wps": "tokens_per_second"})

    def read(self, line: str, start: int, memory: Memory) -> Reading | None:
        """See `Reader`."""
        begin = line.find('{"epoch": ')
        if begin >= 0:
            return self._json(line[begin:], memory)
        reading = self._train.read(line, start, memory)
        if reading is not None:
            return reading
        values = self._summary.values(line, start)
        if not values or len(values) < 3:
            return None
        if "valid" in line:
            return memory.place(EVALUATION, _of_validation(values))
        if "loss" in values:
            values["train_loss"] = values.pop("loss")
        return memory.place(OTHER, values)

    def _json(self, text: str, memory: Memory) -> Reading | None:
        try:
            found, _ = json.JSONDecoder().raw_decode(text)
            values = {}
            for name, value in found.items():
                known, factor = self._names(name)
                if known is not NEVER:
                    values[known] = number(str(value)) * factor
        except (ValueError, RecursionError, AttributeError):
            return None
        if "step" in values:
            return memory.place(None, values)
        if "val_step" in values:
            return memory.place(EVALUATION, values | {"step": values.pop("val_step")})
        return None


def _of_validation(values: dict[str, float]) -> dict[str, float]:
    names = {"loss": "val_loss", "perplexity": "val_perplexity", "accuracy": "val_accuracy"}
    return {names.get(name, name): value for name, value in values.items()}


FAIRSEQ = Format(
    "fairseq",
    ("num_updates", " wps "),
    (
        Sample(
            "2020-07-17 06:48:46 | INFO | train_inner | epoch 001:    100 / 167138 loss=15.073, ppl=34470.4, wps=4004.3, ups=4.08, wpb=980.3, bsz=35.4, num_updates=100, lr=1e-06, gnorm=7.216, loss_scale=128, train_wall=25, wall=83",
            [
                step(
                    100,
                    epoch=1,
                    loss=15.073,
                    perplexity=34470.4,
                    tokens_per_second=4004.3,
                    step_seconds=1 / 4.08,
                    wpb=980.3,
                    bsz=35.4,
                    lr=1e-6,
                    grad_norm=7.216,
                    loss_scale=128,
                )
            ],
        ),
        Sample(
            '2021-03-08 12:31:36 | INFO | train_inner | {"epoch": 1, "update": 0.0, "loss": "16.475", "ppl": "91120.8", "wps": "0", "ups": "0", "wpb": "16384", "bsz": "8", "num_updates": "1", "lr": "2e-05", "gnorm": "20.751"}',
            [
                step(
                    1,
                    epoch=1,
                    loss=16.475,
                    perplexity=91120.8,
                    tokens_per_second=0,
                    wpb=16384,
                    bsz=8,
                    lr=2e-5,
                    grad_norm=20.751,
                )
            ],
        ),
        Sample(
            "2020-07-17 07:48:46 | INFO | valid | epoch 001 | valid on 'valid' subset | loss 9.212 | ppl 593.1 | wps 20000 | num_updates 500 | best_loss 9.212",
            [
                evaluation(
                    500,
                    epoch=1,
                    val_loss=9.212,
                    val_perplexity=593.1,
                    tokens_per_second=20000,
                    best_loss=9.212,
                )
            ],
        ),
    ),
    reader=Fairseq,
)


class Marian:
    """The reader of Marian's lines. Its time is that of all updates since the line before."""

    open = False
    _train = Line(
        r"Ep\. <epoch:int> : Up\. <step:commas> : Sen\. [\d,]{1,20} : Cost <loss>(?: \* [^:\n]{0,60})? : Time <time>s(?: : <tokens_per_second> words/s)?(?: : gNorm <grad_norm>)?(?: : L\.r\. <lr>)?"
    )
    _valid = Line(
        r"\[valid\] Ep\. <epoch:int> : Up\. <step:commas> : (?P<pairs>[a-z-]{1,60} : [^\n]{1,60})",
        EVALUATION,
        pairs=Pairs(
            r"^([a-z-]{1,60}) : <num>",
            {
                "cross-entropy": "val_loss",
                "ce-mean-words": "val_loss",
                "perplexity": "val_perplexity",
                "bleu": "val_bleu",
                "translation": "val_bleu",
            },
        ),
    )

    def __init__(self) -> None:
        self._last = 0.0

    def read(self, line: str, start: int, memory: Memory) -> Reading | None:
        """See `Reader`."""
        values = self._train.values(line, start)
        if values is None:
            return self._valid.read(line, start, memory)
        seconds = values.pop("time")
        done = values["step"] - self._last
        self._last = values["step"]
        if done > 0:
            values["step_seconds"] = seconds / done
        return memory.place(STEP, values)


MARIAN = Format(
    "Marian",
    (" : Up. ",),
    (
        Sample(
            "[2019-03-25 14:51:54] Ep. 1 : Up. 1000 : Sen. 1,269,755 : Cost 7.95987511 : Time 785.53s : 17289.59 words/s : L.r. 1.2500e-05",
            [
                step(
                    1000,
                    epoch=1,
                    loss=7.95987511,
                    step_seconds=0.78553,
                    tokens_per_second=17289.59,
                    lr=1.25e-5,
                )
            ],
        ),
        Sample(
            "[2019-03-25 16:37:33] [valid] Ep. 1 : Up. 5000 : ce-mean-words : 5.2127 : new best",
            [evaluation(5000, epoch=1, val_loss=5.2127)],
        ),
    ),
    reader=Marian,
)

FORMATS = (NEOX, PRIMUS, MEGATRON, BRIDGE, NEMO, DEEPSPEED, COMPOSER, FAIRSEQ, MARIAN)
