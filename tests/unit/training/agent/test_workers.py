"""The workers of a rank: what the agent takes out of the text of its watch, and how they end."""

from __future__ import annotations

import os
import selectors
import subprocess
import sys
from collections.abc import Iterator

import pytest

from training.agent.host import processes
from training.agent.host.stacks import StackSubject
from training.agent.ranks.workers import Worker, Workers, describe_exit
from training.wire.events import PREFIX, WORKER, Event
from training.wire.host_events import OutputText, WorkerExited, WorkerJoined
from training.wire.jsonl import dumps


def message(**fields: object) -> str:
    return PREFIX + WORKER + dumps(fields)


@pytest.fixture
def child() -> Iterator[subprocess.Popen[bytes]]:
    """A process below this one, that waits until it is killed."""
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    yield process
    process.kill()
    process.communicate()


class Heard:
    """The workers of rank 3, whose program is this process, and what is reported of them."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.ends: list[tuple[Worker, int | None]] = []
        self.selector = selectors.DefaultSelector()
        self.workers = Workers(
            3, 4, self.selector, self.events.append, lambda *end: self.ends.append(end)
        )

    def take(self, *lines: str) -> OutputText | None:
        return self.workers.take(OutputText(3, "stdout", "\n".join(lines)), os.getpid())


def test_what_is_for_the_agent_is_taken_out_of_the_text() -> None:
    heard = Heard()
    rest = heard.take("one", message(joined=5, world_size=8, pid=os.getpid()), "two")
    assert rest == OutputText(3, "stdout", "one\ntwo")
    assert heard.events == [WorkerJoined(5, 3, 8, os.getpid())]
    assert heard.take(message(left=5, pid=os.getpid(), error="")) is None
    heard.workers.close()


def test_a_process_below_the_program_stands_in_for_it_while_it_lives(
    child: subprocess.Popen[bytes],
) -> None:
    heard = Heard()
    for pid, stand_in in ((os.getppid(), 0), (child.pid, child.pid)):
        assert heard.take(PREFIX + dumps({"stands_in": 3, "pid": pid})) is None
        assert heard.workers.stand_in == stand_in
    child.kill()
    child.wait()
    assert heard.workers.stand_in == 0
    assert heard.events == []


@pytest.mark.parametrize(
    "fields",
    [
        {"joined": 5, "world_size": 8, "pid": os.getppid()},  # not below the program
        {"joined": 8, "world_size": 8, "pid": os.getpid()},
        {"joined": -1, "world_size": 8, "pid": os.getpid()},
        {"joined": 0, "world_size": 10**9, "pid": os.getpid()},
        {"joined": "5", "world_size": 8, "pid": os.getpid()},
        {"joined": 5, "world_size": 8, "pid": "1"},
        {"joined": 5},
        {"left": 5, "pid": 1},
    ],
)
def test_a_message_that_cannot_be_is_of_nobody(fields: dict[str, object]) -> None:
    heard = Heard()
    assert heard.take(message(**fields)) is None
    assert heard.take(PREFIX + WORKER + '{"joined":') is None
    assert heard.events == []


def test_a_killed_worker_is_noticed_with_its_signal(child: subprocess.Popen[bytes]) -> None:
    heard = Heard()
    heard.take(message(joined=5, world_size=8, pid=child.pid))
    heard.workers.look()
    assert heard.ends == []
    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)  # gone, but not waited for
    for key, _ in heard.selector.select(10) if heard.selector.get_map() else ():
        key.data()
    heard.workers.look()
    ((worker, status),) = heard.ends
    assert heard.workers.live == []
    exited = describe_exit(worker, status)
    assert exited == WorkerExited(5, -9, "SIGKILL")


@pytest.mark.parametrize(
    ("siblings", "pythons", "late"),
    [
        ([71], [], {2: 71}),  # whatever it runs
        ([70, 71], [71], {2: 71}),  # a tee beside it
        ([70, 71], [70, 71], {2: 71}),  # a manager, which comes first
        ([], [], {}),
        ([70, 71], [], {}),
    ],
)
def test_stacks_are_asked_of_workers_that_have_not_joined_yet(
    monkeypatch: pytest.MonkeyPatch, siblings: list[int], pythons: list[int], late: dict[int, int]
) -> None:
    """Process 1 of 2 has the ranks 2 and 3 of a group of 4. Rank 3 has joined."""
    selector = selectors.DefaultSelector()
    workers = Workers(1, 2, selector, lambda _: None, lambda *_: None)
    own = os.getpid()
    workers.take(OutputText(1, "stdout", message(joined=3, world_size=4, pid=own)), own)
    monkeypatch.setattr(processes, "list_children", {own: siblings}.__getitem__)
    monkeypatch.setattr("training.agent.ranks.workers.state_letter", lambda _: "S")
    monkeypatch.setattr("training.agent.ranks.workers.can_report", pythons.__contains__)
    subjects = [StackSubject(rank, pid, True) for rank, pid in ({3: own} | late).items()]
    assert workers.list_subjects(own) == subjects
    workers.close()


def test_who_has_said_how_it_ends_needs_no_exit_code() -> None:
    for error, code, is_known in ((None, 0, False), ("", 0, True), ("ValueError", 1, True)):
        exited = describe_exit(Worker(5, 1, error=error), None)
        assert (exited.code, exited.known, exited.error) == (code, is_known, error or "")
