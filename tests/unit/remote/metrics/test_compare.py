"""Runs compared with the first one, and the settings that differ."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from remote.cluster.hosts import Host
from remote.events import SessionClosed
from remote.metrics.compare import RunNoise, compare_runs
from remote.metrics.run import RunFigures, read_figures
from remote.metrics.settings import are_alike, differing, settings
from remote.plan.plan import Plan, Script
from remote.statistics.comparison import Finding
from tests.kit.histories import History, plan, stepped
from tests.kit.recorded import recorded
from training.job import Job
from training.wire.host_events import Exited, Hello
from training.wire.rank_events import StepFinished


def made(folder: Path, name: str, seconds: float = 0.1, steps: int = 50, **job: Any) -> RunFigures:
    """A run of two ranks whose steps take so long, a little more and a little less by turns."""
    history = History(replace(plan(2), run=name, work=Job(**job))).training()
    for step in range(1, steps + 1):
        for rank in (0, 1):
            history.rank(rank, stepped(rank, step, seconds * (1 + 0.01 * (-1) ** step)))
    return read_figures(recorded(folder, history.done(0, 1).session(SessionClosed())))


def test_a_slower_run_is_found_slower(tmp_path: Path) -> None:
    first, second = made(tmp_path, "a"), made(tmp_path, "b", seconds=0.2, lr=0.2)
    found = compare_runs([first, second])
    assert found[0].against is None
    against = found[1].against
    assert against
    assert against.finding is Finding.SLOWER
    assert against.ratio.value == pytest.approx(2.0)
    assert against.ratio.low < 2.0 < against.ratio.high
    assert found[1].seconds.value == pytest.approx(second.step_seconds(), rel=1e-3)
    assert found[1].seconds.low < 0.2 < found[1].seconds.high
    assert found[1].noise == RunNoise(0.03, 0), "assumed: no two runs have equal settings"


def test_all_steps_but_the_first_decide(tmp_path: Path) -> None:
    """A run that is faster up to step 40 and slower as a whole is slower: in the figures and in the
    verdict."""
    history = History(replace(plan(1), run="b", work=Job(lr=0.2))).training()
    for step in range(1, 1001):
        seconds = 9.0 if step == 1 else 0.05 if step <= 40 else 0.2 + 0.001 * (-1) ** step
        history.rank(0, stepped(0, step, seconds))
    other = read_figures(recorded(tmp_path, history))
    found = compare_runs([made(tmp_path, "a", steps=1000), other])[1]
    mean = (39 * 0.05 + 960 * 0.2) / 999
    assert found.steps.mean("seconds") == pytest.approx(mean, rel=1e-3)
    assert found.seconds.value == pytest.approx(mean, rel=1e-3)
    assert found.against
    assert found.against.ratio.value == pytest.approx(mean / 0.1, rel=1e-3)
    assert found.against.finding is Finding.SLOWER


def test_a_repetition_is_never_found_slower(tmp_path: Path) -> None:
    runs = [made(tmp_path, "a"), made(tmp_path, "b", seconds=0.2, seed=43)]
    found = compare_runs(runs)[1]
    assert found.is_repetition
    assert found.against
    assert found.against.ratio.value == pytest.approx(2.0)
    assert found.against.finding is Finding.NOT_SHOWN
    unknown = (found.against.p, found.against.ratio.low, found.against.ratio.high)
    assert all(map(math.isnan, unknown))


def test_runs_with_equal_settings_say_how_much_runs_differ(tmp_path: Path) -> None:
    """Twice as slow is no finding where runs of one job are 1.5 times as slow, and is one where
    they are within 0.1%: the bounds are those of Student's t."""
    for name, apart, finding in (("far", 1.5, Finding.NOT_SHOWN), ("near", 1.001, Finding.SLOWER)):
        runs = [
            made(tmp_path, f"{name}-a"),
            made(tmp_path, f"{name}-b", seconds=0.2, lr=0.2),
            made(tmp_path, f"{name}-c", seconds=0.1 * apart, seed=1),
            made(tmp_path, f"{name}-d", seconds=0.2 * apart, seed=2, lr=0.2),
        ]
        _, other, same, _ = compare_runs(runs)
        share = math.log(apart) / math.sqrt(2)
        assert (other.noise.share, other.noise.freedom) == (pytest.approx(share, rel=1e-3), 2)
        assert (other.is_repetition, same.is_repetition) == (False, True)
        assert other.against
        assert other.against.finding is finding
        if name == "far":
            reach = 4.302653 * math.sqrt(2) * share
            assert math.log(other.against.ratio.high / 2) == pytest.approx(reach, rel=1e-3)
            assert other.against.p > 0.05


