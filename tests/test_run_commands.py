"""`rankboard ps` and `rankboard prune` over real SSH and on this machine."""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import launches
import pytest
import typer
from agents import Host as AgentHost
from agents import hosting, python, wait_for
from sshd import Sshd
from test_leftovers import SLEEP, kill_both

from remote import cleaning, inventory, plan_json
from remote.hosts import Cluster, Host
from remote.plan import Plan, PlanError, Script
from remote.recorder import Recorder, load_plan
from remote.transport.ssh import SshTransport
from training.agent.journal import Journal
from training.agent.system import LINUX
from training.commands import Keep
from training.events import Ended, Exited, Hello, Launched
from training.job import Job
from tui.run_commands import prune, ps

pytestmark = pytest.mark.skipif(not LINUX, reason="needs /proc")
Live = tuple[Sshd, tuple[Host, ...], AgentHost]
HERE = Path("/proc/sys/kernel/random/boot_id")


def ended_run(workdir: Path, name: str, index: int = 0, code: int = 0) -> Path:
    """The folder of a run that has ended."""
    folder = workdir / "runs" / name / str(index)
    folder.mkdir(parents=True)
    hello = Hello("x", "ada", 1, "3", "python3", "Linux", HERE.read_text().strip(), 2.0, 1)
    Journal(str(folder), index).write(1, [hello, Launched((index,)), Exited(index, code), Ended("closed")])
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
        line.send(Keep("plan.json", plan_json.dump(Plan("a-run", hosts, Job()))))
        line.start(python(SLEEP))
        line.wait_for_text("up")
        yield sshd, hosts, agent
        line.kill()
        agent.wait_until_empty(10)


@dataclass
class Done:
    """What a command has printed, and its exit code."""

    returncode: int
    stdout: str
    stderr: str


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., Done]:
    """Runs a command in the test's folder, in this process."""
    monkeypatch.chdir(tmp_path)

    def run(command: Callable[..., None], **flags: object) -> Done:
        code = 0
        try:
            command(runs_dir=Path("runs"), **flags)
        except typer.Exit as error:
            code = error.exit_code
        return Done(code, *capsys.readouterr())

    return run


def table(text: str) -> list[list[str]]:
    return [re.split(r"  +", line) for line in text.splitlines()]


def test_runs_of_all_hosts(live: Live, run: Callable[..., Done]) -> None:
    sshd, hosts, _ = live
    done = run(ps)
    assert (done.returncode, done.stderr) == (0, "")
    head, a, b = table(done.stdout)
    assert head == ["run", "phase", "hosts", "ranks", "step", "started", "age", "size"]
    assert a[:4] == ["a-run", "starting", "1 of 2", "2"]
    assert b[:4] == ["b-run", "failed", "0 of 2", "2"]
    going = run(prune, older_than="0")
    assert [row[::2][:2] for row in table(going.stdout)[1:]] == [["b-run", "node1"], ["b-run", "node2"]]
    assert "give --yes" in going.stderr
    assert run(prune, older_than="0", keep=1, yes=True).stdout == ""

    sshd.node("node2").stop()
    try:
        done = run(ps, json=True)
        kept = run(prune, older_than="0", yes=True)
    finally:
        sshd.node("node2").start()
    assert done.returncode == 3
    assert done.stderr.startswith("rankboard: node2: ")
    assert [json.loads(line)["live"] for line in done.stdout.splitlines()] == [1, 0]
    assert (kept.returncode, kept.stdout.count("\n")) == (3, 2)

    gone = run(prune, older_than="0", yes=True)
    assert gone.returncode == 0, gone.stderr
    assert "removed" in gone.stderr
    assert [row[0] for row in table(run(ps).stdout)] == ["run", "a-run"]

    found = inventory.plan_of(SshTransport(), Cluster("test", hosts), "a-run")
    assert (found.plan.run, found.plan.hosts, found.plan.work) == ("a-run", hosts, Job())
    assert abs(found.offsets[0]) < 1, "a clock of this machine"
    assert 1 not in found.offsets, "node2 keeps no plan"
    with pytest.raises(PlanError, match="no host of test knows the plan of this run"):
        inventory.plan_of(SshTransport(), Cluster("test", hosts), "c-run")
    assert run(ps, orphans=True).stderr == "rankboard: no processes of ended runs\n"


def test_orphans_over_ssh(live: Live, run: Callable[..., Done]) -> None:
    _, _, agent = live
    (line,) = agent.followers
    rank = line.pid()
    kill_both(line)
    kept = run(prune, older_than="0", yes=True).stderr
    assert "node1: runs/a-run/0: processes of it are left: rankboard ps --orphans" in kept
    shown = run(ps, orphans=True)
    assert [row[:3] for row in table(shown.stdout)[1:]] == [["node1", "a-run", str(rank)]]
    assert "give --yes" in shown.stderr
    assert agent.processes() == [rank]
    ended = run(ps, orphans=True, yes=True)
    assert "rankboard: ended 1 processes" in ended.stderr
    assert agent.processes() == []


