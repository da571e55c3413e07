"""`rankboard ps` and `rankboard prune` over real SSH and on this machine."""

from __future__ import annotations

import json
import math
import os
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from remote.cluster.hosts import Cluster, Host
from remote.events import StartRefused
from remote.host_commands import inventory, pruning
from remote.host_commands import listed_runs as found_runs
from remote.host_commands.run_on_hosts import HostAnswer
from remote.plan import serialize
from remote.plan.plan import Plan, PlanError, Script
from remote.record import marks, trust
from remote.record.read import load_plan
from remote.record.write import Recorder
from remote.transport.ssh.transport import SshTransport
from tests.kit import histories, launches
from tests.kit.agents import SLEEP, hosting, kill_both, python
from tests.kit.agents import Host as AgentHost
from tests.kit.commands import Done, plan_on_hosts
from tests.kit.recorded import recorded as from_record
from tests.kit.sshd import Sshd
from tests.kit.wait import wait
from training.agent import WHOLE
from training.agent.host.system import LINUX
from training.agent.host_commands import run_folders as far
from training.agent.journal import Journal
from training.job import Job
from training.wire.commands import Keep
from training.wire.enums import EndReason
from training.wire.events import SESSION
from training.wire.host_events import AgentEnded, Exited, Hello, Launched, StopHeard
from training.wire.host_replies import CodeArchive, RunFolder, codec
from training.wire.jsonl import dumps
from tui.commands.prune import _describe_total, _make_rows, prune
from tui.commands.ps import ps
from tui.home.history import History

pytestmark = pytest.mark.skipif(not LINUX, reason="needs /proc")
Live = tuple[Sshd, tuple[Host, ...], AgentHost]
HERE = Path("/proc/sys/kernel/random/boot_id")


def ended_run(workdir: Path, name: str, index: int = 0, code: int = 0) -> Path:
    """The folder of a run that has ended."""
    folder = workdir / "runs" / name / str(index)
    folder.mkdir(parents=True)
    hello = Hello("x", "ada", 1, "3", "python3", "Linux", HERE.read_text().strip(), 2.0, 1)
    Journal(str(folder), index).write(
        1, [hello, Launched((index,)), Exited(index, code), AgentEnded(EndReason.CLOSED)]
    )
    return folder


@pytest.fixture
def live(sshd: Sshd) -> Iterator[Live]:
    """Two hosts; on node1 a-run is live, b-run has ended on both, on node2 badly."""
    hosts = sshd.make_hosts(2)
    sshd.hosts_toml(hosts)
    first, second = (Path(host.workdir) for host in hosts)
    ended_run(first, "b-run", 0)
    ended_run(second, "b-run", 1, code=1)
    with hosting(first / "runs" / "a-run" / "0") as agent:
        line = agent.follow()
        line.send(Keep("plan.json", serialize.dump(Plan("a-run", hosts, Job()))))
        line.start(python(SLEEP))
        line.wait_for_text("up")
        yield sshd, hosts, agent
        line.kill()
        agent.wait_until_empty()


def table(text: str) -> list[list[str]]:
    return [re.split(r"  +", line) for line in text.splitlines()]