def test_runs_within_the_noise_are_not_told_apart(tmp_path: Path) -> None:
    found = compare_runs([made(tmp_path, "a"), made(tmp_path, "b", seconds=0.102, lr=0.2)])
    assert found[1].against
    assert math.isnan(found[1].against.p), "the noise is assumed"
    assert found[1].against
    assert found[1].against.finding is Finding.NOT_SHOWN
    assert (found[1].common_steps, found[1].loss_difference) == (50, 0.0)


def test_steps_with_batches_of_other_sizes_are_compared_by_sample(tmp_path: Path) -> None:
    runs = [made(tmp_path, "a", batch_size=64), made(tmp_path, "b", seconds=0.2, batch_size=128)]
    found = compare_runs(runs)[1]
    assert found.is_per_sample
    assert found.against
    assert found.against.ratio.value == pytest.approx(1.0)


def test_losses_that_differ_are_told_of(tmp_path: Path) -> None:
    first = made(tmp_path, "a", steps=3)
    history = History(replace(plan(1), run="b")).training(steps=2)
    history.rank(0, StepFinished(0, 1, 3, 5.0, 0.1), StepFinished(0, 1, 4, math.nan, 0.1))
    found = compare_runs([first, read_figures(recorded(tmp_path, history))])[1]
    assert found.common_steps == 3
    assert found.loss_difference == pytest.approx(5.0 - 2 / 3)


def test_a_run_without_steps_has_no_verdict(tmp_path: Path) -> None:
    script = History(replace(plan(2, script=True), run="b")).rank(0, Exited(0, 0))
    found = compare_runs([made(tmp_path, "a"), read_figures(recorded(tmp_path, script))])[1]
    assert found.against is None
    assert (found.common_steps, math.isnan(found.loss_difference)) == (0, True)


def test_settings_are_those_of_job_hosts_ranks_and_versions(tmp_path: Path) -> None:
    hello = Hello("box", "me", 1, "3.11.2", "/usr/bin/python3", "Linux", "b", 0.5, 8 << 30)
    history = History(plan(1)).say(0, hello).training()
    found = settings(read_figures(recorded(tmp_path, history)))
    assert found["sync"] == "ddp"
    assert found["batch-size"] == "64"
    assert (found["hosts"], found["nodes"], found["ranks"]) == ("node1", "1", "1")
    assert (found["machines"], found["cores"], found["python"]) == ("box", "0.5", "3.11.2")
    assert (found["torch"], found["backend"]) == ("-", "gloo")
    assert found["resume"] == "-"


def test_only_what_differs_is_named(tmp_path: Path) -> None:
    jobs = ({"sync": "ring"}, {"sync": "ring", "sync_option": ("bucket_mb=5",)}, {"sync": "none"})
    runs = [made(tmp_path, name, steps=1, **job) for name, job in zip("abc", jobs, strict=True)]
    assert differing(runs) == {
        "sync": ("ring", "ring", "none"),
        "bucket_mb": ("2.5", "5", "-"),
    }
    assert differing(runs[:1] * 2) == {}
    assert [are_alike(runs[0], run) for run in runs] == [True, False, False]


def test_hosts_and_programs_that_differ_are_named(tmp_path: Path) -> None:
    one = Plan("a", (Host("x", "10.0.0.1"),), Script(("train.py", "--lr", "0 1")))
    two = Plan("b", (Host("x", "10.0.0.1"), Host("y", "10.0.0.2", slots=2)), one.work)
    runs = [
        read_figures(recorded(tmp_path, History(each).say(0, Exited(0, 0)))) for each in (one, two)
    ]
    assert differing(runs) == {"hosts": ("x", "x, y"), "nodes": ("1", "2"), "ranks": ("1", "3")}
    assert settings(runs[0])["program"] == "train.py --lr '0 1'"


def test_variables_of_the_ranks_are_settings(tmp_path: Path) -> None:
    def run_with(name: str, **variables: str) -> RunFigures:
        hosts = (Host("x", "10.0.0.1", env=tuple(variables.items())),)
        history = History(Plan(name, hosts, Script(("train.py",)))).say(0, Exited(0, 0))
        return read_figures(recorded(tmp_path, history))

    first = run_with("a", LR="0.1", HF_TOKEN="one")
    second = run_with("b", LR="0.5", HF_TOKEN="other")
    assert differing([first, second]) == {"$LR": ("0.1", "0.5")}
    assert not are_alike(first, second)
    assert differing([first, run_with("c")])["$LR"] == ("0.1", "-")
