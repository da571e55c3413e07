"""`rankboard stop`: what a launcher on this machine is told, and what becomes of its hosts."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from remote.cluster.hosts import Cluster, Host
from remote.events import HostLost, SessionClosed, Stopping
from remote.launch import Launcher
from remote.plan.plan import Plan
from remote.record.write import Recorder
from remote.session.session import Session
from remote.transport import Transport
from tests.kit.commands import (
    NOWHERE,
    OBEYING,
    Done,
    Watched,
    recording,
    watching,
)
from tests.kit.foreign_runs import records
from tests.kit.launches import IDLE, RANKBOARD, launch
from training.job import Job
from training.wire.enums import EndReason
from training.wire.events import SESSION
from training.wire.host_events import AgentEnded, Exited, Launched
from tui.app.show_run import LineOptions
from tui.commands.stop import stop
from tui.kit.exit import FAILED, STOPPED

FILE = Cluster("test", (Host("node1", "10.0.0.1"), Host("node2", "10.0.0.2")))
PLAN = Plan("a-run", FILE.hosts, Job())


DEAF = "time.sleep(600)"


@pytest.mark.parametrize(("now", "name"), [(False, "SIGUSR1"), (True, "SIGQUIT")])
def test_a_launcher_that_is_told_to_stop_is_waited_for(
    now: bool, name: str, run: Callable[..., Done], tmp_path: Path
) -> None:
    watched = Watched()
    with recording(tmp_path, OBEYING) as pid:
        done = run(watching(watched, stop), run="last", now=now)
    assert done.returncode == 0
    assert done.stderr.splitlines() == [
        f"rankboard: last is a-run, started here, live: its launcher is process {pid}",
        f"rankboard: asked the launcher of a-run, process {pid}, to stop it",
        f"rankboard: stopped after 1 s: {name} came",
    ]
    assert not watched.sessions


def test_a_program_gets_the_summary_of_the_run_that_it_stopped(
    run: Callable[..., Done], tmp_path: Path
) -> None:
    with recording(tmp_path, OBEYING):
        done = run(watching(Watched(), stop), run="a-run", json=True)
    assert done.returncode == 0
    summary = json.loads(done.stdout)
    assert (summary["event"], summary["run"], summary["verdict"]) == ("summary", "a-run", "stopped")


LOSING = """
from remote.events import HostLost
from training.wire.events import encode
from training.wire.host_events import Launched
recorder.raw(encode(Record(0, 0, 1, 0.5, Launched((0,)))).encode())
ends = Stopping("enough", True), HostLost(0, "node1: not heard", reached=True), SessionClosed()
for seq, event in enumerate(ends, 1):
    recorder.write(Record(SESSION, 0, seq, float(seq), event))
recorder.close(RunState(plan))
"""


def test_a_launcher_that_stopped_a_run_without_one_of_its_hosts_is_not_believed(
    run: Callable[..., Done], tmp_path: Path
) -> None:
    with recording(tmp_path, LOSING):
        done = run(watching(Watched(), stop), run="a-run")
    assert done.returncode == 3
    assert done.stderr.splitlines()[-2:] == [
        "rankboard: stopped after 2 s, except perhaps on node1: enough",
        "rankboard: ranks may still run on node1: once it answers, repeat rankboard stop a-run",
    ]


@pytest.mark.parametrize("verdict", [STOPPED, FAILED])
def test_stop_fails_as_long_as_a_host_has_not_confirmed(
    verdict: int,
    run: Callable[..., Done],
    over: Callable[[Transport], None],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    over(NOWHERE)

    def watch(_: Launcher, session: Session, __: LineOptions) -> int:
        session._recorder.release()
        return verdict

    monkeypatch.setattr("tui.app.show_run.watch", watch)
    recorder = Recorder(tmp_path / "runs", PLAN)
    recorder.release()
    told = [
        *((host, Launched((host,), (0, 1))) for host in (0, 1)),
        (SESSION, Stopping("enough", True)),
        (SESSION, HostLost(1, "node2: not heard", reached=True)),
        (0, Exited(0, -15, "SIGTERM", stopped=True)),
        (0, AgentEnded(EndReason.CLOSED)),
        (SESSION, SessionClosed()),
    ]
    (recorder.folder / "events.jsonl").write_text(records(told))
    done = run(stop, run="a-run")
    assert done.returncode == 3
    assert done.stderr == (
        "rankboard: ranks may still run on node2: once it answers, repeat rankboard stop a-run\n"
    )
    confirmed = [
        *told,
        (1, Exited(1, -15, "SIGTERM", stopped=True)),
        (1, AgentEnded(EndReason.CLOSED)),
    ]
    (recorder.folder / "events.jsonl").write_text(records(confirmed))
    assert run(stop, run="a-run").returncode == 0


def test_a_launcher_that_does_not_obey_is_named(
    run: Callable[..., Done], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tui.commands.stop.STOP_TIMEOUT", 0.3)
    with recording(tmp_path, DEAF) as pid:
        done = run(watching(Watched(), stop), run="a-run", now=True)
    assert done.returncode == 3
    assert done.stderr.endswith(
        f"rankboard: the launcher does not respond: end it with kill -9 {pid}, then repeat "
        "rankboard stop a-run\n"
    )


def test_what_a_launcher_has_left_behind_is_stopped_without_it(
    run: Callable[..., Done], over: Callable[[Transport], None], tmp_path: Path
) -> None:
    over(NOWHERE)
    watched = Watched()
    with recording(tmp_path, ""):
        assert run(watching(watched, stop), run="a-run").returncode == 42
    (session,) = watched.sessions
    assert not session._queue.empty(), "it is told to stop"
    session._recorder.release()


def test_a_run_is_stopped_at_once_from_another_terminal(tmp_path: Path) -> None:
    running = launch(tmp_path, "--local", "2", *IDLE)
    running.events("launched")
    words = [RANKBOARD, "stop", "last", "--now"]
    with subprocess.Popen(words, cwd=tmp_path, stderr=subprocess.PIPE, text=True) as stop:
        assert running.end(30) == 130  # which reads what it prints meanwhile
        _, said = stop.communicate()
    assert stop.returncode == 0, said
    assert "rankboard received SIGQUIT" in said
