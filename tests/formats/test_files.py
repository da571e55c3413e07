"""Files that training programs write: what is read of them."""

from __future__ import annotations

import json
import pickle
import random
from base64 import b64encode
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy
import pytest

from remote.formats.files import FileReader, reader_of, source_of
from remote.formats.files import entries as limits
from remote.formats.reader import PIECE, LogReader
from remote.formats.reading import Reading, ReadingKind
from tests.kit.readings import evaluation, other, step
from training.agent.file_tail.frames import Frames
from training.agent.host.redaction import Redaction

LIGHTNING = """epoch,step,train_loss,val_loss
0,49,2.1972246,
0,99,1.8312,
0,99,,1.7504
1,149,1.5012,
"""
ULTRALYTICS = (
    "                  epoch,                time,      train/box_loss,   metrics/precision(B),"
    "       val/box_loss,             lr/pg0\n"
    "                      1,             12.345,             1.16412,                0.65041,"
    "             1.0502,            0.00332\n"
    "                      2,              24.11,             1.01021,                0.70112,"
    "             0.9987,            0.00665\n"
)
STATE = {
    "best_metric": None,
    "epoch": 1.0,
    "global_step": 20,
    "log_history": [
        {"epoch": 0.5, "grad_norm": 3.5, "learning_rate": 4e-05, "loss": 4.1, "step": 10},
        {"epoch": 0.5, "eval_loss": 3.9, "eval_runtime": 0.25, "step": 10},
        {"epoch": 1.0, "grad_norm": 3.25, "learning_rate": 2e-05, "loss": 3.6, "step": 20},
        {"epoch": 1.0, "step": 20, "train_loss": 3.85, "train_runtime": 2.5, "total_flos": 9.0},
    ],
    "max_steps": 40,
    "stateful_callbacks": {"TrainerControl": {"args": {"should_log": False}}},
}


def test_the_table_of_lightning_has_empty_cells_and_counts_from_0() -> None:
    reader = reader_of("lightning_logs/version_0/metrics.csv")
    assert reader.read(LIGHTNING.strip()) == [
        step(50, epoch=1, loss=2.1972246),
        step(100, epoch=1, loss=1.8312),
        evaluation(100, epoch=1, val_loss=1.7504),
        step(150, epoch=2, loss=1.5012),
    ]
    assert reader.format == "table"


def test_a_table_that_is_written_anew_with_more_columns_tells_its_rows_once() -> None:
    reader = reader_of("metrics.csv")
    reader.read("epoch,step,train_loss\n0,49,2.5\n0,99,1.5")
    assert reader.read("epoch,step,train_loss,val_loss\n0,49,2.5,\n0,99,1.5,\n0,99,,1.25") == [
        evaluation(100, epoch=1, val_loss=1.25)
    ]


def test_the_table_of_ultralytics_has_padded_names_and_epochs_alone() -> None:
    first, second = reader_of("runs/detect/train/results.csv").read(ULTRALYTICS.strip())
    values = {"train/box_loss": 1.16412, "metrics/precision(B)": 0.65041, "val_box_loss": 1.0502}
    assert first == evaluation(0, values | {"lr/pg0": 0.00332}, epoch=1)
    assert second.epoch == 2


@pytest.mark.parametrize(
    ("text", "readings"),
    [
        ("step,loss\n0,2.5\n1,2.25", [step(1, loss=2.5), step(2, loss=2.25)]),
        ("step,loss\n1,2.5\n2,nan", [step(1, loss=2.5), step(2, loss=float("nan"))]),
        ("step\tloss\n5\t2.5", [step(5, loss=2.5)]),
        ("_runtime,_step,_timestamp,loss\n3.5,0,1795490498.5,2.5", [step(1, loss=2.5)]),
        ("step;phase;loss\n5;train;2.5", [step(5, loss=2.5)]),
        ('"step","my ""figure""",notes\n5,2.5,"a,b"', [other(5, {'my "figure"': 2.5})]),
        ("epoch,loss,accuracy\n0,2.5,0.1\n1,2.25,0.2", None),
        ("loss\n2.5", [step(0, loss=2.5)]),
        (
            "step,val_loss\n0,2.5\n10,1.5",
            [evaluation(1, val_loss=2.5), evaluation(11, val_loss=1.5)],
        ),
        ("step,val_loss,loss\n0,2.5,\n1,,1.5", [evaluation(1, val_loss=2.5), step(1, loss=1.5)]),
        ("1,2\n3,4", []),
        ("", []),
        ("step,loss\n1", []),
    ],
)
def test_tables(text: str, readings: list[Reading] | None) -> None:
    found = reader_of("log.tsv").read(text)
    if readings is None:
        assert [(one.epoch, one.values["accuracy"]) for one in found] == [(1, 0.1), (2, 0.2)]
    else:
        assert repr(found) == repr(readings)


def test_steps_that_count_anew_in_each_epoch_go_on() -> None:
    rows = [f"{epoch},{n},0.5{epoch}{n}" for epoch in (1, 2, 3) for n in (10, 20)]
    found = reader_of("log.csv").read("\n".join(["epoch,step,loss", *rows]))
    assert [one.step for one in found] == [10, 20, 30, 40, 50, 60]


