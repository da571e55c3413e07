"""`rankboard attach`: which run is meant, and whose word counts."""

from __future__ import annotations

import fcntl
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from remote.cluster.hosts import Cluster, Host
from remote.host_commands import kept_plan
from remote.host_commands.kept_plan import KeptPlan
from remote.host_commands.run_on_hosts import HostAnswer
from remote.plan import serialize
from remote.plan.plan import Plan, PlanError, Policy, Upload
from remote.record.write import Recorder
from remote.transport import Transport
from tests.kit.commands import (
    NOWHERE,
    Done,
    Watched,
    plan_on_hosts,
    watching,
)
from training.agent.host_commands import run_folders as far
from training.agent.journal import Journal
from training.job import Job
from training.wire.host_events import Launched
from tui.commands.attach import attach

FILE = Cluster("test", (Host("node1", "10.0.0.1"), Host("node2", "10.0.0.2")))
PLAN = Plan("a-run", FILE.hosts, Job())


# Plans of hosts -----------------------------------------------------------------------------------


def told(run: str = "a-run", said: Plan = PLAN, **more: object) -> dict[str, Any]:
    """What a host answers that keeps this plan of the run."""
    return {"run": run, "plan": json.dumps(json.loads(serialize.dump(said)) | more), "now": 1000.0}


