"""How long a planned run takes, by recorded ones."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest

from remote.cluster.hosts import Host
from remote.plan.plan import Plan, Script
from tests.kit.histories import History
from tests.kit.recorded import recorded
from training.job import Job
from training.wire.rank_events import StepFinished
from tui.launch.run_estimate import describe_estimate, list_timed_runs

HOSTS = (Host("node1", "127.0.0.1", slots=2),)
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
    **settings: object,
) -> None:
    """A run that has finished, 10 s after its last step."""
    history = History(replace(planned(**settings), run=name)).training()
    for step in range(1, steps + 1):
        for rank in range(2):
            history.rank(rank, StepFinished(rank, 1, step, loss, seconds))
        history.now += seconds
    history.now += 10.0
    history.done(0, 1).closed()
    recorded(runs_dir, history)


def test_a_run_with_the_same_work_in_a_step_tells_it(tmp_path: Path) -> None:
    assert describe_estimate(planned(), list_timed_runs(tmp_path)) == UNKNOWN
    made(tmp_path, "20261120-093000-a", lr=0.3, steps=30)
    # 230 steps of 0.5 s, and what the other run took beside its steps.
    assert describe_estimate(planned(), list_timed_runs(tmp_path)) == (
        "takes ~2 min: 230 steps of 500 ms, 11 s start and tests, from run '20261120-093000-a'"
    )
    made(tmp_path, "20261120-094000-b", seconds=0.1)
    assert describe_estimate(planned(), list_timed_runs(tmp_path)).startswith("takes ~34 s: ")


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
