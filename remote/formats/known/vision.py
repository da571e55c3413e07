"""Trainers of vision models: OpenMMLab, detectron2, Paddle, Caffe, darknet."""

from remote.formats.format import Format, Ignored, Line, Pairs, Sample
from remote.formats.memory import Memory
from remote.formats.reading import (
    EVALUATION,
    OTHER,
    STEP,
    UNDERSTOOD,
    Reading,
    evaluation,
    step,
)

_MM = {
    "base_lr": "base_lr",
    "time": "step_seconds",
    "data_time": "data_seconds",
    "memory": "memory_mb",
    "acc": "accuracy__percent",
    "accuracy/top1": "accuracy__percent",
    "top1_acc": "accuracy__percent",
    "accuracy_top-1": "accuracy__percent",
}
_MM_VALID = {
    "time": "",
    "data_time": "",
    "accuracy/top1": "val_accuracy__percent",
    "acc": "val_accuracy__percent",
}
_MM_PAIR = r"([A-Za-z][\w/@.-]{0,80}): {1,4}<num>(?![\w:])"

MMENGINE = Format(
    "mmengine",
    ("Epoch(train)", "Iter(train)", "Epoch(val)", "Iter(val)", "Epoch(test)"),
    (
        Sample(
            "02/20 14:43:11 - mmengine - INFO - Epoch(train)   [1][ 100/3125]  lr: 1.0000e-01  eta: 6:12:01  time: 0.0149  data_time: 0.0003  memory: 214  loss: 2.0611",
            [
                step(
                    100,
                    epoch=1,
                    lr=0.1,
                    step_seconds=0.0149,
                    data_seconds=0.0003,
                    memory_mb=214,
                    loss=2.0611,
                )
            ],
        ),
        Sample(
            "08/21 02:58:41 - mmengine - INFO - Iter(train) [  500/80000]  lr: 1.0000e-02  eta: 1 day, 2:03:04  time: 0.5000  data_time: 0.0100  memory: 5000  loss: 0.9000  decode.acc_seg: 71.5",
            [
                step(
                    500,
                    {"decode.acc_seg": 71.5},
                    steps=80000,
                    lr=0.01,
                    step_seconds=0.5,
                    data_seconds=0.01,
                    memory_mb=5000,
                    loss=0.9,
                )
            ],
        ),
        Sample(
            "02/20 14:53:11 - mmengine - INFO - Epoch(val) [1][25/25]    coco/bbox_mAP: 0.3120  coco/bbox_mAP_50: 0.5000  data_time: 0.0102  time: 0.0502\n"
            "02/20 14:52:11 - mmengine - INFO - Epoch(val) [1][10/25]    eta: 0:00:01  time: 0.05  data_time: 0.01  memory: 200",
            [evaluation(0, {"coco/bbox_mAP": 0.312, "coco/bbox_mAP_50": 0.5}, epoch=1)],
        ),
    ),
    (
        Line(
            r"Epoch\(train\) {1,8}\[ {0,8}<epoch:int>\]\[ {0,8}<n:int>/ {0,8}<total:int>\] {1,8}(?P<pairs>[^\n]{1,4000})",
            pairs=Pairs(_MM_PAIR, _MM),
        ),
        Line(
            r"Iter\(train\) {1,8}\[ {0,8}<step:int>/ {0,8}<steps:int>\] {1,8}(?P<pairs>[^\n]{1,4000})",
            pairs=Pairs(_MM_PAIR, _MM),
        ),
        Ignored(r"(?:Epoch|Iter)\((?:val|test)\) [^\n]{1,60} eta: "),
        Line(
            r"(?:Epoch\((?:val|test)\) {1,8}\[ {0,8}<epoch:int>\]|Iter\((?:val|test)\) {1,8})\[ {0,8}\d{1,12}/ {0,8}\d{1,12}\] {1,8}(?P<pairs>[^\n]{1,4000})",
            EVALUATION,
            pairs=Pairs(_MM_PAIR, _MM_VALID),
        ),
    ),
)
MMCV = Format(
    "mmcv",
    ("Epoch [", "Iter [", "Epoch(val) ["),
    (
        Sample(
            "2022-06-03 06:33:38,427 - mmdet - INFO - Epoch [1][50/7517]     lr: 1.000e-02, eta: 2:00:00, time: 0.240, data_time: 0.051, memory: 2404, loss_rpn_cls: 0.1461, loss_rpn_bbox: 0.0187, loss_cls: 0.3264, acc: 95.1289, loss_bbox: 0.1275, loss: 0.6188",
            [
                step(
                    50,
                    epoch=1,
                    lr=0.01,
                    step_seconds=0.24,
                    data_seconds=0.051,
                    memory_mb=2404,
                    loss_rpn_cls=0.1461,
                    loss_rpn_bbox=0.0187,
                    loss_cls=0.3264,
                    accuracy=0.951289,
                    loss_bbox=0.1275,
                    loss=0.6188,
                )
            ],
        ),
        Sample(
            "2022-06-03 06:33:38,427 - mmseg - INFO - Iter [50/160000]\tlr: 1.0e-02, eta: 22:10:01, time: 0.500, data_time: 0.010, memory: 8000, loss: 1.5",
            [
                step(
                    50,
                    steps=160000,
                    lr=0.01,
                    step_seconds=0.5,
                    data_seconds=0.01,
                    memory_mb=8000,
                    loss=1.5,
                )
            ],
        ),
        Sample(
            "2022-06-03 06:33:38,427 - mmdet - INFO - Epoch [1][50/7517]\tlr: 1.000e-02, eta: 2:00:00, time: 0.240, loss: 0.5\n"
            "2022-06-03 08:33:38,427 - mmdet - INFO - Epoch(val) [1][625]\tbbox_mAP: 0.3040, bbox_mAP_50: 0.5000",
            [
                step(50, epoch=1, lr=0.01, step_seconds=0.24, loss=0.5),
                evaluation(0, {"bbox_mAP": 0.304, "bbox_mAP_50": 0.5}, epoch=1),
            ],
        ),
    ),
    (
        Line(
            r"Epoch \[<epoch:int>\]\[<n:int>/<total:int>\]\s{1,8}(?P<pairs>lr: [^\n]{1,4000})",
            pairs=Pairs(_MM_PAIR, _MM),
        ),
        Line(
            r"Iter \[<step:int>/<steps:int>\]\s{1,8}(?P<pairs>lr: [^\n]{1,4000})",
            pairs=Pairs(_MM_PAIR, _MM),
        ),
        Line(
            r"Epoch\(val\) \[<epoch:int>\]\[\d{1,12}\]\s{1,8}(?P<pairs>[^\n]{1,4000})",
            EVALUATION,
            pairs=Pairs(_MM_PAIR, _MM_VALID),
        ),
    ),
)

