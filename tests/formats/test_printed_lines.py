"""Lines that people print themselves: what their numbers are of."""

from __future__ import annotations

from dataclasses import replace

import pytest

from remote.formats.reader import LogReader
from remote.formats.reading import ReadingKind


@pytest.mark.parametrize(
    ("printed", "accuracies"),
    [
        (["91.5%", "0.5%", "92%"], [0.915, 0.005, 0.92]),
        (["91.5", "0.5", "92%"], [0.915, 0.005, 0.92]),
        (["0.5", "0.75", "0.8"], [0.5, 0.75, 0.8]),
        (["97/100 (97%)", "1/200", "100/100"], [0.97, 0.005, 1]),
    ],
)
def test_an_accuracy_is_divided_once(printed: list[str], accuracies: list[float]) -> None:
    lines = [f"step {n} loss: 0.5, accuracy: {text}" for n, text in enumerate(printed, 1)]
    readings = LogReader().read("\n".join(lines))
    assert [one.values["accuracy"] for one in readings] == pytest.approx(accuracies)


def test_lines_of_ranks_that_stand_behind_each_other_are_read_each() -> None:
    text = "Rank 0, Epoch 1, Loss: 2.5, Accuracy: 11.5%Rank 1, Epoch 1, Loss: 1.5, Accuracy: 12%"
    readings = LogReader().read(text)
    assert [(one.rank, one.values["loss"]) for one in readings] == [(0, 2.5), (1, 1.5)]
    assert [one.values["accuracy"] for one in readings] == pytest.approx([0.115, 0.12])


@pytest.mark.parametrize("prefix", ["Rank 3, ", "[rank 3] ", "[RANK3] ", "rank3: ", "Rank: 3 "])
def test_a_line_that_begins_with_a_rank_is_read_as_without_it(prefix: str) -> None:
    (found,) = LogReader().read(f"{prefix}Epoch 2, Step 20, Loss: 0.5")
    (bare,) = LogReader().read("Epoch 2, Step 20, Loss: 0.5")
    assert replace(found, rank=-1) == bare
    assert found.rank == 3


def test_a_line_of_an_epoch_alone_has_its_mean_in_a_log_with_steps() -> None:
    reader = LogReader()
    steps = "\n".join(f"epoch 1 step {n} loss 0.5" for n in range(1, 5))
    (*_, mean) = reader.read(f"{steps}\nepoch 1: loss 0.75, accuracy 0.5")
    assert (mean.kind, mean.step) == (ReadingKind.OTHER, 0)
    assert mean.values == {"train_loss": 0.75, "train_accuracy": 0.5}


def test_batches_of_an_evaluation_are_no_steps() -> None:
    reader = LogReader()
    for n in (100, 200):
        reader.read(f"Epoch 1 | Iter {n} | Train Loss 0.5")
    (found,) = reader.read("Epoch 1 | Iter 30/50 | Eval Loss 0.75")
    assert (found.kind, found.step, found.steps) == (ReadingKind.EVALUATION, 0, 0)
    (next_step,) = reader.read("Epoch 1 | Iter 300 | Train Loss 0.25")
    assert next_step.step == 300


def test_steps_of_which_nobody_knows_whether_they_are_of_an_epoch_are_no_total() -> None:
    reader = LogReader()
    line = "epoch {} iter {}/2 loss 0.5"
    of_epochs = [reader.read(line.format(n // 2 + 1, n % 2 + 1))[0] for n in range(4)]
    assert [(one.step, one.steps) for one in of_epochs] == [(1, 0), (2, 0), (3, 0), (4, 0)]
    reader = LogReader()
    of_run = [reader.read(f"epoch {n // 2 + 1} iter {n + 1}/4 loss 0.5")[0] for n in range(4)]
    assert [(one.step, one.steps) for one in of_run] == [(1, 0), (2, 0), (3, 4), (4, 4)]


def test_batches_without_an_epoch_have_no_number_once_they_begin_anew() -> None:
    lines = [f"Batch {n} loss: 0.5" for n in (10, 20, 10, 20)]
    assert [one.step for one in LogReader().read("\n".join(lines))] == [10, 20, 0, 0]


@pytest.mark.parametrize(
    "line",
    [
        "3 files: 5 changed",
        "Saved model with loss 0.5 to out.pt",
        "20 samples, 5 losses",
        "1/3 of the losses: 0.5 of all",
        "Testing took 3.5 s",
        "[1/2] Building CXX object loss.o 0.5",
    ],
)
def test_sentences_are_not_read(line: str) -> None:
    assert LogReader().read(line) == []


@pytest.mark.parametrize(
    ("line", "name", "value"),
    [
        ("step 3 loss 0.5 time per iteration: 250 ms", "step_seconds", 0.25),
        ("step 3 loss 0.5 iter_time: 0.25s", "step_seconds", 0.25),
        ("step 3 loss 0.5 | ms/batch 250.0 |", "step_seconds", 0.25),
        ("Step 3 [0.250 sec/step, loss=0.5]", "step_seconds", 0.25),
        ("step 3, loss: 0.5 (0.75), 4.0 it/s", "step_seconds", 0.25),
        ("step 3: Disc Loss: 1.5, loss: 0.5", "Disc Loss", 1.5),
        ("step 3: loss: 0.5, Tokens / Sec: 20.5", "tokens_per_second", 20.5),
        ("step   3 | loss: 0.5 | dt: 250.0ms", "step_seconds", 0.25),
        ("step 3 loss: 0.5 dt=0.25", "dt", 0.25),
        ("step: 3... loss: 0.5... val loss: 0.25...", "val_loss", 0.25),
        ("epoch: 1 step: 3, loss is 0.5, acc is 0.25", "accuracy", 0.25),
    ],
)
def test_a_value_has_the_name_and_the_unit_that_stand_beside_it(
    line: str, name: str, value: float
) -> None:
    (found,) = LogReader().read(line)
    assert found.values == {"loss": 0.5, name: value}


def test_many_ranks_of_a_log_take_no_memory_without_end() -> None:
    reader = LogReader()
    for rank in range(3_000):
        reader.read(f"Rank {rank}, Epoch 1, Step 3, Loss: 0.5")
    assert len(reader._memories) <= 1_025