def test_runs_of_all_hosts(live: Live, run: Callable[..., Done]) -> None:
    sshd, hosts, _ = live
    done = run(ps)
    assert (done.returncode, done.stderr) == (0, "")
    head, a, b = table(done.stdout)
    assert head == ["run", "state", "hosts", "ranks", "step", "started", "age", "size"]
    assert a[:4] == ["a-run", "importing", "1 of 2 live", "2"]
    assert b[:4] == ["b-run", "failed", "2", "2"]
    assert [row[0] for row in table(run(ps, live=True).stdout)] == ["run", "a-run"]
    assert run(prune, older_than="0", yes=True).stderr == (
        "rankboard: b-run is kept: not recorded here (started from another folder, or by somebody "
        "else); to remove such runs, too: rankboard prune --elsewhere\n"
        "rankboard: nothing to remove that has ended\n"
    )
    dry = run(prune, older_than="0", elsewhere=True, dry_run=True)
    assert dry.stderr.endswith("; nothing was removed\n")
    going = run(prune, older_than="0", elsewhere=True)
    (row,), (dry_row,) = table(going.stdout)[1:], table(dry.stdout)[1:]
    assert (dry_row[:2], dry_row[3:]) == (row[:2], row[3:]), "but for its age"
    assert (row[:2], row[4:]) == (["b-run", "failed"], ["elsewhere", "node1, node2"])
    assert "remove 1 run, 1 of them not recorded here (started from another folder" in dry.stderr
    assert "pass --yes" in going.stderr
    assert run(prune, older_than="0", elsewhere=True, keep=1, yes=True).stdout == ""

    sshd.node("node2").stop()
    try:
        done = run(ps, json=True)
        kept = run(prune, older_than="0", elsewhere=True, yes=True)
    finally:
        sshd.node("node2").start()
    assert done.returncode == 3
    assert done.stderr.startswith("rankboard: node2: ")
    assert [json.loads(line)["live"] for line in done.stdout.splitlines()] == [1, 0]
    assert (kept.returncode, kept.stdout.count("\n")) == (3, 2)

    gone = run(prune, older_than="0", elsewhere=True, yes=True)
    assert gone.returncode == 0, gone.stderr
    assert "removed" in gone.stderr
    assert [row[0] for row in table(run(ps).stdout)] == ["run", "a-run"]

    found = plan_on_hosts(SshTransport(), Cluster("test", hosts), "a-run")
    assert (found.plan.run, found.plan.hosts, found.plan.work) == ("a-run", hosts, Job())
    assert abs(found.offsets[0]) < 1, "a clock of this machine"
    assert 1 not in found.offsets, "node2 keeps no plan"
    with pytest.raises(
        PlanError,
        match="No run called 'c-run' here or on the hosts of test; rankboard ps lists all runs",
    ):
        plan_on_hosts(SshTransport(), Cluster("test", hosts), "c-run")
    assert run(ps, orphans=True).stderr.endswith("rankboard: no processes of ended runs\n")


def test_hosts_of_runs_that_were_left_are_asked_also_if_no_file_names_them(
    live: Live, run: Callable[..., Done], tmp_path: Path
) -> None:
    sshd, hosts, _ = live
    (tmp_path / "hosts.toml").unlink()
    hosts = tuple(replace(host, hosts_file="/lab/hosts.toml") for host in hosts)
    into = Recorder(tmp_path / "runs", Plan("a-run", hosts, Job()))
    into.release()
    for words in ({}, {"live": True}):
        done = run(ps, **words)
        assert (done.returncode, done.stderr) == (0, "")
        (row,) = table(done.stdout)[1:]
        assert row[:4] == ["a-run", "importing", "1 of 2 live", "2"], "and not b-run, nobody's here"
    answered = History(tmp_path / "runs").ask({"a-run"})
    assert list(answered.live) == ["a-run"]
    assert History(tmp_path / "runs").ask(()).live == {}, "its end is known"
    sshd.node("node2").stop()
    try:
        done = run(ps)
    finally:
        sshd.node("node2").start()
    assert done.returncode == 0, "it may be gone for good"
    assert done.stderr.startswith("rankboard: node2: ")
    sshd.hosts_toml(hosts)
    assert [row[0] for row in table(run(ps).stdout)] == ["run", "a-run", "b-run"]
    answered = History(tmp_path / "runs").ask({"b-run"})
    assert list(answered.live) == ["a-run"]
    assert [(name, run.state) for name, run in answered.ended.items()] == [("b-run", "failed")]
    (tmp_path / "hosts.toml").unlink()
    long_ago = time.time() - inventory.LATELY - 60
    for path in into.folder.iterdir():
        os.utime(path, (long_ago, long_ago))
    (row,) = table(run(ps).stdout)[1:]
    assert row[:2] == ["a-run", "left"], "its hosts may be others' now"