_D2_PAIR = r"([A-Za-z][\w/@.-]{0,80}): <num>(?![\w:])"
DETECTRON2 = Format(
    "detectron2",
    ("  iter: ",),
    (
        Sample(
            "\x1b[32m[11/14 20:41:39 d2.utils.events]: \x1b[0m eta: 0:01:51  iter: 19  total_loss: 1.589  loss_cls: 1.439  loss_box_reg: 0.1429  time: 0.1136  data_time: 0.0048  lr: 4.9953e-06  max_mem: 2030M",
            [
                step(
                    20,
                    loss=1.589,
                    loss_cls=1.439,
                    loss_box_reg=0.1429,
                    step_seconds=0.1136,
                    data_seconds=0.0048,
                    lr=4.9953e-6,
                )
            ],
        ),
        Sample(
            "[11/14 20:41:39 d2.utils.events]:  eta: 1 day, 11:14:26  iter: 39  total_loss: 1.2    time: 0.1136  last_time: 0.1000  data_time: 0.0048  last_data_time: 0.0000   lr: N/A  max_mem: 2030M",
            [step(40, loss=1.2, step_seconds=0.1, data_seconds=0.0)],
        ),
    ),
    (
        Line(
            r" iter: <index:int>  (?P<pairs>total_loss: [^\n]{0,4000} last_time: [^\n]{1,400})",
            pairs=Pairs(
                _D2_PAIR,
                {
                    "time": "",
                    "data_time": "",
                    "last_time": "step_seconds",
                    "last_data_time": "data_seconds",
                },
            ),
        ),
        Line(
            r" iter: <index:int>  (?P<pairs>total_loss: [^\n]{0,4000})",
            pairs=Pairs(_D2_PAIR, {"time": "step_seconds", "data_time": "data_seconds"}),
        ),
    ),
)