@pytest.fixture
def answer(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Have the hosts of FILE answer so, each with one or several objects."""

    def answer(*objects: dict[str, Any] | list[dict[str, Any]], moment: float = 990.0) -> None:
        answers = [
            HostAnswer(host, tuple(said) if isinstance(said, list) else (said,), moment=moment)
            for host, said in zip(FILE.hosts, objects, strict=False)
        ]
        monkeypatch.setattr(
            "remote.host_commands.run_on_hosts.run_on_hosts", lambda *_, **__: answers
        )

    return answer


def test_the_plan_and_the_clocks_of_a_run_elsewhere(answer: Callable[..., None]) -> None:
    answer([], told())
    kept = plan_on_hosts(NOWHERE, FILE, "a-run")
    assert (kept.plan, kept.offsets) == (PLAN, {1: 10.0})


def test_a_host_that_was_away_when_the_run_was_left_has_another_policy(
    answer: Callable[..., None],
) -> None:
    answer(told(said=replace(PLAN, policy=Policy(keep=True))), told())
    assert plan_on_hosts(NOWHERE, FILE, "a-run").plan.policy.keep


THREE = Cluster("test", tuple(Host(f"node{n}", f"10.0.0.{n}") for n in (1, 2, 3)))
ON_THREE = replace(PLAN, hosts=THREE.hosts)


def test_a_host_whose_plan_differs_is_named_and_the_plan_of_the_others_counts(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    differing = replace(ON_THREE, work=Job(batch_size=7, lr=0.5))
    said = [told(said=differing), told(said=ON_THREE), told(said=ON_THREE)]
    answers = [HostAnswer(host, (one,)) for host, one in zip(THREE.hosts, said, strict=True)]
    monkeypatch.setattr("remote.host_commands.run_on_hosts.run_on_hosts", lambda *_, **__: answers)
    kept = plan_on_hosts(NOWHERE, THREE, "a-run")
    assert (kept.plan, kept.others) == (ON_THREE, ())
    run = kept_plan.ask_for_plans(NOWHERE, THREE, "a-run").runs["a-run"]
    assert run.remarks == ("node1 keeps another plan of a-run, which is not used",)
    assert f"rankboard: {run.remarks[0]}\n" in capsys.readouterr().err


def test_a_host_whose_plan_cannot_be_read_is_named_and_the_plan_of_the_others_counts(
    answer: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    answer(told(said=replace(PLAN, hosts=(Host("../../etc", "x"),))), told())
    assert plan_on_hosts(NOWHERE, FILE, "a-run").plan == PLAN
    assert (
        "rankboard: node1: a-run runs on hosts that test does not have" in capsys.readouterr().err
    )


def test_of_two_hosts_that_differ_each_has_a_plan_by_which_it_is_stopped(
    answer: Callable[..., None],
) -> None:
    """Nobody knows which one is right: by the other's plan it would not be found."""
    swapped = replace(PLAN, hosts=FILE.hosts[::-1])
    answer(told(said=swapped), told())
    kept = plan_on_hosts(NOWHERE, FILE, "a-run")
    assert {kept.plan.hosts, *(plan.hosts for plan in kept.others)} == {FILE.hosts, swapped.hosts}
    alone = replace(PLAN, hosts=FILE.hosts[:1])
    answer(told(said=alone), told())
    assert plan_on_hosts(NOWHERE, FILE, "a-run").plan == PLAN, "it leaves nobody out"


@pytest.mark.parametrize(
    "name",
    ["/home/u/x", "../..", "..", ".", "", ".hidden", "-x", "a/b", "a\nb", "\x1b[2J", "a\u202eb"],
)
def test_a_name_that_is_no_plain_one_is_refused_wherever_a_plan_is_read(
    name: str, answer: Callable[..., None]
) -> None:
    """A run's name says where this machine writes."""
    with pytest.raises(ValueError, match="is not a plain name"):
        serialize.parse(serialize.dump(replace(PLAN, run=name)))
    if name:
        with pytest.raises(ValueError, match="is not a plain name"):
            serialize.parse(serialize.dump(replace(PLAN, project=name)))
    answer(told(name, replace(PLAN, run=name)))
    asked = kept_plan.ask_for_plans(NOWHERE, FILE, name)
    assert not asked.runs
    why = str(asked.mistakes[name])
    assert "cannot be read: its run" in why
    assert "is not a plain name" in why


@pytest.mark.parametrize("target", ["/etc", "../x", "a/../../b", "a//b", "a\0b"])
def test_an_upload_that_leads_elsewhere_is_refused(target: str) -> None:
    with pytest.raises(ValueError, match="leads elsewhere"):
        serialize.parse(
            serialize.dump(replace(PLAN, uploads=(Upload("/src", target),), project="x"))
        )


@pytest.mark.parametrize(
    ("said", "mistake"),
    [
        (told(said=replace(PLAN, run="b-run")), "the plan of another run, b-run"),
        (told(said=replace(PLAN, hosts=(FILE.hosts[0], FILE.hosts[0]))), "a host twice"),
        (
            told(hosts=[{"name": "node1", "address": "x", "slots": 0}]),
            "slots = 0: write a whole number from 1 to 4096",
        ),
        (
            told(said=replace(PLAN, hosts=(Host("../../etc", "x"),))),
            "that test does not have: ../../etc",
        ),
        (told(policy={"max_restarts": "many"}), "cannot be read"),
        (told(work={"script": [["rm"]]}), "cannot be read"),
        ({"run": "a-run", "plan": "[" * 100_000}, "cannot be read"),
        (
            {"run": "b-run", "plan": serialize.dump(replace(PLAN, run="b-run"))},
            "No run called 'a-run' here or on the hosts of test",
        ),
        ({"run": 7, "plan": serialize.dump(PLAN)}, "No run called 'a-run' here or on the"),
    ],
    ids=[
        "another",
        "twice",
        "no rank",
        "unknown host",
        "policy",
        "script",
        "deep",
        "not asked for",
        "no name",
    ],
)
def test_what_a_host_tells_is_not_taken_on_trust(
    said: dict[str, Any], mistake: str, answer: Callable[..., None]
) -> None:
    answer(said)
    with pytest.raises(PlanError, match=mistake):
        plan_on_hosts(NOWHERE, FILE, "a-run")


def test_a_clock_that_is_none_is_not_known(answer: Callable[..., None]) -> None:
    answer(told() | {"now": float("nan")}, told() | {"now": "noon"})
    assert plan_on_hosts(NOWHERE, FILE, "a-run").offsets == {}


def named(*names: str) -> list[dict[str, Any]]:
    return [told(name, replace(PLAN, run=name)) for name in names]


def test_a_run_elsewhere_is_known_by_its_beginning_or_as_the_last(
    answer: Callable[..., None],
) -> None:
    both = named("20261119-a", "20261120-b")
    answer(both, both)
    for asked, found in (
        ("20261119", "20261119-a"),
        ("20261120-b", "20261120-b"),
        ("last", "20261120-b"),
    ):
        assert plan_on_hosts(NOWHERE, FILE, asked).plan.run == found
    with pytest.raises(
        PlanError,
        match=r"2026: 2 runs begin so; write more of the name:\n  20261120-b\n  20261119-a$",
    ):
        plan_on_hosts(NOWHERE, FILE, "2026")
    answer(named("a", "ab"), named("ab"))
    assert plan_on_hosts(NOWHERE, FILE, "a").plan.run == "a"


def test_a_host_answers_with_the_runs_that_may_be_meant(tmp_path: Path) -> None:
    for name, host, kept in (
        ("1-a", 0, True),
        ("1-a", 1, False),
        ("1-b", 0, True),
        ("2-c", 0, True),
        ("3-d", 0, False),
    ):
        (tmp_path / "runs" / name / str(host)).mkdir(parents=True)
        if kept:
            (tmp_path / "runs" / name / str(host) / "plan.json").write_text(f"plan of {name}")
    plan = tmp_path / "runs" / "1-b" / "0" / "plan.json"
    plan.write_text('{"label": "best", "of": "1-b"}')

    def asked(name: str) -> list[str]:
        return [one["run"] for one in far.plan(str(tmp_path), name)]

    assert asked("1-a") == ["1-a"]
    assert asked("1") == ["1-a", "1-b"]
    assert asked("best") == ["1-b"]
    assert asked("last") == asked("2") == ["2-c"]
    assert asked("3") == asked("x") == asked("bes") == []


def test_a_host_tells_of_the_newest_runs_that_have_begun_and_of_all_live_ones(
    tmp_path: Path,
) -> None:
    names = [f"{number}-run" for number in range(9)]
    for name in names:
        folder = tmp_path / "runs" / name / "0"
        folder.mkdir(parents=True)
        (folder / "plan.json").write_text("{}")
        if name != "8-run":
            Journal(str(folder), 0).write(0, [Launched((0,))])
    with open(tmp_path / "runs" / "1-run" / "0" / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        told = {one["run"]: (one["live"], one["begun"]) for one in far.plan(str(tmp_path), "last")}
    assert told == {
        **dict.fromkeys(("4-run", "5-run", "6-run", "7-run"), (False, True)),
        "1-run": (True, True),
    }


# Commands -----------------------------------------------------------------------------------------


def test_a_run_that_is_begun_after_coming_back_is_kept_over_ssh(
    run: Callable[..., Done], over: Callable[[Transport], None], tmp_path: Path
) -> None:
    over(NOWHERE)
    for name, local in (("a-run", False), ("b-run", True)):
        Recorder(tmp_path / "runs", replace(PLAN, run=name)).release()
        if local:
            (tmp_path / "runs" / name / "node").mkdir()
    watched = Watched()
    for name in ("a-run", "b-run"):
        assert run(watching(watched, attach), run=name).returncode == 42
        watched.sessions[-1]._recorder.release()
    assert [launcher.policy.keep for launcher in watched.launchers] == [True, False]


def test_a_run_that_is_named_by_the_path_of_another_folder_is_recorded_there(
    run: Callable[..., Done], over: Callable[[Transport], None], tmp_path: Path
) -> None:
    over(NOWHERE)
    elsewhere = tmp_path / "homework" / "runs"
    Recorder(elsewhere, PLAN).release()
    watched = Watched()
    for path in (f"homework/runs/{PLAN.run}", "homework/runs/last"):
        assert run(watching(watched, attach), run=path).returncode == 42
        watched.sessions[-1]._recorder.release()
    assert [launcher.runs_dir for launcher in watched.launchers] == [elsewhere, elsewhere]
    assert not (tmp_path / "runs").exists()


@pytest.mark.usefixtures("over")
def test_a_dashboard_without_a_terminal_is_refused_before_anything_is_recorded(
    run: Callable[..., Done], tmp_path: Path
) -> None:
    (tmp_path / "hosts.toml").write_text('[[host]]\nname = "node1"\naddress = "10.0.0.1"\n')
    elsewhere = KeptPlan(PLAN, {}, foreign=True)
    with patch("tui.flags.recorded.find_kept", lambda *_, **__: elsewhere):
        done = run(attach, run=PLAN.run)
    assert done.returncode == 2
    assert "the dashboard needs a terminal on stdin, stdout and stderr" in done.stderr
    assert not (tmp_path / "runs").exists()


def test_who_names_no_run_of_this_machine_or_its_hosts_is_told(run: Callable[..., Done]) -> None:
    done = run(watching(Watched(), attach), run="last")
    assert done.returncode == 2
    assert done.stderr.startswith(
        "rankboard: No run called 'last' in runs, and no hosts to ask for it: hosts.toml: no"
    )
    assert "known only in the folder where it was started: go there" in done.stderr