def test_step_and_start_of_an_ended_run_are_those_that_are_recorded(
    run: Callable[..., Done], tmp_path: Path
) -> None:
    of = Plan("over", (Host("node1", "10.0.0.1"),), Job())
    told = histories.History(of).training(12, 12).done(0)
    told.closed()
    from_record(tmp_path / "runs", told)
    (row,) = table(run(ps).stdout)[1:]
    assert row[:2] == ["over", "finished"]
    assert row[4] == "12/12"
    assert row[5] != "-"


def test_the_name_that_a_run_was_given_elsewhere_is_listed(
    run: Callable[..., Done], tmp_path: Path
) -> None:
    """A host tells it, as far as a person could have given it; the name that it has here counts."""
    workdir = tmp_path / "host"
    plan = Plan("b-run", (Host("node1", "x"),), Job(), label="best")
    ended_run(workdir, "b-run", 0)
    (workdir / "runs" / "b-run" / "0" / "plan.json").write_text(serialize.dump(plan))
    found = far.examine(str(workdir), "b-run", 0)
    assert found.label == "best"
    told = found_runs.ListedRun(
        "b-run", (found_runs.HostPart("node1", "w", inventory._plausible(found)),)
    )
    assert told.label == "best"
    wild = replace(found, label="\x1b[2J")
    assert inventory._plausible(wild).label == ""
    Recorder(tmp_path / "runs", plan).release()
    assert table(run(ps).stdout)[0][:2] == ["run", "name"]
    assert table(run(ps).stdout)[1][:2] == ["b-run", "best"]
    (named,) = map(json.loads, run(ps, json=True).stdout.splitlines())
    assert named["name"] == "best"


def test_orphans_over_ssh(live: Live, run: Callable[..., Done]) -> None:
    _, _, agent = live
    (line,) = agent.followers
    rank = line.pid()
    kill_both(line)
    kept = run(prune, older_than="0", elsewhere=True, yes=True).stderr
    assert "node1: runs/a-run/0: processes of it are left: rankboard ps --orphans" in kept
    shown = run(ps, orphans=True)
    assert [row[:3] for row in table(shown.stdout)[1:]] == [["node1", "a-run", str(rank)]]
    assert "pass --yes" in shown.stderr
    assert agent.processes() == [rank]
    ended = run(ps, orphans=True, yes=True)
    assert "rankboard: killed 1 process" in ended.stderr
    assert agent.processes() == []


def recorded(runs_dir: Path, name: str, local: bool, verdict: str | None, age: float = 0) -> Path:
    folder = runs_dir / name
    folder.mkdir(parents=True)
    (folder / "plan.json").write_text(
        serialize.dump(Plan(name, (Host("node1", "127.0.0.1"),), Script(("true",))))
    )
    if verdict:
        (folder / "summary.json").write_text(json.dumps({"verdict": verdict}))
    if local:
        ended_run(folder / "node", name)
    for path in folder.glob("*.json"):
        os.utime(path, (time.time() - age, time.time() - age))
    return folder


