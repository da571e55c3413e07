"""Programs of users that are not as one should be: the verdict, its cause and the advice are right,
and nothing is left."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from remote.cluster.hosts import Host
from remote.plan.plan import Plan, Script
from remote.record.write import Recorder
from remote.run.run_state import RunState
from remote.run.state.phases import Verdict
from remote.session.session import Session
from remote.transport.local import LocalTransport
from tests.kit.wait import wait
from training.wire.host_events import OutputText, Spawned

FORKS = "import os, time\nif os.fork() == 0: time.sleep(600)\n"
DAEMON = """
import os, time
if os.fork(): os._exit(0)
os.setsid()
if os.fork(): os._exit(0)
for descriptor in range(3): os.close(descriptor)
time.sleep(600)
"""
TITLED = """
import ctypes, signal, sys
ctypes.CDLL(None).prctl(15, b"kworker/0:1", 0, 0, 0)
print("titled", flush=True)
signal.pause()
"""
KILLS_ITS_PARENT = "import os, signal\nos.kill(os.getppid(), signal.SIGKILL)\nsignal.pause()\n"
CLOSES_STDOUT = "import os, sys\nprint('before', flush=True)\nos.close(1)\nsys.exit(3)\n"
ESCAPES = (
    r"print('\x1b]0;owned\x07\x1b[2J\x1b[31mred\x1b[0m \x1b]52;c;aGk=\x07\x1bP+q\x1b\\ \x9b31m.')"
)
MEGABYTES = 8
LONG = f"import os\nfor _ in range({MEGABYTES}): os.write(1, b'x' * (1 << 20))\n"
RAISES = """
import json, os
with open(os.environ["TORCHELASTIC_ERROR_FILE"], "w") as file:
    trace = "Traceback (most recent call last):\\n  File \\"x.py\\", line 1\\nValueError: bad batch"
    said = {"message": "ValueError: bad batch", "extraInfo": {"py_callstack": trace}}
    json.dump({"message": said}, file)
os.close(2)
os._exit(1)
"""


@dataclass
class Ran:
    """A run that has ended: its state, the pids of its ranks, and what they printed."""

    state: RunState
    pids: list[int]
    output: str

    @property
    def told(self) -> str:
        """The last words of its host."""
        return " ".join(self.state.hosts[0].tail)


Run = Callable[..., Ran]


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Run]:
    """Runs a program with one rank; afterwards nothing of it is there."""

    def run(program: str, *words: str, stop_at: str = "") -> Ran:
        (tmp_path / "x.py").write_text(program)
        host = Host("local", "127.0.0.1", python=sys.executable, workdir=str(tmp_path))
        plan = Plan("run", (host,), Script(words or ("x.py",), watch=False))
        session = Session(plan, LocalTransport(), Recorder(tmp_path / "runs", plan), str(tmp_path))
        ran = Ran(session.state, [], "")
        for records in session.batches():
            for event in (record.event for record in records):
                if isinstance(event, Spawned):
                    ran.pids.append(event.pid)
                if isinstance(event, OutputText) and event.rank == 0:
                    ran.output += event.text
            if stop_at and stop_at in ran.output:
                session.stop()
        return ran

    yield run
    wait(lambda: not any(_is_of(one, tmp_path) for one in psutil.process_iter()), "the end of all")


def _is_of(process: psutil.Process, folder: Path) -> bool:
    with contextlib.suppress(psutil.Error):
        return process.environ().get("RANKBOARD_FOLDER", "").startswith(str(folder))
    return False


def test_exits_without_a_step(run: Run) -> None:
    ran = run("print('hello')")
    assert (ran.state.verdict, ran.output) == (Verdict.FINISHED, "hello")


def test_needs_an_argument(run: Run) -> None:
    program = (
        "import argparse\np = argparse.ArgumentParser()\np.add_argument('--data', required=True)"
    )
    ran = run(f"{program}\np.parse_args()")
    assert ran.state.verdict is Verdict.FAILED
    assert ran.state.cause.problem == ("the following arguments are required: --data (exit code 2)")


@pytest.mark.parametrize("program", [FORKS, DAEMON])
def test_leaves_a_process_behind(program: str, run: Run) -> None:
    """It is killed, and the user hears of it."""
    ran = run(program)
    assert ran.state.verdict is Verdict.FINISHED
    assert "left a process behind, now killed" in ran.told


def test_closes_stdout(run: Run) -> None:
    ran = run(CLOSES_STDOUT)
    assert (ran.state.verdict, ran.output) == (Verdict.FAILED, "before")
    assert ran.state.cause.problem == "exit code 3"


def test_says_what_it_failed_of_in_its_error_file_alone(run: Run) -> None:
    ran = run(RAISES)
    assert ran.state.cause.problem == "ValueError: bad batch"


def test_prints_a_line_without_an_end(run: Run) -> None:
    ran = run(LONG)
    assert ran.state.verdict is Verdict.FINISHED
    assert len(ran.output) == MEGABYTES << 20
    assert max(len(line.text) for line in ran.state.log.since(0)) < 1 << 16


def test_prints_escape_codes_of_others(run: Run) -> None:
    """The terminal of who looks on gets none of them."""
    ran = run(ESCAPES)
    (line,) = [line.text for line in ran.state.log.since(0) if line.rank == 0]
    assert line.split() == ["red", "."]


def test_has_another_title(run: Run) -> None:
    ran = run(TITLED, stop_at="titled")
    assert ran.state.verdict is Verdict.STOPPED


def test_kills_its_parent(run: Run) -> None:
    ran = run(KILLS_ITS_PARENT)
    assert ran.state.verdict is Verdict.LOST
    assert "the agent died: SIGKILL" in ran.state.cause.text()
    assert "a program that kills its parent" in ran.state.cause.advice


def test_cannot_be_executed(run: Run) -> None:
    """Where its host was not checked before."""
    ran = run("", "./nothing")
    assert ran.state.verdict is Verdict.FAILED
    assert ran.state.cause.problem.startswith("cannot start ./nothing in ")
