"""Warm hosts: runs of a launcher share the process that starts their agents, and has imported torch
for jobs; and nothing else."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path

import psutil
import pytest

from remote.cluster.hosts import Host
from remote.plan.plan import Plan, Script
from remote.record.write import Recorder
from remote.run.run_state import RunState
from remote.run.state.phases import Verdict
from remote.session.session import Session
from remote.transport import warm
from remote.transport.bootstrap.archive import PACKAGE
from remote.transport.local import LocalTransport
from remote.transport.registry import Transports
from remote.transport.warm import WarmTransport
from tests.kit.agents import ROOT
from tests.kit.slow import slow
from tests.kit.sshd import Sshd
from tests.kit.wait import wait
from training.job import Job
from training.wire.events import Record
from training.wire.host_events import OutputText, Spawned
from training.wire.step_block import StepBlock

JOB = Job(model="lenet5", dataset="digits", steps=2, sync="none")
LONG = replace(JOB, steps=1_000_000)
NAME = "rankboard-serve"


@pytest.fixture(params=["local"])
def host(request: pytest.FixtureRequest, tmp_path: Path) -> Host:
    """This machine, or with `over_ssh` a host over SSH."""
    if request.param == "ssh":
        sshd: Sshd = request.getfixturevalue("sshd")
        return sshd.make_hosts(1)[0]
    workdir = str(tmp_path / "w")
    return Host("here", "127.0.0.1", python=sys.executable, workdir=workdir, transport="local")


over_ssh = pytest.mark.parametrize("host", ["ssh"], indirect=True)


@pytest.fixture
def launcher(host: Host, tmp_path: Path) -> Iterator[Launcher]:
    with closing(WarmTransport(Transports((host,)))) as transport:
        yield Launcher(transport, host, tmp_path)


@dataclass
class Launcher:
    """Makes runs on one host. `ranks` are theirs, `servers` the fork servers from which these
    descend, 0 for none."""

    transport: WarmTransport
    host: Host
    folder: Path
    servers: list[int] = field(default_factory=list)
    ranks: list[psutil.Process] = field(default_factory=list)

    def run(
        self, job: Job | None = None, once_up: Callable[[Session], object] = lambda _: None
    ) -> RunState:
        """Make a run to its end, of a script unless there is a job; `once_up` is called once, at
        a step of the job, or while the script waits for it."""
        name = f"run-{len(self.servers)}"
        pipe = self.folder / f"{name}.pipe"
        os.mkfifo(pipe)
        script = Script(("sh", "-c", f"echo up; read end < '{pipe}'; exit 0"), watch=False)
        plan = Plan(name, (self.host,), job or script)
        session = Session(plan, self.transport, Recorder(self.folder / "runs", plan))
        sign = StepBlock if job else OutputText
        due = True
        for records in session.batches():
            self._look(records)
            if due and any(isinstance(record.event, sign) for record in records):
                due = False
                once_up(session)
                if not job:
                    pipe.open("w").close()
        return session.state

    def _look(self, records: list[Record]) -> None:
        for record in records:
            if isinstance(record.event, Spawned):
                rank = psutil.Process(record.event.pid)
                self.ranks.append(rank)
                above = [one.pid for one in rank.parents() if one.name() == NAME]
                self.servers.append(above[-1] if above else 0)


def runs(pid: int) -> bool:
    """Whether it is a process, and no zombie."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


@over_ssh
def test_runs_of_jobs_share_their_server_and_nothing_else(launcher: Launcher) -> None:
    def kill_agent(_: Session) -> None:
        launcher.ranks[-1].parent().kill()  # type: ignore[union-attr]

    # whatever ends a run leaves a warm host and no rank
    assert launcher.run(LONG, lambda session: session.stop(now=True)).verdict is Verdict.STOPPED
    assert not launcher.ranks[-1].is_running()
    assert launcher.run(LONG, kill_agent).verdict is not Verdict.FINISHED
    wait(lambda: not runs(launcher.ranks[-1].pid), "the rank has ended")

    seeds = [launcher.run(replace(JOB, seed=seed)) for seed in (1, 2, 1)]
    assert [state.verdict for state in seeds] == [Verdict.FINISHED] * 3
    assert len(launcher.servers) == 5
    assert len(set(launcher.servers)) == 1
    assert launcher.servers[0] > 0
    assert "libtorch" in Path(f"/proc/{launcher.servers[0]}/maps").read_text()
    assert len({rank.pid for rank in launcher.ranks}) == 5
    first, other, again = (state.curves.of("loss", 0).mean for state in seeds)
    assert list(first) == list(again) != list(other)
    launcher.transport.close()
    wait(lambda: not runs(launcher.servers[0]), "the server has ended")


