"""Small trainers of language models: nanoGPT, its kin, litgpt, torchtitan, MaxText, OLMo."""

from remote.formats.format import Format, Ignored, Line, Names, Pairs, Sample
from remote.formats.known.tables import Headed
from remote.formats.memory import Memory
from remote.formats.reading import EVALUATION, STEP, Reading, evaluation, step

NANOGPT = Format(
    "nanoGPT",
    ("iter ", ": train loss "),
    (
        Sample(
            "iter 1: loss 4.1916, time 56.27ms, mfu -100.00%",
            [step(2, loss=4.1916, step_seconds=0.05627, mfu=-1.0)],
        ),
        Sample(
            "step 0: train loss 4.2025, val loss 4.2041",
            [evaluation(0, train_loss=4.2025, val_loss=4.2041)],
        ),
        Sample(
            "iter 7: loss nan, time 56.27ms", [step(8, loss=float("nan"), step_seconds=0.05627)]
        ),
    ),
    (
        Line(r"iter <index:int>: loss <loss>, time <step_seconds__ms>ms(?:, mfu <mfu__percent>%)?"),
        Line(r"step <step:int>: train loss <train_loss>, val loss <val_loss>", EVALUATION),
    ),
)

NANOCHAT = Format(
    "nanochat",
    ("| lrm: ", "| Validation bpb: ", "| Average reward: "),
    (
        Sample(
            "step 00200/35280 (0.57%) | loss: 5.147944 | lrm: 1.00 | dt: 558.89ms | tok/sec: 58,679 | bf16_mfu: 0.00 | epoch: 1 pq: 0 rg: 279 | total time: 25.43m | eta: 1951.2m",
            [
                step(
                    201,
                    steps=35280,
                    loss=5.147944,
                    lr_multiplier=1.0,
                    step_seconds=0.55889,
                    tokens_per_second=58679,
                    mfu=0.0,
                )
            ],
        ),
        Sample("Step 00250 | Validation bpb: 0.998877", [evaluation(250, val_bpb=0.998877)]),
        Sample(
            "Step 3/467 | Average reward: 0.03 | Sequence length: 210.5",
            [step(4, steps=467, reward=0.03)],
        ),
    ),
    (
        Line(
            r"step {1,4}<index:int>/<steps:int> \([\d.]{1,8}%\) \| loss: {1,4}<loss> \| lrm: <lr_multiplier> \| dt: <step_seconds__ms>ms"
            r" \| tok/sec: <tokens_per_second:commas>(?: \| (?:bf16_)?mfu: <mfu__percent>)?"
        ),
        Line(r"Step {1,4}<step:int> \| Validation bpb: <val_bpb>", EVALUATION),
        Line(r"Step {1,4}<index:int>/<steps:int> \| Average reward: <reward>"),
    ),
)

AUTORESEARCH = Format(
    "autoresearch",
    ("| lrm: ", "val_bpb:", "training_seconds:"),
    (
        Sample(
            "\rstep 00369 (39.0%) | loss: 3.132883 | lrm: 1.00 | dt: 322ms | tok/sec: 1,625,889 | mfu: 39.3% | epoch: 1 | remaining: 183s    "
            "\rstep 00370 (39.1%) | loss: 3.131000 | lrm: 1.00 | dt: 322ms | tok/sec: 1,625,889 | mfu: 39.3% | epoch: 1 | remaining: 183s    ",
            [
                step(
                    370,
                    loss=3.132883,
                    lr_multiplier=1.0,
                    step_seconds=0.322,
                    tokens_per_second=1625889,
                    mfu=0.393,
                    epoch=1,
                ),
                step(
                    371,
                    loss=3.131,
                    lr_multiplier=1.0,
                    step_seconds=0.322,
                    tokens_per_second=1625889,
                    mfu=0.393,
                    epoch=1,
                ),
            ],
        ),
        Sample(
            "---\nval_bpb:          0.994321\ntraining_seconds: 300.1",
            [evaluation(0, val_bpb=0.994321)],
        ),
    ),
    (
        Line(
            r"step {1,4}<index:int> \([\d.]{1,8}%\) \| loss: {1,4}<loss> \| lrm: <lr_multiplier> \| dt: <step_seconds__ms>ms"
            r" \| tok/sec: <tokens_per_second:commas>(?: \| (?:bf16_)?mfu: <mfu__percent>%?)?(?: \| epoch: <epoch:int>)?"
        ),
        Line(r"^val_bpb: {1,16}<val_bpb>\s{0,8}$", EVALUATION),
        Ignored(r"^training_seconds: {1,16}<num>"),
    ),
)


