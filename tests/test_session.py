"""A session whose hosts are acted out: agents that die between the phases, never answer, or are slow to let go."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from queue import SimpleQueue

import pytest
from agents import wait_for

from remote.hosts import Host
from remote.plan import Plan
from remote.recorder import Recorder
from remote.run import HostPhase, RunState, Verdict
from remote.session import Session
from remote.transport import Agent, Progress
from training import commands
from training.codec import dumps
from training.commands import Close, Command, Lease, Reserve, Start, Stop
from training.events import (
    PREFIX,
    Ended,
    Event,
    Exited,
    Finished,
    Hello,
    HostSample,
    Record,
    Reserved,
    Spawned,
    Text,
    encode,
    to_object,
)
from training.job import Job

HELLO = Hello("h", "u", 1, "3.11", "/usr/bin/python3", "Linux", "boot", 2.0, 1, torch="2", route_address="127.0.0.1")
DIED = Ended("the agent died: SIGKILL", died=True)
Part = Callable[["ActedLine", Command | None], None]


class ActedLine:
    """The line to an agent that is played by `part`: called with each command, and with None at first."""

    def __init__(self, host: int, part: Part, release: threading.Event) -> None:
        self.host, self._part, self._release = host, part, release
        self.commands: list[Command] = []
        self.was_let_go = True
        self._seq = 0
        self._said: SimpleQueue[bytes] = SimpleQueue()
        part(self, None)

    def say(self, *events: Event) -> None:
        for event in events:
            self._seq += 1
            self._said.put(encode(Record(self.host, 0, self._seq, time.time(), event)).encode())

    def read(self) -> bytes:
        return self._said.get()

    def write(self, data: bytes) -> None:
        command = commands.decode(data)
        assert command is not None
        self.commands.append(command)
        self._part(self, command)

    def close(self) -> str:
        self.was_let_go &= self._release.wait(5)
        self._said.put(b"")
        return ""


class Stage:
    """A transport to hosts that play these parts. A line is let go once `release` is set, which it is from the start."""

    def __init__(self, *parts: Part | Exception) -> None:
        self._parts = parts
        self.lines: dict[int, ActedLine] = {}
        self.release = threading.Event()
        self.release.set()

    def open(self, host: Host, agent: Agent, progress: Progress) -> ActedLine:
        part = self._parts[agent.host]
        if isinstance(part, Exception):
            raise part
        self.lines[agent.host] = ActedLine(agent.host, part, self.release)
        return self.lines[agent.host]

    def session(self, folder: Path) -> Session:
        hosts = tuple(Host(f"node{number}", f"127.0.0.{number}") for number in range(1, len(self._parts) + 1))
        plan = Plan("a-run", hosts, Job())
        return Session(plan, self, Recorder(folder, plan))

    def act(self, folder: Path) -> RunState:
        """What became of the run, from start to end."""
        return ended(self.session(folder))


def ended(session: Session) -> RunState:
    """The state once all batches have come; fails where that takes too long."""
    errors: list[BaseException] = []

    def listen() -> None:
        try:
            for _ in session.batches():
                pass
        except BaseException as error:  # noqa: BLE001 - raised below
            errors.append(error)

    thread = threading.Thread(target=listen, daemon=True)
    thread.start()
    thread.join(20)
    assert not thread.is_alive(), "the session hangs"
    if errors:
        raise errors[0]
    return session.state


def trains(line: ActedLine, command: Command | None) -> None:
    """An agent whose ranks train until they are stopped."""
    match command:
        case None:
            line.say(HELLO)
        case Reserve(address):
            line.say(Reserved(address, 29_500))
        case Start(placements=placements):
            line.say(*(Spawned(placement.rank, 1) for placement in placements))
        case Stop():
            line.say(Exited(line.host, -15, "SIGTERM", stopped=True))
        case Close():
            line.say(Ended("closed"))


def finishes(line: ActedLine, command: Command | None) -> None:
    """An agent whose rank finishes at once."""
    trains(line, command)
    if isinstance(command, Start):
        done = PREFIX + dumps(to_object(Finished(line.host, 1, 1, 1.0)))
        line.say(Text(line.host, "stdout", done), Exited(line.host, 0))


def dies_at_once(line: ActedLine, command: Command | None) -> None:
    """An agent that is killed just after its Hello."""
    trains(line, command)
    if command is None:
        line.say(DIED)


def dies_at_reserve(line: ActedLine, command: Command | None) -> None:
    """An agent that is killed when it is asked for a port."""
    if isinstance(command, Reserve):
        line.say(DIED)
    else:
        trains(line, command)


def reserves_never(line: ActedLine, command: Command | None) -> None:
    """An agent that lives but does not answer."""
    if not isinstance(command, Reserve):
        trains(line, command)


def exits_early(line: ActedLine, command: Command | None) -> None:
    """An agent whose rank exits well before its last step."""
    if isinstance(command, Start):
        line.say(Exited(line.host, 0))
    elif not isinstance(command, Stop):  # there is nothing to stop
        trains(line, command)


def test_a_run_that_finishes(tmp_path: Path) -> None:
    assert Stage(finishes, finishes).act(tmp_path).verdict is Verdict.FINISHED


@pytest.mark.parametrize(
    ("parts", "culprit"),
    [((dies_at_once, trains), "node1"), ((trains, dies_at_once), "node2"), ((dies_at_reserve, trains), "node1")],
)
def test_an_agent_that_dies_before_the_start_ends_the_run(parts: tuple[Part, ...], culprit: str, tmp_path: Path) -> None:
    stage = Stage(*parts)
    state = stage.act(tmp_path)
    assert state.verdict is Verdict.LOST
    assert state.cause is not None
    assert state.cause.host == culprit
    assert not any(isinstance(command, Start) for line in stage.lines.values() for command in line.commands)


def test_a_mistake_of_a_transport_is_told(tmp_path: Path) -> None:
    state = Stage(trains, ValueError("no such luck")).act(tmp_path)
    assert state.verdict is Verdict.LOST
    assert state.cause is not None
    assert "ValueError('no such luck')" in state.cause.text()


def test_a_rank_that_exits_before_its_last_step_stops_the_others(tmp_path: Path) -> None:
    state = Stage(trains, exits_early).act(tmp_path)
    assert state.verdict is Verdict.FAILED
    assert state.cause is not None
    assert state.cause.text() == "node2, rank 1: exit code 0 before its last step"


def test_an_agent_that_does_not_answer_can_be_stopped(tmp_path: Path) -> None:
    session = Stage(reserves_never, trains).session(tmp_path)
    session.stop()
    assert ended(session).verdict is Verdict.STOPPED


def test_a_line_that_is_slow_to_close_holds_up_nobody(tmp_path: Path) -> None:
    stage = Stage(finishes, finishes)
    stage.release.clear()
    session = stage.session(tmp_path)
    for _ in session.batches():
        if all(host.phase is HostPhase.ENDED for host in session.state.hosts):
            stage.release.set()  # before that, nobody's line can be closed
    assert all(line.was_let_go for line in stage.lines.values())
    assert session.state.verdict is Verdict.FINISHED


def test_the_operator_is_there_while_nobody_reads(tmp_path: Path) -> None:
    """Somebody who reads the output in a pager takes no batches, but has not gone."""
    stage = Stage(trains)
    session = stage.session(tmp_path)
    batches = session.batches()
    while not session.state.ranks[0].pid:
        next(batches)
    held = leases(stage)
    wait_for(lambda: leases(stage) > held + 1, "leases go on")
    session.stop()
    for _ in batches:
        continue
    assert session.state.verdict is Verdict.STOPPED
    after = leases(stage)
    assert not any(thread.name == "lease" for thread in threading.enumerate())
    assert leases(stage) == after


def test_what_has_come_counts_though_nobody_read_it_for_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first look at the clock after a pause must not take for lost what only waits in the queue."""
    monkeypatch.setattr("remote.session.LOST", 0.5)
    monkeypatch.setattr("remote.session.BATCH", 1)
    stage = Stage(trains, trains)
    session = stage.session(tmp_path)
    batches = session.batches()
    while not all(rank.pid for rank in session.state.ranks):
        next(batches)
    heard = time.monotonic()
    wait_for(lambda: time.monotonic() > heard + 0.6, "a pause longer than LOST")
    for _ in range(5):
        for line in stage.lines.values():
            line.say(HostSample((), 1, 1))
    wait_for(lambda: session._queue.qsize() >= 10, "the samples have come")
    session.stop()
    for _ in batches:
        continue
    assert [host.gone for host in session.state.hosts] == [False, False]


def never_ends(line: ActedLine, command: Command | None) -> None:
    """An agent that does not obey any more."""
    if not isinstance(command, (Stop, Close)):
        trains(line, command)


def test_only_the_host_that_does_not_end_is_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("remote.session.CLOSING", 0.3)
    session = Stage(trains, never_ends).session(tmp_path)
    batches = session.batches()
    while not all(rank.pid for rank in session.state.ranks):
        next(batches)
    session.stop()
    for _ in batches:
        continue
    assert [host.gone for host in session.state.hosts] == [False, True]
    assert session.state.hosts[0].phase is HostPhase.ENDED
    assert session.state.hosts[1].reason == "node2: did not end within 0.3 s"


def leases(stage: Stage) -> int:
    return sum(isinstance(command, Lease) for line in stage.lines.values() for command in line.commands)