def test_a_server_that_died_or_does_not_answer_is_replaced(
    launcher: Launcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    launcher.run()
    first = psutil.Process(launcher.servers[-1])
    first.kill()
    assert launcher.run().verdict is Verdict.FINISHED
    second = psutil.Process(launcher.servers[-1])
    second.suspend()
    monkeypatch.setattr(warm, "ANSWER", 0.2)
    try:
        assert launcher.run().verdict is Verdict.FINISHED
    finally:
        if second.is_running():
            second.resume()  # it finds its stdin ended
    assert len({0, first.pid, second.pid, launcher.servers[-1]}) == 4
    wait(lambda: not runs(second.pid), "the server has ended")


def test_a_host_that_cannot_serve_starts_as_any_other(
    launcher: Launcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(warm, "IMPORT_LIMIT", 0.0)
    assert launcher.run().verdict is Verdict.FINISHED
    assert launcher.servers == [0]


def test_a_server_that_dies_in_a_run_leaves_the_run_alone(launcher: Launcher) -> None:
    def kill_server(_: Session) -> None:
        psutil.Process(launcher.servers[-1]).kill()

    assert launcher.run(once_up=kill_server).verdict is Verdict.FINISHED


def test_changed_code_is_not_run(tmp_path: Path, host: Host) -> None:
    code = tmp_path / "code" / "training"
    shutil.copytree(PACKAGE, code, ignore=shutil.ignore_patterns("__pycache__"))
    with closing(WarmTransport(LocalTransport(code))) as transport:
        launcher = Launcher(transport, host, tmp_path)
        launcher.run()
        launcher.run()
        (code / "loop.py").touch()
        launcher.run()
    first, second, third = launcher.servers
    assert first == second != third > 0


@pytest.mark.parametrize("job", [None, pytest.param(JOB, marks=slow)], ids=["script", "job"])
def test_the_variables_of_a_host_are_there_when_its_server_starts(
    job: Job | None, tmp_path: Path, host: Host
) -> None:
    host = replace(host, env=(("PYTHONPATH", str(tmp_path)), ("OMP_NUM_THREADS", "2")))
    (tmp_path / "sitecustomize.py").write_text(
        f"open({str(tmp_path / 'seen')!r}, 'a').write('once ')"
    )
    with closing(WarmTransport(LocalTransport())) as transport:
        launcher = Launcher(transport, host, tmp_path)
        launcher.run(job)
        launcher.run(job)
    assert len(set(launcher.servers)) == 1
    assert (tmp_path / "seen").read_text() == "once "


def test_for_runs_of_a_script_no_torch_is_imported(launcher: Launcher) -> None:
    launcher.run()
    assert "libtorch" not in Path(f"/proc/{launcher.servers[0]}/maps").read_text()


@over_ssh
def test_a_connection_that_is_cut_between_two_runs_leaves_nothing(
    launcher: Launcher, sshd: Sshd
) -> None:
    launcher.run()
    sshd.node("node1").cut()
    wait(lambda: not runs(launcher.servers[0]), "the server has ended")
    assert launcher.run().verdict is Verdict.FINISHED
    assert launcher.servers[1] > 0


LAUNCHER = """
import sys
from pathlib import Path
from tests.hosts.test_warm import Launcher
from remote.cluster.hosts import Host
from remote.transport.registry import Transports
from remote.transport.warm import WarmTransport
host = HOST
launcher = Launcher(WarmTransport(Transports((host,))), host, Path(sys.argv[1]))
launcher.run()
if sys.argv[2] == "between":
    print(launcher.servers[0], flush=True)
    input()
launcher.run(once_up=lambda _: input(print(launcher.servers[1], flush=True)))
"""


@over_ssh
@pytest.mark.parametrize("when", ["between", "within"])
def test_nothing_is_left_when_the_launcher_is_killed(when: str, host: Host, tmp_path: Path) -> None:
    """Over SSH, between two runs and within one."""
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    program = LAUNCHER.replace("HOST", repr(host))
    words = [sys.executable, "-c", program, str(tmp_path), when]
    with subprocess.Popen(
        words, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as launcher:
        assert launcher.stdout
        server = psutil.Process(int(launcher.stdout.readline()))
        assert server.name() == NAME
        left = [server, *server.children(recursive=True)]
        assert len(left) == (1 if when == "between" else 5)  # with follower, guard, agent, rank
        launcher.kill()
    wait(lambda: not any(runs(process.pid) for process in left), "no process is left")


def test_a_server_without_a_run_ends_although_its_launcher_is_there() -> None:
    program = (
        "from training import fork_server; fork_server.PATIENCE = 1; "
        "fork_server.serve(code_changed=False, imports_torch=False)"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE) as server:
        assert server.wait() == -signal.SIGALRM