def test_what_of_the_runs_directory_may_go(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    for name, local, verdict, age in (
        ("local", True, "finished", 0),
        ("left", False, None, 9000),
        ("lost", False, "lost", 9000),
        ("new", False, None, 0),
        ("over", False, "failed", 0),
    ):
        recorded(runs, name, local, verdict, age)
    (runs / "no-run").mkdir()
    (runs / "link").symlink_to(runs / "over")
    known = inventory.take_inventory(None, (), runs)
    going, kept = pruning.find_removable(known, 0, 0)
    assert sorted(one.run for one in going) == ["local", "over"]
    assert [one.run for one in kept] == ["left", "lost", "new"]
    asked = replace(known, answered=frozenset({"node1"}))
    assert sorted(one.run for one in pruning.find_removable(asked, 0, 0)[0]) == [
        "left",
        "local",
        "lost",
        "over",
    ]
    assert [one.run for one in pruning.find_removable(asked, 3600, 0)[0]] == ["left", "lost"]
    assert len(pruning.find_removable(asked, 0, 3)[0]) == 1
    assert pruning.remove_files(None, (), runs, going)[1] == []
    assert sorted(path.name for path in runs.iterdir()) == ["left", "link", "lost", "new", "no-run"]


def test_a_run_with_a_star_goes_only_by_its_name(tmp_path: Path) -> None:
    marks.star(recorded(tmp_path, "best", True, "finished"), True)
    known = inventory.take_inventory(None, (), tmp_path)
    why = pruning.KeptRun("best", "it has a star")
    assert pruning.find_removable(known, 0, 0) == ([], [why])
    assert [one.run for one in pruning.find_removable(known, 0, 0, ["best"])[0]] == ["best"]


def test_a_run_whose_launcher_is_still_at_work_on_it_stays(tmp_path: Path) -> None:
    """Its ranks have ended, and their checkpoints are being fetched."""
    runs = tmp_path / "runs"
    folder = recorded(runs, "over", True, None)
    launcher = Recorder(runs, load_plan(folder), continues=True)
    going, kept = pruning.find_removable(inventory.take_inventory(None, (), runs), 0, 0)
    why = f"its launcher, process {os.getpid()}, still records it"
    assert (going, kept) == ([], [pruning.KeptRun("over", why)])
    late = pruning.Removable("over", "finished", "", "over", 1, 0)
    assert pruning.remove_files(None, (), runs, [late])[1] == [
        f"{folder}: its launcher, process {os.getpid()}, still records it"
    ]
    launcher.release()
    assert [
        one.run for one in pruning.find_removable(inventory.take_inventory(None, (), runs), 0, 0)[0]
    ] == ["over"]
    assert pruning.remove_files(None, (), runs, [late])[1] == []


def test_a_live_local_run_stays_and_its_orphans_are_found(
    run: Callable[..., Done], tmp_path: Path
) -> None:
    recorded(tmp_path / "runs", "a-run", False, None, 9000)
    with hosting(tmp_path / "runs" / "a-run" / "node" / "runs" / "a-run" / "0") as agent:
        line = agent.follow()
        line.start(python(SLEEP))
        line.wait_for_text("up")
        assert table(run(ps).stdout)[1][:4] == ["a-run", "importing", "1", "1"]
        assert "nothing to remove" in run(prune, older_than="0", yes=True).stderr
        rank = line.pid()
        kill_both(line)
        assert "processes of it are left" in run(prune, older_than="0", yes=True).stderr
        done = run(ps, orphans=True, json=True, yes=True)
        assert [json.loads(text)["pid"] for text in done.stdout.splitlines()] == [rank]
        wait(lambda: not agent.processes(), "it is gone")
        assert "removed" in run(prune, older_than="0", yes=True).stderr
        assert not any((tmp_path / "runs").glob("[!.]*"))


def test_names_from_hosts_are_shown_without_their_control_characters(
    run: Callable[..., Done], tmp_path: Path
) -> None:
    ended_run(tmp_path / "runs" / "x" / "node", "\x1b[31mred\x9b1m\nline")
    (tmp_path / "runs" / "x" / "plan.json").write_text("{}")
    _, row, _ = run(ps).stdout.splitlines()
    assert row.startswith("red line  finished ")
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]", run(ps, json=True).stdout)


@pytest.mark.parametrize("age", ["soon", "7", "-1d", "7 years"])
def test_an_age_that_is_none(age: str, run: Callable[..., Done]) -> None:
    done = run(prune, older_than=age)
    assert (done.returncode, done.stdout) == (2, "")
    assert (
        done.stderr
        == f"rankboard: --older-than {age}: write a number and s, m, h, d or w, such as 12h or 7d\n"
    )