_PADDLE_PAIR = (
    r"([A-Za-z][\w@]{0,60}(?:\(\w{1,40}\))?): <num>(?: s|s)?(?=,| samples/s| images/sec|$)"
)
PADDLE = Format(
    "Paddle",
    ("avg_batch_cost: ", "batch_cost: ", "[Eval][Epoch "),
    (
        Sample(
            "[2022/08/16 03:08:41] ppocr INFO: epoch: [1/400], global_step: 40, lr: 0.000100, acc: 0.000000, loss: 1.750859, avg_reader_cost: 0.02533 s, avg_batch_cost: 3.37251 s, avg_samples: 48.0, ips: 14.23271 samples/s, eta: 6 days, 23:28:43",
            [
                step(
                    40,
                    epoch=1,
                    lr=0.0001,
                    accuracy=0.0,
                    loss=1.750859,
                    data_seconds=0.02533,
                    step_seconds=3.37251,
                    avg_samples=48.0,
                    samples_per_second=14.23271,
                )
            ],
        ),
        Sample(
            "[2021/09/01 10:00:00] ppcls INFO: [Train][Epoch 2/20][Iter: 0/226]lr(LinearWarmup): 0.00125, CELoss: 1.5, loss: 1.5, batch_cost: 2.10000s, reader_cost: 0.50000, ips: 60.95238 samples/s, eta: 1:02:03",
            [
                step(
                    227,
                    epoch=2,
                    steps=4520,
                    lr=0.00125,
                    CELoss=1.5,
                    loss=1.5,
                    step_seconds=2.1,
                    data_seconds=0.5,
                    samples_per_second=60.95238,
                )
            ],
        ),
        Sample(
            "ppcls INFO: [Eval][Epoch 0][Iter: 20/157]CELoss: 0.14618, loss: 0.14618, top1: 0.93601, batch_cost: 0.02379s, reader_cost: 0.00016, ips: 2690.05243 images/sec\n"
            "ppcls INFO: [Eval][Epoch 1][Avg]CELoss: 0.15000, loss: 0.15000, top1: 0.93000, top5: 0.99000",
            [
                evaluation(
                    0,
                    epoch=1,
                    CELoss=0.15,
                    val_loss=0.15,
                    val_accuracy=0.93,
                    val_accuracy_top5=0.99,
                )
            ],
        ),
    ),
    (
        Line(
            r"epoch: \[<epoch:int>/<num>\](?:, iter: \d{1,12})?, global_step: <step:int>, (?P<pairs>[^\n]{1,4000})",
            pairs=Pairs(_PADDLE_PAIR, {"ips": "samples_per_second"}),
        ),
        Line(
            r"\[Train\]\[Epoch <epoch:int>/<epochs:int>\]\[Iter: <n_index:int>/<total:int>\](?P<pairs>[^\n]{1,4000})",
            pairs=Pairs(
                _PADDLE_PAIR,
                {
                    "ips": "samples_per_second",
                    "lr(LinearWarmup)": "lr",
                    "lr(PiecewiseDecay)": "lr",
                    "lr(CosineAnnealingDecay)": "lr",
                },
            ),
        ),
        Line(
            r"\[Eval\]\[Epoch <epoch:int>\]\[Avg\](?P<pairs>[^\n]{1,4000})",
            EVALUATION,
            pairs=Pairs(
                _PADDLE_PAIR,
                {"loss": "val_loss", "top1": "val_accuracy", "top5": "val_accuracy_top5"},
            ),
        ),
        Ignored(r"\[Eval\]\[Epoch \d{1,9}\]\[Iter: "),
    ),
)


