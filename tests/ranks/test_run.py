"""What ranks say in a whole run: under the preload, under torchrun, and alone."""

import os
import re
import sys
from pathlib import Path

import pytest
from torch import distributed

from remote.events import expand
from tests.kit.forked_ranks import Forker
from tests.kit.rank_calls import call
from training.__main__ import main
from training.job import Job
from training.place import Place
from training.wire.events import Event, Record
from training.wire.host_events import OutputText
from training.wire.rank_events import Entered, Evaluated, Finished, Started, StepFinished

EPOCH = 12
"""Steps of an epoch of 1,437 digits in batches of 120, of which the last has 117."""


def names(events: list[Event]) -> list[str]:
    return [
        event.phase if isinstance(event, Entered) else event.wire_name
        for event in events
        if not isinstance(event, OutputText)
    ]


def spoken(rank: int, text: str) -> list[Event]:
    """The events of one rank in what several have printed."""
    return [
        record.event
        for record in expand(
            Record(0, 0, 0, 0.0, OutputText(rank, "stdout", text.removesuffix("\n")))
        )
    ]


def lines(events: list[Event]) -> list[str]:
    return [
        line for event in events if isinstance(event, OutputText) for line in event.text.split("\n")
    ]


def test_the_events_of_a_run_that_stops_inside_an_epoch(forked: Forker, tmp_path: Path) -> None:
    ranks = forked.run(
        tmp_path.name,
        Job(steps=EPOCH + 2, batch_size=120, log_every=5, log_format="reference"),
        [None] * 2,
    )
    for rank in range(2):
        events = ranks.events(rank)
        first = [
            "loading",
            "rendezvous",
            "joining",
            "started",
            *["step"] * EPOCH,
            "epoch",
            "evaluating",
            "evaluated",
        ]
        assert names(events) == [
            *first,
            "training",
            "step",
            "step",
            "epoch",
            "evaluating",
            "evaluated",
            "finished",
        ]
        assert {event.rank for event in events if not isinstance(event, OutputText)} == {rank}

        started = next(event for event in events if isinstance(event, Started))
        assert (started.world_size, started.device, started.backend, started.threads) == (
            2,
            "cpu",
            "gloo",
            1,
        )
        assert (started.steps, started.steps_per_epoch, started.parameters) == (
            EPOCH + 2,
            EPOCH,
            61_706,
        )
        assert (started.train_samples, started.test_samples, started.pid) == (
            1437,
            360,
            ranks.pids()[rank],
        )

        steps = ranks.steps(rank)
        assert [(step.epoch, step.step) for step in steps] == [
            (1 + n // EPOCH, n + 1) for n in range(EPOCH + 2)
        ]
        assert [step.samples for step in steps[EPOCH - 2 : EPOCH]] == [60, 59 - rank]
        for step in steps:
            assert step.data + step.compute + step.sync == pytest.approx(step.seconds)
            assert min(step.data, step.compute, step.sync, step.ready, step.cpu_seconds) > 0
            assert 0 <= step.correct <= step.samples
        assert [(found.epoch, found.step, found.samples) for found in ranks.evaluated(rank)] == [
            (1, 12, 360),
            (2, 14, 360),
        ]
        finished = events[-1] if isinstance(events[-1], Finished) else None
        assert finished
        assert (finished.epoch, finished.step) == (2, 14)
        assert finished.seconds > sum(step.seconds for step in steps)
    figures = [
        [(found.loss, found.accuracy) for found in ranks.evaluated(rank)] for rank in range(2)
    ]
    assert figures[0] == figures[1], "equal on all ranks"

    said = [f"Rank: 1 Batch Idx: {n}" for n in (0, 5, 10, 0)]
    assert [line.partition(",")[0] for line in lines(ranks.events(1))] == [
        *said[:3],
        "Rank: 1 Epoch: 1",
        said[3],
        "Rank: 1 Epoch: 2",
    ]
    assert sum(line.startswith("Test Loss: ") for line in lines(ranks.events(0))) == 2


def test_lines_count_the_steps_of_the_run_and_name_the_epoch(
    forked: Forker, tmp_path: Path
) -> None:
    job = Job(steps=2 * EPOCH + 2, batch_size=120, log_every=EPOCH + 1)  # more than an epoch has
    ranks = forked.run(tmp_path.name, job, [None] * 2)
    number = r"\d+\.\d+"
    figures = rf"loss {number} acc {number} {number} s/iter"
    expected = [
        rf"epoch 1 step 1/26 {figures}",
        rf"epoch 1 done: mean {figures}, {number} s",
        rf"epoch 2 step 13/26 {figures}",
        rf"epoch 2 done: mean {figures}, {number} s",
        rf"epoch 3 step 26/26 {figures}",
        rf"epoch 3 done: mean {figures}, {number} s",
    ]
    found = lines(ranks.events(1))
    assert len(found) == len(expected)
    assert all(map(re.fullmatch, expected, found))
    tests = [line for line in lines(ranks.events(0)) if "test loss" in line]
    assert [re.sub(number, "X", line) for line in tests] == [
        f"epoch {n} test loss X acc X" for n in (1, 2, 3)
    ]


def test_an_uneven_split_and_dropped_samples_are_said_by_rank_0(
    forked: Forker, tmp_path: Path
) -> None:
    ranks = forked.run(tmp_path.name, Job(steps=1, batch_size=359), [None] * 2)
    said = lines(ranks.events(0))
    assert "A global batch of 359 is split unevenly over 2 ranks: [180, 179]" in said
    assert "Each epoch leaves out 1 of 1437 samples: fewer than the 2 ranks" in said
    assert [line for line in lines(ranks.events(1)) if not line.startswith("epoch 1 ")] == []


def alone(place: Place) -> int:
    """As a process whose environment names no rank: a run, printed to files; its exit code."""
    distributed.destroy_process_group()
    for number, kind in ((1, "out"), (2, "err")):
        os.dup2(os.open(f"alone.{kind}", os.O_CREAT | os.O_WRONLY), number)
    code = main(["--steps", "3", "--dataset", "synthetic", "--sync", "ddp"])
    sys.stdout.flush()
    return code


def test_alone_it_is_rank_0_of_1(forked: Forker, tmp_path: Path) -> None:
    assert call(forked, tmp_path, __name__, {1: ["alone"]}) == {(1, "alone"): [0]}
    expected = [
        "loading",
        "rendezvous",
        "joining",
        "started",
        *["step"] * 3,
        "epoch",
        "evaluating",
        "evaluated",
        "finished",
    ]
    assert names(spoken(0, (forked.folder / "alone.out").read_text())) == expected
    assert (forked.folder / "alone.err").read_text() == ""


def test_a_rank_is_loading_when_it_begins_to_open_its_data(forked: Forker, tmp_path: Path) -> None:
    job = Job(dataset=f"imagefolder:{tmp_path / 'missing'}")
    ranks = forked.run(tmp_path.name, job, [None], codes=[2])
    assert "missing: No such file or directory" in ranks.err(0)
    assert names(ranks.events(0)) == ["loading"]


def torchrun(place: Place) -> None:
    """As the program of this name, but that its ranks are forked: starts two, which print to
    files."""
    from torch.distributed.elastic.multiprocessing import DefaultLogsSpecs, Std
    from torch.distributed.launcher.api import LaunchConfig, elastic_launch

    distributed.destroy_process_group()
    config = LaunchConfig(
        min_nodes=1,
        max_nodes=1,
        nproc_per_node=2,
        start_method="fork",
        rdzv_backend="c10d",
        rdzv_endpoint="127.0.0.1:0",
        local_addr="127.0.0.1",
        logs_specs=DefaultLogsSpecs(log_dir="torchrun", redirects=Std.ALL),
    )
    elastic_launch(config, main)(Job(steps=3, sync="all_reduce").argv())


def test_under_torchrun_the_ranks_meet_through_its_store(forked: Forker, tmp_path: Path) -> None:
    call(forked, tmp_path, __name__, {1: ["torchrun"]})
    said = [file.read_text() for file in forked.folder.glob("torchrun/**/stdout.log")]
    events = [event for rank, text in enumerate(said) for event in spoken(rank, text)]
    assert sorted(event.rank for event in events if isinstance(event, Finished)) == [0, 1]
    assert len({event.loss for event in events if isinstance(event, Evaluated)}) == 1
    assert sum(isinstance(event, StepFinished) for event in events) == 6


def test_a_model_learns(forked: Forker) -> None:
    digits = forked.run(
        "digits", Job(epochs=2, sync="all_reduce", batch_size=16, momentum=0.9), [None]
    )
    assert digits.evaluated(0)[-1].accuracy > 0.85
    synthetic = forked.run("synthetic", Job(steps=30, dataset="synthetic"), [None])
    assert synthetic.evaluated(0)[-1].accuracy > 0.9
