"""PyTorch's own examples, and what looks like them."""

from remote.formats.format import Format, Ignored, Line, Pairs, Sample
from remote.formats.memory import Memory
from remote.formats.reading import EVALUATION, Reading, evaluation, step

_LIKE_IMAGENET = "imagenet"
_METERS = Pairs(
    r"((?:max )?[A-Za-z][\w/@.-]{0,40}):? {1,4}<num>(?![\w:])",
    {
        "time": "step_seconds",
        "data": "data_seconds",
        "max mem": "max_memory_mb",
        "acc1": "accuracy__percent",
    },
)
_RESULT = Line(
    r"\* (?:Acc|Prec)@1:? {1,4}<val_accuracy__percent>"
    r"(?: {1,4}(?:Acc|Prec)@5:? {1,4}<val_accuracy_top5__percent>)?(?: {1,4}loss {1,4}<val_loss>)?",
    EVALUATION,
)

IMAGENET = Format(
    "PyTorch imagenet",
    ("Time ", "* Acc@1", "* Prec@1"),
    (
        Sample(
            "Epoch: [0][ 0/40]\tTime 13.696 (13.696)\tData  1.789 ( 1.789)\tLoss 7.0595e+00 (7.0595e+00)\tAcc@1   0.00 (  0.00)\tAcc@5   0.39 (  0.39)",
            [
                step(
                    1,
                    epoch=1,
                    loss=7.0595,
                    step_seconds=13.696,
                    data_seconds=1.789,
                    accuracy=0.0,
                    accuracy_top5=0.0039,
                )
            ],
        ),
        Sample(
            "Epoch: [2][10/40]\tTime 0.500 (0.600)\tData 0.001 (0.002)\tLoss 6.5e+00 (6.6e+00)",
            [step(91, epoch=3, loss=6.5, step_seconds=0.5, data_seconds=0.001)],
        ),
        Sample(
            "Test: [49900/50000]     Time  0.042 ( 0.056)    Loss 5.9356e+00 (6.5670e+00)    Acc@1 100.00 ( 49.15)       Acc@5 100.00 ( 73.46)\n"
            " * Acc@1 49.164 Acc@5 73.468",
            [evaluation(0, val_accuracy=0.49164, val_accuracy_top5=0.73468)],
        ),
        Sample(
            "[gpu id: 0 ] Epoch: [0][ 0/40]    Time 13.696 (13.696)    Data  1.789 ( 1.789)    Loss 7.0595e+00 (7.0595e+00)",
            [step(1, epoch=1, loss=7.0595, step_seconds=13.696, data_seconds=1.789)],
        ),
    ),
    (
        Line(
            r"Epoch: {1,2}\[<epoch_index:int>\]\[ {0,6}<n_index:int>/<total:int>\][\s,:]{1,8}"
            r"(?:Batch )?Time {1,4}<step_seconds> ?\([^)\n]{0,20}\)"
            r"(?:\s{1,8}Data {1,4}(?:[Tt]ime )?<data_seconds> ?\([^)\n]{0,20}\))?"
            r"(?:\s{1,8}Loss {1,4}<loss> ?\([^)\n]{0,20}\))?"
            r"(?:\s{1,8}(?:Acc|Prec)@1 {1,4}<accuracy__percent> ?\([^)\n]{0,20}\))?"
            r"(?:\s{1,8}(?:Acc|Prec)@5 {1,4}<accuracy_top5__percent> ?\([^)\n]{0,20}\))?"
        ),
        _RESULT,
        Ignored(r"Test: {1,2}\[ {0,6}\d{1,12}/\d{1,12}\]\s{1,8}Time {1,4}"),
    ),
    family=_LIKE_IMAGENET,
)

