"""PyTorch's own examples, and what looks like them."""

from remote.formats.format import EVALUATION, Format, Line, Sample
from remote.formats.reading import evaluation, step

IMAGENET = Format(
    "PyTorch imagenet",
    ("Time ", " * Acc@1"),
    (
        Sample(
            "Epoch: [0][ 0/40]\tTime 13.696 (13.696)\tData  1.789 ( 1.789)\tLoss 7.0595e+00 "
            "(7.0595e+00)\tAcc@1   0.00 (  0.00)\tAcc@5   0.39 (  0.39)",
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
            "Test: [49900/50000]     Time  0.042 ( 0.056)    Loss 5.9356e+00 (6.5670e+00)    "
            "Acc@1 100.00 ( 49.15)       Acc@5 100.00 ( 73.46)\n * Acc@1 49.164 Acc@5 73.468",
            [evaluation(0, val_accuracy=0.49164, val_accuracy_top5=0.73468)],
        ),
        Sample(
            "[gpu id: 0 ] Epoch: [0][ 0/40]    Time 13.696 (13.696)    Data  1.789 ( 1.789)    "
            "Loss 7.0595e+00 (7.0595e+00)",
            [step(1, epoch=1, loss=7.0595, step_seconds=13.696, data_seconds=1.789)],
        ),
    ),
    (
        Line(
            r"Epoch: {1,2}\[<epoch_index:int>\]\[ {0,6}<n_index:int>/<total:int>\][\s,:]{1,8}"
            r"(?:Batch )?Time {1,4}<step_seconds> \([^)\n]{0,20}\)"
            r"(?:\s{1,8}Data {1,4}(?:[Tt]ime )?<data_seconds> \([^)\n]{0,20}\))?"
            r"(?:\s{1,8}Loss {1,4}<loss> \([^)\n]{0,20}\))?"
            r"(?:\s{1,8}(?:Acc|Prec)@1 {1,4}<accuracy__percent> \([^)\n]{0,20}\))?"
            r"(?:\s{1,8}(?:Acc|Prec)@5 {1,4}<accuracy_top5__percent> \([^)\n]{0,20}\))?"
        ),
        Line(
            r" \* (?:Acc|Prec)@1 {1,4}<val_accuracy__percent>"
            r"(?: {1,4}(?:Acc|Prec)@5 {1,4}<val_accuracy_top5__percent>)?",
            EVALUATION,
        ),
    ),
)

FORMATS = (IMAGENET,)