class Caffe:
    """The reader of Caffe's lines: the loss, the rate and the outputs of its nets, which belong to
    the iteration before them."""

    open = False
    _loss = Line(r"Iteration <index:int>(?: \([^)\n]{1,60}\))?, loss = <loss>")
    _rate = Line(r"Iteration <index:int>, lr = <lr>", OTHER)
    _testing = Line(r"Iteration <step:int>, Testing net")
    _test = Line(
        r"Test net output #\d{1,4}: (?P<pairs>[^\n]{1,200})",
        pairs=Pairs(r"^([\w/.-]{1,60}) = <num>", {"loss": "val_loss", "accuracy": "val_accuracy"}),
    )
    _train = Ignored(r"Train net output #")

    def __init__(self) -> None:
        self._tested = 0.0

    def read(self, line: str, start: int, memory: Memory) -> Reading | None:
        """See `Reader`."""
        values = self._testing.values(line, start)
        if values:
            self._tested = values["step"]
            return UNDERSTOOD
        values = self._test.values(line, start)
        if values:
            return memory.place(EVALUATION, values | {"step": self._tested})
        for one in (self._loss, self._rate, self._train):
            reading = one.read(line, start, memory)
            if reading is not None:
                return reading
        return None


CAFFE = Format(
    "Caffe",
    (", loss = ", ", lr = ", " net output #", "Testing net"),
    (
        Sample(
            "I0727 00:00:08.500051 1934443264 solver.cpp:228] Iteration 100, loss = 1.16216\n"
            "I0727 00:00:08.500051 1934443264 solver.cpp:244]     Train net output #0: loss = 1.16216 (* 1 = 1.16216 loss)\n"
            "I0727 00:00:08.500051 1934443264 sgd_solver.cpp:106] Iteration 100, lr = 0.001",
            [step(101, loss=1.16216, lr=0.001)],
        ),
        Sample(
            "I0727 00:00:09.0 12 solver.cpp:337] Iteration 500, Testing net (#0)\nI0727 00:00:09.5 12 solver.cpp:404]     Test net output #0: accuracy = 0.98\n"
            "I0727 00:00:09.5 12 solver.cpp:404]     Test net output #1: loss = 0.07 (* 1 = 0.07 loss)\n"
            "I0727 00:00:09.6 12 solver.cpp:228] Iteration 500 (5.1 iter/s, 19.6s/100 iters), loss = 0.05",
            [evaluation(500, val_accuracy=0.98, val_loss=0.07), step(501, loss=0.05)],
        ),
    ),
    reader=Caffe,
)
DARKNET = Format(
    "darknet",
    (" avg, ", " avg loss, "),
    (
        Sample(
            "1: 756.629517, 756.629517 avg, 0.000000 rate, 1.112322 seconds, 64 images",
            [step(1, loss=756.629517, lr=0, step_seconds=1.112322)],
        ),
        Sample(
            " 99, 25.344: 1.554884, 1.496595 avg, 0.001000 rate, 0.250000 seconds, 6336 images",
            [step(99, epoch=25.344, loss=1.554884, lr=0.001, step_seconds=0.25)],
        ),
        Sample(
            " 300: 0.612000, 0.700000 avg loss, 0.001000 rate, 2.500000 seconds, 19200 images, 1.2 hours left",
            [step(300, loss=0.612, lr=0.001, step_seconds=2.5)],
        ),
    ),
    (
        Line(
            r"(?:^|\s)<step:int>(?:, <epoch>)?: <loss>, <num> avg(?: loss)?, <lr> rate, <step_seconds> seconds, \d{1,15} images",
            STEP,
        ),
    ),
)

FORMATS = (MMENGINE, MMCV, DETECTRON2, PADDLE, CAFFE, DARKNET)