# JSON


def test_objects_a_line() -> None:
    reader = reader_of("metrics.jsonl")
    text = '{"step": 0, "train": {"loss": 2.5}, "name": "a", "on": true}\n{"step": 10, "lr": 0.125}'
    assert reader.read(text) == [step(1, loss=2.5), other(11, lr=0.125)]
    assert reader.format == "JSON lines"


def test_the_lines_of_wandb() -> None:
    reader = reader_of("history.jsonl")
    found = reader.read('{"_step": 3, "_timestamp": 1795490498.5, "_runtime": 3.5, "loss": 2.5}')
    assert found == [step(3, loss=2.5)]


def test_a_line_comes_in_pieces() -> None:
    reader = reader_of("metrics.jsonl")
    line = json.dumps({"step": 3, "text": "x" * 2 * PIECE, "loss": 0.5})
    pieces = [line[at : at + PIECE] for at in range(0, len(line), PIECE)]
    assert [one for piece in pieces for one in reader.read(piece)] == [step(3, loss=0.5)]


def test_the_state_of_a_trainer_is_read_once_it_is_whole_and_then_only_what_is_new() -> None:
    reader = reader_of("out/checkpoint-20/trainer_state.json")
    lines = json.dumps(STATE, indent=2).split("\n")
    assert reader.read("\n".join(lines[:10])) == []
    assert reader.read("\n".join(lines[10:])) == [
        step(10, epoch=0.5, steps=40, grad_norm=3.5, lr=4e-5, loss=4.1),
        evaluation(10, epoch=0.5, steps=40, val_loss=3.9, val_seconds=0.25),
        step(20, epoch=1, steps=40, grad_norm=3.25, lr=2e-5, loss=3.6),
        other(20, epoch=1, steps=40, train_loss=3.85, train_runtime=2.5),
    ]
    assert reader.format == "trainer_state.json"
    history: Any = STATE["log_history"]
    longer = STATE | {"log_history": [*history, {"epoch": 1.5, "loss": 3.5, "step": 30}]}
    assert reader.read(json.dumps(longer, indent=2)) == [step(30, epoch=1.5, steps=40, loss=3.5)]
    assert reader.read(json.dumps(longer)) == []