METRIC_LOGGER = Format(
    "MetricLogger",
    ("  eta: ", "Averaged stats:", "Total time:"),
    (
        Sample(
            "Epoch: [49]  [0/4]  eta: 0:00:01  lr: 0.002000  loss: 0.0102 (0.0102)  time: 0.2876  data: 0.2629  max mem: 200",
            [
                step(
                    197,
                    epoch=50,
                    lr=0.002,
                    loss=0.0102,
                    step_seconds=0.2876,
                    data_seconds=0.2629,
                    max_memory_mb=200,
                )
            ],
        ),
        Sample(
            "Train: data epoch: [0]  [2999/3000]  eta: 0:00:00  lr: 0.000030  loss: 3.3003  time: 0.4025  data: 0.0000  max mem: 26767",
            [
                step(
                    3000,
                    epoch=1,
                    lr=0.00003,
                    loss=3.3003,
                    step_seconds=0.4025,
                    data_seconds=0,
                    max_memory_mb=26767,
                )
            ],
        ),
        Sample(
            "Epoch: [49] Total time: 0:00:00 (0.0892 s / it)\nAveraged stats: lr: 0.002000  loss: 0.0102 (0.0102)",
            [],
        ),
        Sample(
            "Epoch: [0]  [9/10]  eta: 0:00:00  loss: 0.7000 (0.8000)  time: 0.1000  data: 0.0100\n"
            "Test:  [  0/105]  eta: 0:05:01  loss: 0.6 (0.6)  acc1: 85.1 (85.1)  time: 2.8  data: 2.1  max mem: 200\n"
            "* Acc@1 81.846 Acc@5 95.594 loss 0.820",
            [
                step(10, epoch=1, loss=0.7, step_seconds=0.1, data_seconds=0.01),
                evaluation(0, val_accuracy=0.81846, val_accuracy_top5=0.95594, val_loss=0.82),
            ],
        ),
    ),
    (
        Line(
            r"\[<epoch_index:int>\]:?\s{1,4}\[ {0,8}<n_index:int>/<total:int>\]\s{1,4}eta: [^a-z]{1,24}(?:days?, [\d:]{1,12})?\s{1,4}(?P<pairs>[^\n]{0,4000})",
            pairs=_METERS,
        ),
        _RESULT,
        Ignored(
            r"Averaged stats:|Total time: .{0,40}s / it|\[ {0,8}\d{1,12}/\d{1,12}\]\s{1,4}eta: "
        ),
    ),
    family=_LIKE_IMAGENET,
)

SWIN = Format(
    "Swin Transformer",
    ("Train: [",),
    (
        Sample(
            "[2021-04-12 10:00:00 swin_tiny] (main.py 178): INFO Train: [0/300][0/1251]\teta 1 day, 2:03:04 lr 0.000001\t time 2.1000 (2.1000)\tloss 6.9000 (6.9000)\tgrad_norm 1.2000 (1.2000)\tmem 8000MB",
            [
                step(
                    1, epoch=1, steps=375300, lr=0.000001, step_seconds=2.1, loss=6.9, grad_norm=1.2
                )
            ],
        ),
    ),
    (
        Line(
            r"Train: \[<epoch_index:int>/<epochs:int>\]\[<n_index:int>/<total:int>\]\s{1,4}eta [\w, :]{1,24}?\s(?P<pairs>lr [^\n]{0,4000})",
            pairs=Pairs(r"([A-Za-z]\w{0,40}) <num>(?![\w:])", {"time": "step_seconds"}),
        ),
    ),
    family=_LIKE_IMAGENET,
)


class Mnist:
    """The reader of the mnist example, which counts samples. What has passed of the epoch is told
    by them; the step is not."""

    open = False
    _train = Line(
        r"Train Epoch: <epoch:int> \[<n:int>/<total:int> {1,2}\([\d.]{1,6}%\)\]\s{1,8}[Ll]oss[:=] {0,4}<loss>"
    )
    _test = Line(r"Test set: Average loss: <val_loss>, Accuracy: <right:int>/<all:int>", EVALUATION)

    def read(self, line: str, start: int, memory: Memory) -> Reading | None:
        """See `Reader`."""
        values = self._train.values(line, start)
        if values:
            passed = values["epoch"] - 1 + values.pop("n") / max(1, values.pop("total"))
            return memory.place(None, values | {"epoch": passed})
        values = self._test.values(line, start)
        if values:
            right = values.pop("right")
            whole = values.pop("all")
            return memory.place(EVALUATION, values | {"val_accuracy": right / max(1, whole)})
        return None


MNIST = Format(
    "PyTorch mnist",
    ("Train Epoch: ", "Test set: "),
    (
        Sample(
            "Train Epoch: 1 [640/60000 (1%)]\tLoss: 1.837346",
            [step(0, epoch=640 / 60000, loss=1.837346)],
        ),
        Sample(
            "Train Epoch: 2 [30000/60000 (50%)]\tloss=0.2135", [step(0, epoch=1.5, loss=0.2135)]
        ),
        Sample(
            "\nTest set: Average loss: 0.0634, Accuracy: 9799/10000 (98%)\n",
            [evaluation(0, val_loss=0.0634, val_accuracy=0.9799)],
        ),
    ),
    reader=Mnist,
)