def test_the_command_line_knows_both(tmp_path: Path) -> None:
    done = launches.run(
        tmp_path, "prune", "--older-than", "2w", "--keep", "3", "--runs-dir", "none"
    )
    assert (done.returncode, done.stdout) == (0, "")
    assert (
        done.stderr
        == "rankboard: nothing to remove that ended at least 2w ago, except for the 3 newest\n"
    )


def told(
    host: str, index: int = 0, name: str = "20261122-a", **figures: Any
) -> found_runs.HostPart:
    """What a host tells of a run that has finished."""
    usual: dict[str, Any] = {
        "live": False,
        "phase": "finished",
        "began": 1e9,
        "last": 1e9,
        "now": 1e9 + 7200,
        "size": 10**6,
    }
    usual |= {
        "ended": AgentEnded(EndReason.CLOSED),
        "folder": "",
        "hosts": 2,
        "world_size": 2,
    } | figures
    return found_runs.HostPart(host, "~", RunFolder(name, index, **usual))


@pytest.mark.parametrize(
    ("figures", "state"),
    [
        ({"moved": 1000.0, "now": 1029.0, "step_seconds": 0.1}, "training"),
        ({"moved": 1000.0, "now": 1031.0, "step_seconds": 0.1}, "stalled"),
        ({"moved": 1000.0, "now": 1099.0, "step_seconds": 10.0}, "training"),
        ({"moved": 1000.0, "now": 1101.0, "step_seconds": 10.0}, "stalled"),
        ({"moved": 1000.0, "now": 1101.0, "phase": "evaluating"}, "evaluating"),
        ({"moved": 0.0, "now": 1101.0}, "training"),
    ],
)
def test_ranks_that_make_no_steps_are_stalled_by_what_hosts_tell(
    figures: dict[str, Any], state: str
) -> None:
    usual: dict[str, Any] = {"live": True, "phase": "training", "ended": None}
    parts = tuple(told(f"node{index}", index, **(usual | figures)) for index in range(2))
    assert found_runs.ListedRun("20261122-a", parts).state == state
    slow = replace(found_runs.NO_RECORD, trouble="slow")
    assert found_runs.ListedRun("20261122-a", parts, slow).state == "slow", "the launcher looks"


class Told:
    """A transport whose every host answers `runs` with these folders."""

    def __init__(self, *folders: RunFolder) -> None:
        self._lines = [dumps(codec.object(folder)) for folder in folders] + [dumps(WHOLE)]

    def open(self, *_: object) -> Told:
        return self

    def read(self) -> bytes:
        lines, self._lines = self._lines, []
        return "".join(f"{line}\n" for line in lines).encode()

    def close(self) -> str:
        return ""