def test_a_document_that_is_cut_is_left_for_the_next_one() -> None:
    reader = reader_of("trainer_state.json")
    text = json.dumps(STATE, indent=2)
    assert reader.read(text[: len(text) // 2]) == []
    assert len(reader.read(text)) == 4


def test_a_list_of_objects() -> None:
    reader = reader_of("history.json")
    found = reader.read(json.dumps([{"epoch": 1, "loss": 0.5}, 7, {"epoch": 2, "loss": 0.25}]))
    assert [(one.epoch, one.values) for one in found] == [(1, {"loss": 0.5}), (2, {"loss": 0.25})]


@pytest.mark.parametrize(
    "text",
    [
        '[\n{"step": 1, "loss": 0.5},\n{"step": 2, "loss": 0.25}\n]',
        '[{"step": 1, "loss": 0.5},\n{"step": 2, "loss": 0.25}]',
        '[\n{"step": 1, "loss": 0.5}, {"step": 2, "loss": 0.25}\n]\n',
        '[\n{\n"step": 1,\n"loss": 0.5\n},\n{\n"step": 2,\n"loss": 0.25\n}\n]',
        json.dumps([{"step": 1, "loss": 0.5}, {"step": 2, "loss": 0.25}], indent=2),
    ],
)
def test_an_array_of_several_lines(text: str) -> None:
    assert reader_of("history.json").read(text) == [step(1, loss=0.5), step(2, loss=0.25)]


def test_an_array_is_read_while_it_grows() -> None:
    reader = reader_of("history.json")
    assert reader.read('[\n{"step": 1, "loss": 0.5},') == [step(1, loss=0.5)]


@pytest.mark.parametrize(
    ("name", "text"), [("a.csv", "step,loss\n1,0.5"), ("a.json", '{"step": 1, "loss": 0.5}')]
)
def test_a_byte_order_mark_tells_nothing(name: str, text: str) -> None:
    reader = reader_of(name)
    assert reader.read(f"\ufeff{text}") == [step(1, loss=0.5)]
    assert reader.read(f"\ufeff{text}") == [], "written anew"


def test_an_integer_that_is_too_large_is_left_out() -> None:
    text = f'{{"step": 1, "loss": 0.5, "tokens": {10**30}, "lr": {"9" * 400}}}'
    assert reader_of("a.jsonl").read(text) == [step(1, loss=0.5, tokens=1e30)]


def test_a_document_without_end_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("remote.formats.files.json_file.MAX_LENGTH", 1000)
    reader = reader_of("trainer_state.json")
    for _ in range(100):
        assert reader.read('{\n"a": [\n' + "1,\n" * 100) == []
    assert len(pickle.dumps(reader)) < 20_000


# Event files


def lines_of(folder: Path, step_bytes: int = 1000) -> str:
    """An event file, as an agent passes it on."""
    (path,) = folder.glob("*tfevents*")
    data, frames = path.read_bytes(), Frames(Redaction())
    blocks = [data[at : at + step_bytes] for at in range(0, len(data), step_bytes)]
    return "\n".join(text for block in blocks if (text := frames.feed(block)))


def torch_writer(folder: Path) -> Any:
    return pytest.importorskip("torch.utils.tensorboard").SummaryWriter(str(folder))


def tensorboardx_writer(folder: Path) -> Any:
    return pytest.importorskip("tensorboardX").SummaryWriter(str(folder))


@pytest.mark.parametrize("make", [torch_writer, tensorboardx_writer])
def test_scalars_of_an_event_file(make: Callable[[Path], Any], tmp_path: Path) -> None:
    with make(tmp_path) as writer:
        writer.add_text("notes", "loss 3.5")
        writer.add_histogram("weights", numpy.arange(3.0), 1)
        for number in range(3):
            writer.add_scalar("Loss/train", 2.5 - number, number)
            writer.add_scalar("learning_rate", 0.125, number)
            writer.add_scalar("Loss/test", 2.5, number)
    reader = reader_of("runs/a/events.out.tfevents.17954.host.1.0")
    found = reader.read(lines_of(tmp_path))
    assert found == [step(n, loss=3.5 - n, lr=0.125, val_loss=2.5) for n in (1, 2, 3)]
    assert reader.format == "TensorBoard"


def test_scalars_as_tensorflow_2_writes_them(tmp_path: Path) -> None:
    """By the messages of tensorboard: a tensor of one number, in either of its forms."""
    pytest.importorskip("tensorboard")
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.compat.proto.summary_pb2 import Summary
    from tensorboard.compat.proto.tensor_pb2 import TensorProto
    from tensorboard.util.tensor_util import make_tensor_proto

    tensors = {
        "loss": make_tensor_proto(0.5),
        "lr": TensorProto(dtype=2, tensor_content=b"\0\0\0\0\0\0\xc0\x3f"),
        "tokens": TensorProto(dtype=9, int64_val=[-7]),
        "table": make_tensor_proto([1.0, 2.0]),
        "text": make_tensor_proto("0.5"),
    }
    values = [Summary.Value(tag=tag, tensor=tensor) for tag, tensor in tensors.items()]
    event = Event(wall_time=1.0, step=1 << 40, summary=Summary(value=values))
    line = b64encode(event.SerializeToString()).decode()
    assert reader_of("tfevents").read(line) == [step(1 << 40, loss=0.5, lr=0.125, tokens=-7)]


# All


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("out/checkpoint-500/trainer_state.json", "out/checkpoint-*/trainer_state.json"),
        ("runs/a/events.out.tfevents.1795490498.vm.17181.0", "runs/a/events.out.tfevents.*"),
        ("lightning_logs/version_0/metrics.csv", "lightning_logs/version_0/metrics.csv"),
    ],
)
def test_files_that_go_on_with_each_other_are_one_source(path: str, source: str) -> None:
    assert source_of(path) == source
    assert type(reader_of(source)) is type(reader_of(path))


def test_other_files_are_read_as_logs() -> None:
    reader = reader_of("train.log")
    assert isinstance(reader, LogReader)
    assert [one.kind for one in reader.read("step=3 loss=0.5")] == [ReadingKind.STEP]


SAMPLES = {
    "metrics.csv": LIGHTNING,
    "results.csv": ULTRALYTICS,
    "trainer_state.json": json.dumps(STATE, indent=2),
    "metrics.jsonl": '{"step": 1, "loss": 0.5}\n{"step": 2, "loss": 0.25}',
}


@pytest.mark.parametrize("name", SAMPLES)
def test_a_copy_goes_on_where_the_reader_is(name: str) -> None:
    text = SAMPLES[name].strip()
    for cut in range(0, text.count("\n"), 3):
        lines = text.split("\n")
        reader = reader_of(name)
        reader.read("\n".join(lines[:cut]))
        copy: FileReader = pickle.loads(pickle.dumps(reader))
        rest = "\n".join(lines[cut:])
        assert copy.read(rest) == reader.read(rest)


def test_what_is_known_again_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MAX_KNOWN", 10)
    reader = reader_of("a.csv")
    reader.read("step,loss\n" + "\n".join(f"{n},0.5" for n in range(1, 100)))
    assert len(pickle.dumps(reader)) < 5_000


PIECES = [*'{}[],:"-\n\0', '"step"', "1e999", "loss", "nan", "9" * 400, " ", "7", "0.5"]


@pytest.mark.parametrize("name", [*SAMPLES, "events.tfevents"])
def test_no_text_breaks_a_reader(name: str) -> None:
    chance = random.Random(name)
    for _ in range(500):
        reader = reader_of(name)
        reader.read("step,loss")
        reader.read("".join(chance.choices(PIECES, k=chance.randrange(40))))
        reader.read(b64encode(chance.randbytes(chance.randrange(60))).decode())
