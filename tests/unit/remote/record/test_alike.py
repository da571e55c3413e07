"""Recorded runs by how much they are like one of them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from remote.events import RemarkMade
from remote.plan.plan import Script
from remote.record.alike import (
    SimilarRun,
    find_last_start,
    find_previous,
    find_similar,
    is_of_same_kind,
)
from remote.record.entry import Entry, read_entry
from remote.record.layout import JOURNAL, STUDY
from remote.record.overview import make_overview, read_overview
from tests.kit.histories import History, plan, stepped
from tests.kit.recorded import recorded
from tests.kit.starts import reached
from training.job import Job
from training.wire.events import SESSION
from training.wire.host_events import Spawned
from training.wire.rank_events import Entered, Evaluated


def entry(name: str, started: float = 1.0, step: int = 5, **job: Any) -> Entry:
    return Entry(name, job=job, hosts=("a",), ranks=4, step=step, started=started)


RUN = entry("run", sync="ring", batch_size=64)


def names(*others: Entry) -> list[str]:
    return [one.run.name for one in find_similar(RUN, [RUN, *others])]


def differing(other: SimilarRun) -> tuple[str, ...]:
    return tuple(difference.setting for difference in other.differences)


def test_the_most_alike_comes_first_then_the_newest() -> None:
    far = entry("far", 9.0, sync="ddp")
    near = entry("near", 3.0, sync="ddp", batch_size=64)
    old = entry("old", 1.0, sync="ring", batch_size=64)
    new = entry("new", 2.0, sync="ring", batch_size=64, seed=7)
    assert names(far, near, old, new) == ["new", "old", "near", "far"]
    found = find_similar(RUN, [RUN, far, near, old, new])
    assert [differing(one) for one in found] == [(), (), ("sync",), ("sync", "batch-size")]


def test_hosts_and_ranks_are_settings_and_so_is_a_program() -> None:
    (other,) = find_similar(RUN, [entry("x", sync="ring", batch_size=64)._replace(ranks=8)])
    assert differing(other) == ("ranks",)
    script = Entry("script", script="train.py", hosts=("a", "b"), ranks=4, step=1)
    (other,) = find_similar(RUN, [script])
    assert differing(other) == ("program", "sync", "batch-size", "nodes")


def test_variables_of_the_ranks_are_settings(tmp_path: Path) -> None:
    def record(name: str, *variables: tuple[str, str]) -> Entry:
        hosts = tuple(replace(host, env=variables) for host in plan(1).hosts)
        history = History(replace(plan(1), run=name, hosts=hosts)).training(3)
        return read_entry(recorded(tmp_path, history.done(0).ended()))

    run = record("20261120-01-a", ("LR", "0.1"))
    record("20261120-02-b", ("LR", "0.5"))
    same = record("20261120-03-c", ("LR", "0.1"))
    other = record("20261120-04-d")
    assert find_similar(run, [other])[0].differences == (("$LR", "0.1", ""),)
    previous = find_previous(tmp_path, same.name)
    assert previous
    assert previous.name == run.name


def test_a_script_is_less_alike_than_any_job_and_a_job_less_than_any_script() -> None:
    script = Entry("script", script="train.py", hosts=("a",), ranks=4, step=1, started=9.0)
    far = entry("far", lr=0.5, momentum=0.1, model="mlp", epochs=9)
    assert names(script, far) == ["far", "script"]
    other = script._replace(name="other", script="other.py --lr 1", hosts=("b", "c"), ranks=2)
    similar = find_similar(script, [script, entry("near"), other])
    assert [one.run.name for one in similar] == ["other", "near"]


def test_runs_without_steps_and_unreadable_ones_are_left_out() -> None:
    assert names(entry("none", step=0), Entry("broken", "it is not a plan", step=3)) == []
    assert names(entry("unknown", started=2.0)._replace(started=None)) == ["unknown"]


def test_a_setting_that_one_run_leaves_at_its_default_has_that_value() -> None:
    (other,) = find_similar(RUN, [entry("x", sync="ring", batch_size=64, lr=0.5)])
    assert other.differences == (("lr", Job().lr, 0.5),)


def test_the_previous_one_is_the_newest_that_finished_before_with_the_same_settings(
    tmp_path: Path,
) -> None:
    for name, lr, is_finished in (
        ("20261120-01-a", 0.1, True),
        ("20261120-02-a", 0.1, True),
        ("20261120-03-other-settings", 0.5, True),
        ("20261120-04-stopped", 0.1, False),
        ("20261120-05-this", 0.1, True),
        ("20261120-06-later", 0.1, True),
    ):
        history = History(replace(plan(2), run=name, work=Job(lr=lr))).training(3)
        recorded(tmp_path, history.done(0, 1).ended() if is_finished else history.ended())
    previous = find_previous(tmp_path, "20261120-05-this")
    assert previous
    assert previous.name == "20261120-02-a"
    assert find_previous(tmp_path, "20261120-01-a") is None
    assert find_previous(tmp_path, "20261120-99-not-recorded") is None


def test_the_last_start_is_that_of_the_newest_run_that_finished_in_the_same_place(
    tmp_path: Path,
) -> None:
    for name, hosts, seconds, is_finished in (
        ("20261120-01-a", 2, 9.0, True),
        ("20261120-02-a", 2, 4.0, True),
        ("20261120-03-other-hosts", 3, 5.0, True),
        ("20261120-04-stopped", 2, 6.0, False),
        ("20261120-05-of-a-study", 2, 0.0, True),
        ("20261120-07-later", 2, 8.0, True),
    ):
        history = reached(hosts)
        history.plan = replace(plan(hosts), run=name)
        for rank in range(hosts):
            history.rank(rank, history.launched(rank), Spawned(rank, 100 + rank))
        history.now += seconds
        for rank in range(hosts):
            history.rank(rank, Entered(rank, "loading"))
        history.training(3)
        recorded(tmp_path, history.done(*range(hosts)).ended() if is_finished else history.ended())
    study = tmp_path / f"s{STUDY}"
    study.mkdir()
    (study / JOURNAL).write_text('{"run": "20261120-05-of-a-study", "trial": "ddp #1"}\n')
    this = replace(plan(2), run="20261120-06-this")
    assert round(find_last_start(tmp_path, this)["import torch"]) == 4
    assert find_last_start(tmp_path, replace(this, run="20261120-00-first")) == {}
    assert find_last_start(tmp_path, replace(this, work=Script(("train.py",)))) == {}
    assert find_last_start(tmp_path, replace(this, hosts=this.hosts[:1])) == {}


def test_a_run_knows_when_its_steps_began_and_ended(tmp_path: Path) -> None:
    history = History(plan(1))
    history.session(RemarkMade(SESSION, "begins"))
    began = history.now
    history.training()
    history.now = began + 5.0
    for step in range(1, 4):
        history.now += 1.99
        history.rank(0, stepped(0, step, 2.0))
        history.rank(0, Evaluated(0, step, step, 0.5, 0.9, 100, float(step)))
    folder = recorded(tmp_path, history.done(0).ended())
    times = read_overview(folder).times
    assert times
    assert times.first_step == pytest.approx(7.0, abs=0.05)
    assert times.last_step == pytest.approx(11.0, abs=0.05)
    assert times.test == 2.0
    live = History(plan(1)).training(3).state()
    assert make_overview(live).times is None


def test_only_runs_of_a_job_or_of_the_same_program_are_of_one_kind() -> None:
    script = Entry("script", script="train.py --lr 0.1")
    assert is_of_same_kind(RUN, entry("other", sync="ddp"))
    assert is_of_same_kind(script, script._replace(script="train.py --lr 0.2"))
    assert not is_of_same_kind(script, script._replace(script="other.py --lr 0.1"))
    assert not is_of_same_kind(script, RUN)