class Modded:
    """The reader of modded-nanogpt, whose `step_avg` is the mean since the start: the time of a step
    is what `train_time` has grown by."""

    open = False
    _valid = Line(
        r"step:<step:int>/<steps:int> val_loss:<val_loss> train_time:<num>m?s", EVALUATION
    )
    _train = Line(
        r"step:<step:int>/<steps:int>(?: train_loss:<loss>)? train_time:<time>m?s step_avg:<average__ms>ms"
    )
    _old_valid = Line(r"^s:<step:int> tel:<val_loss>", EVALUATION)
    _old_train = Line(r"^s:<step:int> trl:<loss>")

    def __init__(self) -> None:
        self._step = self._time = 0.0

    def read(self, line: str, start: int, memory: Memory) -> Reading | None:
        """See `Reader`."""
        values = self._train.values(line, start)
        if values is not None:
            return self._timed(values, "s step_avg" in line and "ms step_avg" not in line, memory)
        for one in (self._valid, self._old_train, self._old_valid):
            reading = one.read(line, start, memory)
            if reading is not None:
                return reading
        return None

    def _timed(self, values: dict[str, float], in_seconds: bool, memory: Memory) -> Reading | None:
        time = values.pop("time") * (1.0 if in_seconds else 1e-3)
        average = values.pop("average")
        done = values["step"] - self._step
        spent = time - self._time
        self._step = values["step"]
        self._time = time
        values["step_seconds"] = spent / done if done > 0 and spent > 0 else average
        return memory.place(STEP, values)


MODDED_NANOGPT = Format(
    "modded-nanogpt",
    ("train_time:", "s:"),
    (
        Sample(
            "step:0/1390 val_loss:10.8292 train_time:0ms step_avg:0.04ms\n"
            "step:1/1390 train_time:101ms step_avg:101.21ms\n"
            "step:3/1390 train_time:301ms step_avg:100.33ms\n"
            "step:1390/1390 val_loss:3.2773 train_time:79740ms step_avg:57.37ms",
            [
                evaluation(0, steps=1390, val_loss=10.8292),
                step(1, steps=1390, step_seconds=0.101),
                step(3, steps=1390, step_seconds=0.1),
                evaluation(1390, steps=1390, val_loss=3.2773),
            ],
        ),
        Sample(
            "step:5/100 train_time:56.129s step_avg:nanms",
            [step(5, steps=100, step_seconds=56.129 / 5)],
        ),
        Sample(
            "s:0 tel:10.968871\ns:1 trl:10.814037",
            [evaluation(0, val_loss=10.968871), step(1, loss=10.814037)],
        ),
    ),
    reader=Modded,
)

