"""How long a planned run takes, by recorded ones."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest

from remote.cluster.hosts import Host
from remote.plan.plan import Plan, Script
from remote.record.layout import JOURNAL, OVERVIEW, STUDY
from tests.kit.histories import History
from tests.kit.recorded import recorded
from training.job import Job
from training.wire.rank_events import Evaluated, StepFinished
from tui.launch.run_estimate import describe_estimate, list_timed_runs

HOSTS = (Host("node1", "127.0.0.1", slots=2),)
EPOCH_STEPS = 23
UNKNOWN = "230 steps; how long they take is known after a first run"


def planned(**settings: object) -> Plan:
    return Plan("planned", HOSTS, replace(Job(epochs=10), **settings))  # type: ignore[arg-type]


def made(
    runs_dir: Path,
    name: str,
    *,
    steps: int = 20,
    seconds: float = 0.5,
    loss: float = 1.0,
    test: float = 0.0,
    first_step: float = 0.0,
    **settings: object,
) -> Path:
    """A run that has finished, 10 s after its last step, with a test after each epoch. The first
    step takes longer by so many seconds."""
    history = History(replace(planned(**settings), run=name)).training()
    for step in range(1, steps + 1):
        step_seconds = seconds + first_step if step == 1 else seconds
        history.now += step_seconds - 0.02
        for rank in range(2):
            history.rank(rank, StepFinished(rank, 1, step, loss, step_seconds))
        if test and step % EPOCH_STEPS == 0:
            history.now += test - 0.01
            epoch = step // EPOCH_STEPS
            history.rank(0, Evaluated(0, epoch, step, 0.5, 0.9, 100, test))
    history.now += 10.0
    history.done(0, 1).closed()
    return recorded(runs_dir, history)


def test_a_run_with_the_same_work_in_a_step_tells_it(tmp_path: Path) -> None:
    assert describe_estimate(planned(), list_timed_runs(tmp_path)) == UNKNOWN
    made(tmp_path, "20261120-093000-a", lr=0.3, steps=30)
    # 230 steps of 0.5 s, and what the other run took beside its steps.
    assert describe_estimate(planned(), list_timed_runs(tmp_path)) == (
        "takes ~2 min: 230 steps of 500 ms, 10 s start and tests, from run '20261120-093000-a'"
    )
    made(tmp_path, "20261120-094000-b", seconds=0.1)
    assert describe_estimate(planned(), list_timed_runs(tmp_path)).startswith("takes ~33 s: ")


@pytest.mark.parametrize(
    ("epochs", "own_epochs", "beside"), [(1, 4, 18), (4, 4, 24), (20, 4, 56), (3, 1, 22)]
)
def test_tests_scale_with_epochs_and_the_start_does_not(
    epochs: int, own_epochs: int, beside: int, tmp_path: Path
) -> None:
    """The first step takes 6 s longer, a test 2 s, and the end 10 s."""
    name = "20261120-093000-a"
    made(tmp_path, name, steps=own_epochs * EPOCH_STEPS, test=2.0, first_step=6.0)
    estimate = describe_estimate(planned(epochs=epochs), list_timed_runs(tmp_path))
    assert f", {beside} s start and tests, from" in estimate


def test_of_a_run_of_an_older_version_start_and_tests_are_not_known_apart(tmp_path: Path) -> None:
    folder = made(tmp_path, "20261120-093000-a", steps=4 * EPOCH_STEPS, test=2.0)
    overview = json.loads((folder / OVERVIEW).read_text())
    assert overview.pop("times")
    (folder / OVERVIEW).write_text(json.dumps(overview))
    for epochs in (1, 20):
        estimate = describe_estimate(planned(epochs=epochs), list_timed_runs(tmp_path))
        assert ", 18 s start and tests, from" in estimate


def test_a_run_of_a_study_tells_it_only_where_there_is_no_other(tmp_path: Path) -> None:
    made(tmp_path, "20261120-093000-a")
    made(tmp_path, "20261120-094000-b", seconds=0.1)
    study = tmp_path / f"s{STUDY}"
    study.mkdir()
    (study / JOURNAL).write_text('{"run": "20261120-094000-b", "trial": "ddp #1"}\n')
    timed_runs = list_timed_runs(tmp_path)
    assert [timed.run.study for timed in timed_runs] == ["", "s"]
    assert describe_estimate(planned(), timed_runs).endswith("from run '20261120-093000-a'")


def test_a_run_without_a_flaw_tells_it_rather_than_a_newer_one(tmp_path: Path) -> None:
    made(tmp_path, "20261120-093000-a")
    made(tmp_path, "20261120-094000-b", seconds=0.1, loss=math.inf)
    timed_runs = list_timed_runs(tmp_path)
    assert [len(timed.run.flaws) for timed in timed_runs] == [0, 1]
    assert describe_estimate(planned(), timed_runs).endswith("from run '20261120-093000-a'")


@pytest.mark.parametrize(
    "other", [{"batch_size": 128}, {"sync": "ring"}, {"model": "vgg11", "dataset": "cifar10"}]
)
def test_a_run_with_other_work_does_not(other: dict[str, object], tmp_path: Path) -> None:
    made(tmp_path, "20261120-093000-a", **other)
    assert describe_estimate(planned(), list_timed_runs(tmp_path)) == UNKNOWN


def test_neither_does_one_on_other_hosts_or_with_few_steps(tmp_path: Path) -> None:
    made(tmp_path, "20261120-093000-a", steps=5)
    assert describe_estimate(planned(), list_timed_runs(tmp_path)) == UNKNOWN
    made(tmp_path, "20261120-094000-b")
    timed_runs = list_timed_runs(tmp_path)
    for hosts in ((replace(HOSTS[0], slots=4),), (replace(HOSTS[0], name="node2"),)):
        assert "known after" in describe_estimate(replace(planned(), hosts=hosts), timed_runs)


def test_of_a_script_nothing_is_said(tmp_path: Path) -> None:
    assert describe_estimate(replace(planned(), work=Script(("train.py",))), []) == ""