@pytest.mark.parametrize("wild", [1e300, 1e18, -1e18, -1.0])
def test_a_wild_time_hides_no_run(
    wild: float, run: Callable[..., Done], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("began", "last", "now"):
        folders = told("", name="a", **{name: wild}).folder, told("", name="b").folder
        monkeypatch.setattr(
            "tui.commands.ps.reach_hosts",
            lambda _, folders=folders: (Told(*folders), (Host("n", "n"),)),
        )
        done = run(ps)
        rows = table(done.stdout)[1:]
        assert [row[0] for row in rows] == ["a", "b"]
        assert rows[0][5:7] == ["-", "-"]
        assert rows[1][5:7] != ["-", "-"]


def test_a_time_that_is_no_number_is_not_known() -> None:
    found = inventory._plausible(told("", now=math.nan).folder)
    assert (found.began, found.last, found.now) == (0, 0, 0)


@pytest.mark.parametrize("wild", [-(2**63), 2**63 - 1])
def test_figures_that_cannot_be_are_not_shown(
    wild: int, run: Callable[..., Done], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = told("", size=wild, step=wild, steps=wild, hosts=wild, world_size=wild).folder
    monkeypatch.setattr("tui.commands.ps.reach_hosts", lambda _: (Told(folder), (Host("n", "n"),)))
    (row,) = table(run(ps).stdout)[1:]
    assert row[1:5] == ["finished", "1", "-", "-"]
    assert row[-1] == "-"
    assert "-92233" not in run(prune, older_than="0").stdout


def test_what_became_of_a_run_is_told_alike_with_and_without_its_record(tmp_path: Path) -> None:
    refused = (
        told("node1", exits=(Exited(0, 2),), phase="failed"),
        told("node2", 1, phase="stopped"),
    )
    away = told("node1", phase="refused"), told("node2", 1, phase="refused")
    for parts, verdict in ((refused, "refused"), (away, "lost")):
        record = found_runs.LocalRecord(
            "a", tmp_path, ("node1", "node2"), 2, False, verdict, 0, 0.0
        )
        assert found_runs.ListedRun("a", parts, record).state == verdict
        assert found_runs.ListedRun("a", parts).state == "refused"


def test_what_a_host_tells_of_a_stop_is_of_its_newest_attempt(tmp_path: Path) -> None:
    folder = ended_run(tmp_path, "a-run", code=1)
    first = far.examine(str(tmp_path), "a-run", 0)
    assert (first.attempt, first.stop_heard) == (1, 0.0)
    assert first.failed == pytest.approx(time.time(), abs=60)
    journal = Journal(str(folder), 0)
    journal.write(2, [Launched((0,)), StopHeard(), StopHeard(by_person=True)])
    second = far.examine(str(tmp_path), "a-run", 0)
    assert (second.attempt, second.failed) == (2, 0.0)
    assert second.stop_heard > first.failed
    journal.write(3, [Launched((0,)), Exited(0, -15, "SIGTERM", stopped=True)])
    third = far.examine(str(tmp_path), "a-run", 0)
    assert (third.attempt, third.failed, third.stop_heard) == (3, 0.0, 0.0)


@pytest.mark.parametrize(
    ("phase", "died", "ahead", "word"),
    [
        ("failed", 101.0, 0.0, "stopped"),  # it lost its peer, which a person had stopped
        ("failed", 99.5, 0.0, "stopped"),  # clocks of hosts are known to within a second
        ("failed", 90.0, 0.0, "failed"),  # it failed by itself, and then a person came
        ("failed", 90.0, -11.0, "stopped"),  # the host's clock is late
        ("lost", 104.0, 0.0, "stopped"),
        ("lost", 90.0, 0.0, "lost"),
    ],
)
def test_what_dies_after_a_person_stopped_the_run_is_no_failure(
    phase: str, died: float, ahead: float, word: str
) -> None:
    failed = died if phase == "failed" else 0.0
    away = told("node2", 1, phase=phase, failed=failed, last=died)
    parts = (told("node1", phase="stopped", stop_heard=100.0), replace(away, clock_ahead=ahead))
    assert found_runs.ListedRun("a", parts).state == word
    by_itself = replace(parts[0], folder=replace(parts[0].folder, stop_heard=0.0))
    assert found_runs.ListedRun("a", (by_itself, parts[1])).state == phase


def test_a_host_that_a_restart_left_out_does_not_say_how_the_run_ended() -> None:
    parts = (told("node1", attempt=1), told("node2", 1, phase="lost", attempt=0))
    assert found_runs.ListedRun("a", parts).state == "finished"
    going, _ = pruning.find_removable(
        inventory.RunInventory(found_runs.join_parts(parts)), 0, 0, takes_elsewhere=True
    )
    assert {one.state for one in going} == {"finished"}
    assert {one.host for one in going} == {"node1", "node2"}, "its folder goes as well"


@pytest.mark.parametrize(("ahead", "measured"), [(0.5, 0.0), (500.0, 498.0), (-500.0, -499.0)])
def test_a_clock_counts_as_right_as_long_as_its_answer_may_be_of_that_time(
    ahead: float, measured: float
) -> None:
    answer = HostAnswer(Host("n", "n"), moment=1e9, completed=1e9 + 2)
    folder = told("n", now=1e9 + ahead).folder
    assert inventory._clock_ahead(answer, [folder]) == measured
    assert inventory._clock_ahead(answer, []) == 0.0


def test_a_run_without_a_step_is_known_by_its_record_or_else_by_its_hosts(tmp_path: Path) -> None:
    refused = (told("node1", exits=(Exited(0, 2),), phase="failed"),)
    record = found_runs.LocalRecord("a", tmp_path, ("node1",), 1, False, "refused", 0, 0.0)
    assert found_runs.ListedRun("a", refused).made_no_step
    assert not found_runs.ListedRun("a", refused, record).made_no_step
    assert found_runs.ListedRun("a", (), replace(record, made_no_step=True)).made_no_step
    assert not found_runs.ListedRun("a", (told("node1", phase="finished", step=3),)).made_no_step
    live = (told("node1", live=True, phase="refused"),)
    assert not found_runs.ListedRun("a", live, replace(record, made_no_step=True)).made_no_step
    trained = (told("node1", phase="stopped", step=3),)
    assert not found_runs.ListedRun("a", trained, replace(record, made_no_step=True)).made_no_step


def test_runs_that_made_no_step_are_removed_on_request(
    run: Callable[..., Done], tmp_path: Path
) -> None:
    runs_dir = tmp_path / "runs"
    for name in ("a-refused", "b-refused", "c-trained"):
        of = Plan(name, (Host("node1", "127.0.0.1"),), Job())
        told = histories.History(of)
        if name == "c-trained":
            told.training(3, 9)
        from_record(runs_dir, told.session(StartRefused(SESSION, "no torch")).ended())
    recorded(runs_dir, "d-live", False, None)
    marks.star(runs_dir / "b-refused", True)
    asked = run(prune, not_started=True)
    assert [row[:2] for row in table(asked.stdout)[1:]] == [["a-refused", "refused"]]
    assert asked.stderr.splitlines()[0] == "rankboard: b-refused is kept: it has a star"
    assert "pass --yes" in asked.stderr
    dry = run(prune, not_started=True, dry_run=True)
    assert dry.stderr.endswith("; nothing was removed\n")
    gone = run(prune, not_started=True, yes=True)
    assert "removed" in gone.stderr
    assert sorted(path.name for path in runs_dir.glob("[!.]*")) == [
        "b-refused",
        "c-trained",
        "d-live",
    ]
    both = run(prune, names=["c-trained"], not_started=True)
    assert "not both" in both.stderr


@pytest.mark.parametrize("unconfirmed", [[], ["node1"]])
def test_a_run_on_a_host_that_was_never_reached_is_removed_without_the_host(
    run: Callable[..., Done], tmp_path: Path, unconfirmed: list[str]
) -> None:
    """Unless its launcher did not know whether ranks were left there."""
    folder = recorded(tmp_path / "runs", "a-typo", False, None, 9000)
    summary = {"verdict": "lost", "unconfirmed": unconfirmed}
    (folder / "summary.json").write_text(json.dumps(summary))
    (folder / "overview.json").write_text(json.dumps({"verdict": "lost"}))
    done = run(prune, not_started=True, yes=True)
    assert ("hosts that cannot be asked" in done.stderr) == bool(unconfirmed)
    assert folder.exists() == bool(unconfirmed)


def test_a_run_that_is_only_recorded_here_is_shown(
    run: Callable[..., Done], tmp_path: Path
) -> None:
    recorded(tmp_path / "runs", "a-gone", False, "lost", 9000)
    recorded(tmp_path / "runs", "b-left", False, None, 9000)
    rows = table(run(ps).stdout)[1:]
    assert [row[:4] for row in rows] == [
        ["a-gone", "lost", "1", "1"],
        ["b-left", "left", "1", "1"],
    ]
    assert json.loads(run(ps, json=True).stdout.splitlines()[0])["parts"] == []


def test_a_run_whose_hosts_are_gone_is_removed_by_its_name(
    run: Callable[..., Done], tmp_path: Path
) -> None:
    for name in ("a-gone", "b-gone", "c-gone"):
        recorded(tmp_path / "runs", name, False, "lost", 9e6)
    done = run(prune, yes=True)
    assert done.stdout == ""
    first, last = done.stderr.splitlines()
    assert first == (
        "rankboard: 3 runs are kept: hosts that cannot be asked may still be training; "
        "to remove the record anyway: rankboard prune a-gone b-gone c-gone"
    )
    assert "nothing to remove" in last
    assert "pass --yes" in run(prune, names=["a-gone"]).stderr
    gone = run(prune, names=["a", "b-gone"], yes=True)
    assert [row[0] for row in table(gone.stdout)] == ["run", "a-gone", "b-gone"]
    assert "a-gone: cannot reach node1: files of the run stay there" in gone.stderr
    assert [path.name for path in (tmp_path / "runs").glob("[!.]*")] == ["c-gone"]
    absent = run(prune, names=["a-gone"], yes=True)
    assert absent.returncode == 2
    assert "no run called 'a-gone' here or on the hosts" in absent.stderr


def test_prune_counts_runs_and_shows_their_total() -> None:
    parts = (told("node1"), told("node2", 1), told("node1", name="20261122-b"))
    code = found_runs.HostCode("node1", CodeArchive("x", 500, False, 9e9))
    known = inventory.RunInventory(
        found_runs.join_parts(parts), (code,), frozenset({"node1", "node2"})
    )
    going, _ = pruning.find_removable(known, 0, 0, takes_elsewhere=True)
    rows = _make_rows(going)
    assert [(row[0], *row[3:]) for row in rows] == [
        ("20261122-a", "1.9 MiB", "elsewhere", "node1, node2"),
        ("20261122-b", "977 KiB", "elsewhere", "node1"),
        ("code that no live run uses", "500 B", "-", "node1"),
    ]
    assert _describe_total(going) == (
        "2 runs, 2 of them not recorded here (started from another folder, or by somebody else) "
        "and unused code, 2.9 MiB"
    )
    own, kept = pruning.find_removable(known, 0, 0)
    assert [one.run for one in own] == [""], "code"
    assert [one.run for one in kept if one.is_elsewhere] == ["20261122-a", "20261122-b"]
    record = found_runs.LocalRecord(
        "20261122-b", Path("b"), ("node1",), 1, False, "finished", 9, 0.0
    )
    runs = (known.runs[0], replace(known.runs[1], record=record))
    own, _ = pruning.find_removable(replace(known, runs=runs, code=()), 0, 0)
    assert [row[4] for row in _make_rows(own)] == ["here"]


def test_a_live_run_is_not_removed_by_its_name() -> None:
    known = inventory.RunInventory(
        found_runs.join_parts([told("node1", live=True)]), (), frozenset({"node1"})
    )
    assert pruning.find_removable(known, 0, 0, {"20261122-a"}) == (
        [],
        [pruning.KeptRun("20261122-a", "it is live")],
    )


def test_a_plan_from_a_host_does_not_say_how_to_reach_the_others() -> None:
    file = Cluster("test", (Host("node1", "10.0.0.1", workdir="/w"), Host("node2", "10.0.0.2")))
    evil = replace(
        file.hosts[1],
        address="6.6.6.6",
        proxy_command="evil",
        python="evil",
        env_from=("SECRET",),
        slots=4,
    )
    found = trust.with_ways(trust.harmless(Plan("a-run", (file.hosts[0], evil), Job())), file)
    assert found.hosts == (file.hosts[0], replace(file.hosts[1], slots=4))
    with pytest.raises(
        PlanError, match=r"that test does not have: node3. Add a \[\[host\]\] with name = \"node3\""
    ):
        trust.with_ways(Plan("a-run", (Host("node3", "10.0.0.3"),), Job()), file)
