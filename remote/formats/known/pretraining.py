"""Trainers of language models."""

from remote.formats.format import EVALUATION, Format, Line, Sample
from remote.formats.reading import evaluation, step

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
    ),
    (
        Line(r"iter <index:int>: loss <loss>, time <step_seconds__ms>ms(?:, mfu <mfu__percent>%)?"),
        Line(r"step <step:int>: train loss <train_loss>, val loss <val_loss>", EVALUATION),
    ),
)

FORMATS = (NANOGPT,)