TIMM = Format(
    "timm",
    ("Train: ", "Test"),
    (
        Sample(
            "Train: 0 [  50/73 ( 70%)]  Loss: 6.77 (6.83)  Time: 0.320s,  400.32/s  (0.470s,  272.39/s)  LR: 1.000e-05  Data: 0.217 (0.047)",
            [
                step(
                    51,
                    epoch=1,
                    loss=6.77,
                    step_seconds=0.32,
                    samples_per_second=400.32,
                    lr=1e-5,
                    data_seconds=0.217,
                )
            ],
        ),
        Sample(
            "2023-01-05 16:34:49,377 -                train: [    INFO] - Train: 1 [   0/73 (  0%)]  Loss: 517. (517.)  Time: 0.500s,  256.00/s  (0.500s,  256.00/s)  LR: 1.000e-05  Data: 0.217 (0.047)",
            [
                step(
                    74,
                    epoch=2,
                    loss=517.0,
                    step_seconds=0.5,
                    samples_per_second=256,
                    lr=1e-5,
                    data_seconds=0.217,
                )
            ],
        ),
        Sample(
            "Test: [   0/30]  Time: 6.593 (6.593)  Loss:   6.723 ( 6.723)  Acc@1:   0.000 (  0.000)  Acc@5:   0.000 (  0.000)\n"
            "Test: [  30/30]  Time: 0.193 (0.593)  Loss:   6.100 ( 6.523)  Acc@1:   1.000 (  2.500)  Acc@5:   3.000 (  5.000)",
            [evaluation(0, val_loss=6.523, val_accuracy=0.025, val_accuracy_top5=0.05)],
        ),
    ),
    (
        Line(
            r"Train: <epoch_index:int> \[ {0,8}<n_index:int>/<total:int> {1,2}\( {0,3}\d{1,3}%\)\] {1,4}Loss: {1,8}<loss> \([^)\n]{1,20}\)"
            r" {1,4}Time: {1,4}<step_seconds>s, {1,8}<samples_per_second>/s {1,4}\([^)\n]{1,40}\)(?: {1,4}LR: {1,4}<lr>)?(?: {1,4}Data: {1,4}<data_seconds>)?"
        ),
        Line(
            r"Test(?: \(\w{1,20}\))?: \[ {0,8}(\d{1,12})/\1\] {1,4}Time: [^L\n]{1,60}Loss: {1,8}<num> \( {0,8}<val_loss>\)"
            r"(?: {1,4}Acc@1: {1,8}<num> \( {0,8}<val_accuracy__percent>\))?(?: {1,4}Acc@5: {1,8}<num> \( {0,8}<val_accuracy_top5__percent>\))?",
            EVALUATION,
        ),
        Ignored(r"Test(?: \(\w{1,20}\))?: \[ {0,8}\d{1,12}/\d{1,12}\] {1,4}Time: "),
    ),
)

OPENPCDET = Format(
    "OpenPCDet",
    ("Acc_iter ",),
    (
        Sample(
            "2023-01-05 16:34:49,377   INFO  Train:    1/3 ( 33%) [  49/323 ( 15%)]  Loss: 36.77 (81.7)  LR: 1.351e-04  Time cost: 00:15/01:25 [00:15/04:48]  Acc_iter 50          Data time: 0.00(0.02)  Forward time: 0.31(0.29)  Batch time: 0.31(0.31)",
            [
                step(
                    50,
                    epoch=1,
                    steps=969,
                    loss=36.77,
                    lr=1.351e-4,
                    data_seconds=0.0,
                    step_seconds=0.31,
                )
            ],
        ),
    ),
    (
        Line(
            r"Train: {1,8}<epoch:int>/<epochs:int> {1,2}\([^)\n]{1,6}\) \[ {0,8}<n_index:int>/<total:int> {1,2}\([^)\n]{1,6}\)\] {1,4}Loss: {1,8}<loss> \([^)\n]{1,20}\)"
            r" {1,4}LR: {1,4}<lr>[^\n]{1,80}?Acc_iter <step:int> {1,20}Data time: {1,4}<data_seconds>\([^\n]{1,80}?Batch time: {1,4}<step_seconds>\("
        ),
    ),
)

IGNITE = Format(
    "Ignite",
    ("Iteration[",),
    (
        Sample(
            "2020-07-08 05:44:08,092 reid_baseline.train INFO: Epoch[11] Iteration[100/316] Loss: 7.967, data time: 0.005s, model time: 0.322s",
            [step(3260, epoch=11, loss=7.967, data_seconds=0.005, compute_seconds=0.322)],
        ),
        Sample(
            "2022-01-01 10:00:00,000 transreid.train INFO: Epoch[1] Iteration[100/2997] Loss: 5.336, Acc: 0.006, Base Lr: 3.50e-06",
            [step(100, epoch=1, loss=5.336, accuracy=0.006, lr=3.5e-6)],
        ),
    ),
    (
        Line(
            r"Epoch\[<epoch:int>\],? Iteration\[<n:int>/<total:int>\] (?P<pairs>[^\n]{1,1000})",
            pairs=Pairs(
                r"([A-Za-z][\w /]{0,40}): {1,4}<num>s?(?![\w:])",
                {"data time": "data_seconds", "model time": "compute_seconds", "Base Lr": "lr"},
            ),
        ),
    ),
)

FORMATS = (SWIN, METRIC_LOGGER, IMAGENET, OPENPCDET, TIMM, IGNITE, MNIST)
