"""What is said at the end of a run of files that its program wrote on hosts."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path

import pytest

from remote.plan.plan import Plan, Script
from remote.record import summary
from remote.run.run_state import RunState
from tests.kit.checks import hello
from tests.kit.histories import History, plan
from training.wire.enums import EndReason
from training.wire.host_events import AgentEnded, Exited
from tui.run.end_verdict import judge_ended_run
from tui.run.run_verdict import VerdictKeys
from tui.run.unfetched_files import describe_unfetched_files

MINE = replace(plan(2, script=True), project="mine-c7e8")


def wrote(of: Plan, *paths: str, hosts: int = 1, **more: int) -> RunState:
    """A run of which the first hosts have written these files each."""
    history = History(of)
    for host in range(len(of.hosts)):
        history.rank(host, Exited(host, 0))
        files = paths if host < hosts else ()
        history.say(
            host,
            AgentEnded(EndReason.CLOSED, written=files, written_count=len(files), **more),
        )
    return history.closed()


def test_files_are_named_with_the_option_that_brings_them() -> None:
    state = wrote(MINE, "out/log.csv", "out/model-0.pt")
    assert describe_unfetched_files(state) == [
        "wrote 2 files on node1 (out/log.csv, out/model-0.pt); they stay in "
        "~/.rankboard/files/mine-c7e8; with --fetch 'out/*', a run brings such files at its end"
    ]
    verdict = judge_ended_run(state, VerdictKeys(), is_brief=False)
    assert describe_unfetched_files(state)[0] in verdict.reasons
    assert summary.summarize(state)["written"] == [
        {"host": "node1", "files": ["out/log.csv", "out/model-0.pt"], "count": 2}
    ]


def test_the_folder_is_that_of_the_host_which_a_recorded_plan_does_not_have() -> None:
    facts = hello(1, folder="/scratch/rb/runs/r/0")
    history = History(MINE).say(0, facts).rank(0, Exited(0, 0)).rank(1, Exited(1, 0))
    history.say(0, AgentEnded(EndReason.CLOSED, written=("a",), written_count=1))
    (told,) = describe_unfetched_files(history.closed())
    assert "they stay in /scratch/rb/files/mine-c7e8;" in told


def test_nothing_is_said_where_nothing_is_left_on_hosts(tmp_path: Path) -> None:
    silent = wrote(MINE)
    assert (describe_unfetched_files(silent), "written" in summary.summarize(silent)) == ([], False)
    fetched = replace(MINE, work=Script(("train.py",), fetch=("out/*.pt",)))
    assert describe_unfetched_files(wrote(fetched, "out/a.pt")) == []
    (told,) = describe_unfetched_files(wrote(fetched, "out/a.pt", "out/b.csv"))
    assert told.startswith("wrote 1 file on node1 (out/b.csv)")
    unfetched = replace(fetched, policy=replace(fetched.policy, fetch=False))
    assert describe_unfetched_files(wrote(unfetched, "out/a.pt"))
    (tmp_path / "a.pt").touch()
    hosts = tuple(replace(host, cwd=str(tmp_path)) for host in MINE.hosts)
    shared = replace(MINE, project="", hosts=hosts)
    assert describe_unfetched_files(wrote(shared, "a.pt")) == [], (
        "the folder is that of this machine"
    )
    assert describe_unfetched_files(wrote(shared, "elsewhere.pt"))


@pytest.mark.parametrize(
    ("paths", "options"),
    [
        (("a.pt",), "--fetch a.pt"),
        (("a.pt", "b.pt", "log.csv"), "--fetch '*.pt' --fetch log.csv"),
        (("out/a/b/c.pt", "logs/x"), "--fetch 'logs/*' --fetch 'out/*'"),
        (("a;b",), "--fetch 'a;b'"),
        (("a/1", "b/1", "c/1", "d/1"), "--fetch 'a/*' --fetch 'b/*' --fetch 'c/*'"),
    ],
)
def test_patterns_are_few_and_may_be_copied(paths: tuple[str, ...], options: str) -> None:
    (told,) = describe_unfetched_files(wrote(MINE, *paths))
    assert f"; with {options}, a run brings" in told
    assert shlex.split(options)


def test_many_hosts_and_files_are_a_line() -> None:
    many = replace(plan(6, script=True), project="mine-c7e8")
    (told,) = describe_unfetched_files(wrote(many, "a", "b", "c", hosts=5, written_cut=True))
    assert told.startswith(
        "wrote at least 3 files on node1 (a, b, …), 3 files on node2 (a, b, …), 3 files on node3 "
        "(a, b, …) and 6 files on 2 other hosts; they stay in"
    )