LLM_C = Format(
    "llm.c",
    ("| norm ", "| val loss "),
    (
        Sample(
            "step    1/19560 | loss 11.010252 (+nanz)| norm 15.1374 (+nanz)| lr 8.57e-07 | 4688.25 ms | 28.8% bf16 MFU | 111830 tok/s",
            [
                step(
                    1,
                    steps=19560,
                    loss=11.010252,
                    grad_norm=15.1374,
                    lr=8.57e-7,
                    step_seconds=4.68825,
                    mfu=0.288,
                    tokens_per_second=111830,
                )
            ],
        ),
        Sample(
            "step    1/50 | train loss 4.900000 | norm 1.2000 | lr 1.00e-04 | (123.45 ms | 33190 tok/s)",
            [
                step(
                    1,
                    steps=50,
                    loss=4.9,
                    grad_norm=1.2,
                    lr=1e-4,
                    step_seconds=0.12345,
                    tokens_per_second=33190,
                )
            ],
        ),
        Sample("val loss 5.321", []),
    ),
    (
        Line(
            r"step {1,8}<step:int>/<steps:int> \| (?:train )?loss <loss>(?: \([^)\n]{1,12}\))? ?\| norm <grad_norm>(?: \([^)\n]{1,12}\))? ?\| lr <lr>"
            r" \| \(?<step_seconds__ms> ms(?: \| <mfu__percent>% \w{1,8} MFU)? \| <tokens_per_second> tok/s"
        ),
    ),
)

TORCHTITAN = Format(
    "torchtitan",
    ("  loss: ",),
    (
        Sample(
            "[titan] 2026-02-24 19:46:17,508 - root - INFO - step:  4  loss:  7.62585  grad_norm: 26.6250  memory: 66.91GiB(37.51%)  tps: 10,050  tflops: 314.71  mfu: 13.99%",
            [
                step(
                    4,
                    loss=7.62585,
                    grad_norm=26.625,
                    memory_gib=66.91,
                    tokens_per_second_per_device=10050,
                    tflops_per_device=314.71,
                    mfu=0.1399,
                )
            ],
        ),
        Sample(
            "[rank0]:[titan] 2026-05-18 16:04:46,338 - root - INFO - \x1b[31mstep: 14  \x1b[32mloss:  3.24405  \x1b[38;2;180;60;0mgrad_norm:  1.2500  \x1b[36mmemory: 66.91GiB(37.51%)  \x1b[34mtps: 9,050  \x1b[39mtflops: 314.71  \x1b[35mmfu: N/A\x1b[39m",
            [
                step(
                    14,
                    rank=0,
                    loss=3.24405,
                    grad_norm=1.25,
                    memory_gib=66.91,
                    tokens_per_second_per_device=9050,
                    tflops_per_device=314.71,
                )
            ],
        ),
        Sample(
            "[titan] 2026-02-24 19:46:17,508 - root - INFO - step: 10  loss:  6.62585\n"
            "[titan] 2026-02-24 19:46:18,508 - root - INFO - validate step: 10  loss:  7.1234  memory: 66.91GiB(37.51%)  tps: 20,100",
            [step(10, loss=6.62585), evaluation(10, val_loss=7.1234)],
        ),
    ),
    (
        Line(r"validate step: {1,8}<step:int>  loss: {1,4}<val_loss>", EVALUATION),
        Line(
            r"step: {1,8}<step:int>  loss: {1,4}<loss>(?:  grad_norm: {1,4}<grad_norm>)?(?:  memory: {1,4}<memory_gib>GiB\([\d.]{1,8}%\))?"
            r"(?:  tps: <tokens_per_second_per_device:commas>)?(?:  tflops: <tflops_per_device:commas>)?(?:  mfu: <mfu__percent>%)?"
        ),
    ),
)

LITGPT = Format(
    "litgpt",
    ("| iter time: ", ": val loss "),
    (
        Sample(
            "Epoch 1 | iter 2 step 1 | loss train: 1.660, val: n/a | iter time: 548.72 ms (step) remaining time: 0:01:02",
            [step(1, epoch=1, loss=1.66, step_seconds=0.54872)],
        ),
        Sample(
            "Epoch 1 | iter 3 step 1 | loss train: 1.660, val: n/a | iter time: 548.72 ms\n"
            "Epoch 1 | iter 4 step 2 | loss train: 1.640, val: 1.702 | iter time: 548.72 ms (step)",
            [step(2, epoch=1, loss=1.64, val_loss=1.702, step_seconds=0.54872)],
        ),
        Sample("iter 200: val loss 1.2345, val time: 1234.56 ms", [evaluation(0, val_loss=1.2345)]),
    ),
    (
        Line(
            r"Epoch <epoch:int> \| iter \d{1,12} step <step:int> \| loss train: <loss>, val: (?:<val_loss>|n/a) \| iter time: <step_seconds__ms> ms \(step\)"
        ),
        Line(r"^iter \d{1,12}: val loss <val_loss>, val time: ", EVALUATION),
        Ignored(r"Epoch \d{1,9} \| iter \d{1,12} step \d{1,12} \| loss train: "),
    ),
)

