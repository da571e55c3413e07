"""Commands in this process: what they print, what they would have shown, and whom they reach."""

from __future__ import annotations

import inspect
import io
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from remote.cluster.hosts import Cluster
from remote.host_commands.kept_plan import KeptPlan
from remote.launch import Launcher
from remote.session.session import Session
from remote.transport import Transport
from tui.app.show_run import LineOptions
from tui.commands import cli
from tui.flags import recorded, which_run
from tui.kit.exit import write_mistakes_as_json


@dataclass
class Done:
    """What a command has printed, and its exit code."""

    returncode: int
    stdout: str
    stderr: str


def call_rankboard(*words: str, stdin: str = "", **environment: str) -> Done:
    """Call `rankboard` with these words in this process."""
    stdout = io.StringIO()
    stderr = io.StringIO()
    code: object = 0
    with (
        redirect_stdout(stdout),
        redirect_stderr(stderr),
        patch.object(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin.encode()))),
        patch.dict(os.environ, environment),
    ):
        try:
            cli.call(words)
        except SystemExit as end:
            code = end.code or 0
        finally:
            write_mistakes_as_json(False)  # as in a process of its own
    assert isinstance(code, int)
    return Done(code, stdout.getvalue(), stderr.getvalue())


def call_command(command: Callable[..., None], **flags: object) -> None:
    """Call a command with its parameters by name, also those that are positional."""
    positional = []
    for name, parameter in inspect.signature(command).parameters.items():
        if parameter.kind is parameter.POSITIONAL_ONLY and name in flags:
            positional.append(flags.pop(name))
    command(*positional, **flags)


@pytest.fixture
def run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., Done]:
    """Runs a command in the test's folder, in this process."""
    monkeypatch.chdir(tmp_path)

    def run(command: Callable[..., None], **flags: object) -> Done:
        code = 0
        try:
            call_command(command, runs_dir=Path("runs"), **flags)
        except SystemExit as error:
            code = error.code or 0  # a bare SystemExit has none
        return Done(code, *capsys.readouterr())

    return run


def plan_on_hosts(transport: Transport, cluster: Cluster, run: str) -> KeptPlan:
    """What a command finds of a run of which nothing is recorded here, on these hosts."""
    with patch.object(which_run, "load", lambda *_: cluster):
        return recorded.find_kept(transport, run, Path("hosts.toml"), Path("no-runs"))


NOWHERE: Any = None
"""A transport that nobody uses."""


@dataclass
class Watched:
    """What a command would have shown: sessions, and how they were begun."""

    launchers: list[Launcher] = field(default_factory=list)
    sessions: list[Session] = field(default_factory=list)

    def __call__(
        self,
        launcher: Launcher,
        session: Session,
        lines: LineOptions | None,
    ) -> int:
        self.launchers.append(launcher)
        self.sessions.append(session)
        return 42


def watching(watch: Watched, command: Callable[..., None]) -> Callable[..., None]:
    """The command, which shows its session to `watch`."""

    def watched(**flags: object) -> None:
        with patch("tui.app.show_run.watch", watch), patch("tui.app.show_run.check_terminal"):
            call_command(command, **flags)

    return watched


@pytest.fixture
def over(monkeypatch: pytest.MonkeyPatch) -> Callable[[Transport], None]:
    """Have the commands reach hosts by this transport."""

    def over(transport: Transport) -> None:
        monkeypatch.setattr(recorded, "Transports", lambda: transport)

    return over


RECORDING = """
import signal, time
from pathlib import Path
from remote.cluster.hosts import Host
from remote.plan.plan import Plan
from remote.record.write import Recorder
from remote.run.run_state import RunState
from remote.events import SessionClosed, Stopping
from training.wire.records import SESSION, Record
from training.job import Job
plan = Plan("a-run", (Host("node1", "127.0.0.1"),), Job())
recorder = Recorder(Path("runs"), plan)
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1, signal.SIGQUIT})
print("up", flush=True)
number = signal.sigwait({signal.SIGUSR1, signal.SIGQUIT})
"""


OBEYING = """
stopping = Stopping(f"{signal.Signals(number).name} came", True)
for seq, event in enumerate((stopping, SessionClosed()), 1):
    recorder.write(Record(SESSION, 0, seq, float(seq), event))
recorder.close(RunState(plan))
"""


@contextmanager
def recording(folder: Path, then: str) -> Iterator[int]:
    """A process that records a-run, and does this when it is told to stop."""
    words = [sys.executable, "-c", RECORDING + then, "rankboard"]
    with subprocess.Popen(words, cwd=folder, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout
            assert process.stdout.readline() == b"up\n"
            yield process.pid
        finally:
            process.kill()