def recorded(runs_dir: Path, name: str, local: bool, verdict: str | None, age: float = 0) -> Path:
    folder = runs_dir / name
    folder.mkdir(parents=True)
    (folder / "plan.json").write_text(plan_json.dump(Plan(name, (Host("node1", "127.0.0.1"),), Script(("true",)))))
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
    known = inventory.take(None, (), runs)
    going, kept = cleaning.removable(known, runs, 0, 0)
    assert sorted(one.run for one in going) == ["local", "over"]
    assert [line.partition(" ")[0] for line in kept] == ["left", "lost", "new"]
    asked = replace(known, answered=frozenset({"node1"}))
    assert sorted(one.run for one in cleaning.removable(asked, runs, 0, 0)[0]) == ["left", "local", "lost", "over"]
    assert [one.run for one in cleaning.removable(asked, runs, 3600, 0)[0]] == ["left", "lost"]
    assert len(cleaning.removable(asked, runs, 0, 3)[0]) == 1
    assert cleaning.remove(None, (), runs, going)[1] == []
    assert sorted(path.name for path in runs.iterdir()) == ["left", "link", "lost", "new", "no-run"]


def test_a_run_whose_launcher_is_still_at_work_on_it_stays(tmp_path: Path) -> None:
    """Its ranks have ended, and their checkpoints are being fetched."""
    runs = tmp_path / "runs"
    folder = recorded(runs, "over", True, None)
    launcher = Recorder(runs, load_plan(folder), again=True)
    going, kept = cleaning.removable(inventory.take(None, (), runs), runs, 0, 0)
    assert (going, kept) == ([], [f"over is kept: its launcher, process {os.getpid()}, is still at work on it"])
    late = cleaning.Removable("over", "finished", "", "over", 1, 0)
    assert cleaning.remove(None, (), runs, [late])[1] == [
        f"{folder}: its launcher, process {os.getpid()}, is still at work on it"
    ]
    launcher.release()
    assert [one.run for one in cleaning.removable(inventory.take(None, (), runs), runs, 0, 0)[0]] == ["over"]
    assert cleaning.remove(None, (), runs, [late])[1] == []


def test_a_live_local_run_stays_and_its_orphans_are_found(run: Callable[..., Done], tmp_path: Path) -> None:
    recorded(tmp_path / "runs", "a-run", False, None, 9000)
    with hosting(tmp_path / "runs" / "a-run" / "node" / "runs" / "a-run" / "0") as agent:
        line = agent.follow()
        line.start(python(SLEEP))
        line.wait_for_text("up")
        assert table(run(ps).stdout)[1][:4] == ["a-run", "starting", "1 of 1", "1"]
        assert "nothing to remove" in run(prune, older_than="0", yes=True).stderr
        rank = line.pid()
        kill_both(line)
        assert "processes of it are left" in run(prune, older_than="0", yes=True).stderr
        done = run(ps, orphans=True, json=True, yes=True)
        assert [json.loads(text)["pid"] for text in done.stdout.splitlines()] == [rank]
        wait_for(lambda: not agent.processes(), "it is gone")
        assert "removed" in run(prune, older_than="0", yes=True).stderr
        assert not any((tmp_path / "runs").glob("[!.]*"))


def test_names_from_hosts_are_shown_without_their_control_characters(run: Callable[..., Done], tmp_path: Path) -> None:
    ended_run(tmp_path / "runs" / "x" / "node", "\x1b[31mred\x9b1m\nline")
    (tmp_path / "runs" / "x" / "plan.json").write_text("{}")
    _, row = run(ps).stdout.splitlines()
    assert row.startswith("red line  finished ")
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]", run(ps, json=True).stdout)


@pytest.mark.parametrize("age", ["soon", "7", "-1d", "7 years"])
def test_an_age_that_is_none(age: str, run: Callable[..., Done]) -> None:
    done = run(prune, older_than=age)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"rankboard: --older-than {age}: write a number and s, m, h, d or w, such as 12h or 7d\n"


def test_the_command_line_knows_both(tmp_path: Path) -> None:
    done = launches.run(tmp_path, "prune", "--older-than", "2w", "--keep", "3", "--runs-dir", "none")
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr == "rankboard: nothing to remove that ended 2w ago or more, but for the 3 newest\n"


def test_a_plan_from_a_host_does_not_say_how_to_reach_the_others() -> None:
    file = Cluster("test", (Host("node1", "10.0.0.1", workdir="/w"), Host("node2", "10.0.0.2")))
    evil = replace(file.hosts[1], address="6.6.6.6", proxy_command="evil", python="evil", env_from=("SECRET",), slots=4)
    found = inventory.trusted(Plan("a-run", (file.hosts[0], evil), Job()), file)
    assert found.hosts == (file.hosts[0], replace(file.hosts[1], slots=4))
    with pytest.raises(PlanError, match=r"runs on hosts that test does not have: node3 \(10.0.0.3\): add them"):
        inventory.trusted(Plan("a-run", (Host("node3", "10.0.0.3"),), Job()), file)
