"""`rankboard wait`: until when it waits, what it says of the end, and its exit code."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from remote.plan.plan import Policy
from remote.transport import Transport
from tests.kit.commands import OBEYING, Done, recording
from tests.kit.histories import History, plan
from tests.kit.journals import Hosts
from tests.kit.recorded import recorded
from tests.kit.stage import all_run, trains, until
from training.wire.enums import EndReason
from training.wire.host_events import AgentEnded, Exited
from training.wire.rank_events import Finished
from tui.commands.wait import wait


@pytest.fixture(autouse=True)
def signals() -> Iterator[None]:
    """A run that is followed takes signals, until the command ends."""
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1)
    before = {number: signal.getsignal(number) for number in numbers}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def test_a_run_that_has_ended_is_not_waited_for(run: Callable[..., Done], tmp_path: Path) -> None:
    history = History(plan(2)).training(2).done(0, 1).ended()
    recorded(tmp_path / "runs", history)
    done = run(wait, run="last")
    (line,) = done.stdout.splitlines()
    assert done.returncode == 0
    assert line.startswith(f"{history.plan.run}: finished in ")


def test_the_line_of_a_failed_run_has_the_cause(run: Callable[..., Done], tmp_path: Path) -> None:
    history = History(plan(2)).training(2)
    history.rank(1, Exited(1, -9, "SIGKILL")).rank(0, Exited(0, 1)).ended()
    recorded(tmp_path / "runs", history)
    done = run(wait, run="last")
    (line,) = done.stdout.splitlines()
    assert done.returncode == 1
    assert line.startswith(f"{history.plan.run}: failed after ")
    assert "node2, rank 1: killed by SIGKILL" in line


def test_a_run_that_another_launcher_leads_is_waited_for(
    run: Callable[..., Done], tmp_path: Path
) -> None:
    with recording(tmp_path, OBEYING) as pid:
        early = run(wait, run="a-run", timeout=0.0)
        assert (early.returncode, early.stdout) == (124, "")
        os.kill(pid, signal.SIGUSR1)
        done = run(wait, run="a-run")
    assert (done.returncode, done.stdout) == (130, "a-run: stopped after 1 s: SIGUSR1 came\n")


def left(folder: Path) -> Hosts:
    """The hosts of a run that was left, and goes on."""
    stage = Hosts(trains, trains)
    session = stage.session(folder, Policy(keep=True))
    batches = session.batches()
    until(session, batches, lambda: all_run(session))
    session.detach()
    for _ in batches:
        continue
    return stage


def test_a_detached_run_is_followed_until_its_end(
    run: Callable[..., Done], over: Callable[[Transport], None], tmp_path: Path
) -> None:
    stage = left(tmp_path / "runs")
    over(stage)
    early = run(wait, run="a-run", timeout=0.5)
    assert (early.returncode, early.stdout) == (124, "")
    assert "a-run has not ended" in early.stderr
    for rank, line in stage.lines.items():
        line.say(
            Finished(rank, 1, 1, 1.0),
            Exited(rank, 0),
            AgentEnded(EndReason.ALL_ENDED),
        )
    done = run(wait, run="a-run")
    assert done.returncode == 0
    assert done.stdout.startswith("a-run: finished in ")


@pytest.mark.parametrize(
    ("number", "line"),
    [(signal.SIGINT, ""), (signal.SIGUSR1, "a-run: stopped after ")],
    ids=["left", "stopped"],
)
def test_a_run_that_is_followed_is_left_or_stopped(
    number: signal.Signals,
    line: str,
    run: Callable[..., Done],
    over: Callable[[Transport], None],
    tmp_path: Path,
) -> None:
    over(left(tmp_path / "runs"))
    before = signal.getsignal(number)

    def send_once_followed() -> None:
        while signal.getsignal(number) is before:
            time.sleep(0.01)
        os.kill(os.getpid(), number)

    thread = threading.Thread(target=send_once_followed)
    thread.start()
    done = run(wait, run="a-run")
    thread.join()
    assert done.returncode == 130
    assert done.stdout.startswith(line)
    assert bool(done.stdout) == bool(line)
    assert ("has not ended" in done.stderr) == (not line)