MAXTEXT = Format(
    "MaxText",
    ("completed step: ", "eval after train step ", "eval metrics after step: "),
    (
        Sample(
            "I0706 16:50:26.230209 140110937163584 metric_logger.py:214] completed step: 2, seconds: 5.658, TFLOP/s/device: 135.158, Tokens/s/device: 8687.815, total_weights: 196608, loss: 11.689",
            [
                step(
                    3,
                    step_seconds=5.658,
                    tflops_per_device=135.158,
                    tokens_per_second_per_device=8687.815,
                    loss=11.689,
                )
            ],
        ),
        Sample(
            "[Rampup Batch Size Phase], completed step: 3, seconds: 0.300, loss: 11.5, lm_loss: 11.5, perplexity: 98715.7",
            [step(4, step_seconds=0.3, loss=11.5, perplexity=98715.7)],
        ),
        Sample(
            "Completed eval after train step 9, loss=9.4, perplexity=12088.4",
            [evaluation(10, val_loss=9.4, val_perplexity=12088.4)],
        ),
    ),
    (
        Line(
            r"completed step: <index:int>, (?P<pairs>seconds: [^\n]{1,1000})",
            pairs=Pairs(
                r"([A-Za-z][\w/]{0,40}): <num>",
                {
                    "seconds": "step_seconds",
                    "TFLOP/s/device": "tflops_per_device",
                    "total_weights": "",
                },
            ),
        ),
        Line(
            r"eval (?:after train step |metrics after step: )<index:int>, (?P<pairs>[^\n]{1,1000})",
            EVALUATION,
            pairs=Pairs(
                r"([A-Za-z]\w{0,40})=<num>",
                {"loss": "val_loss", "perplexity": "val_perplexity", "total_weights": ""},
            ),
        ),
    ),
)

OLMO = Format(
    "OLMo",
    ("[step=",),
    (
        Sample(
            "[2024-04-17 09:42:26] INFO     [olmo.train:816, rank=0] [step=1/739328]\n"
            "    train/CrossEntropyLoss=11.25\n    throughput/total_tokens=4,194,304\n"
            "    throughput/device/tokens_per_second=10,200\n",
            [
                step(
                    1,
                    {"throughput/total_tokens": 4194304},
                    steps=739328,
                    loss=11.25,
                    tokens_per_second_per_device=10200,
                )
            ],
        ),
        Sample(
            "[step=1000/739328,epoch=1]\n    optim/total grad norm=0.5\n    eval/validation/CrossEntropyLoss=3.5",
            [
                step(
                    1000,
                    {"eval/validation/CrossEntropyLoss": 3.5},
                    epoch=1,
                    steps=739328,
                    grad_norm=0.5,
                )
            ],
        ),
    ),
    reader=lambda: Headed(
        r"\[step=<step:int>(?:/<steps:int>)?(?:,\s?epoch=<epoch:int>)?[^\]\n]{0,40}\]\s{0,4}$",
        r"^\s{0,40}([A-Za-z][^=\n]{0,100})=<commas>\s{0,4}$",
        Names(
            {
                "throughput/device/tokens_per_second": "tokens_per_second_per_device",
                "optim/total grad norm": "grad_norm",
            }
        ),
    ),
)

FORMATS = (
    NANOCHAT,
    AUTORESEARCH,
    MODDED_NANOGPT,
    LLM_C,
    LITGPT,
    NANOGPT,
    TORCHTITAN,
    MAXTEXT,
    OLMO,
)
