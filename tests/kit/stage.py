"""A transport to scripted hosts whose parts are played at once, and sessions over it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from queue import SimpleQueue

import pytest

from remote.cluster.hosts import Host
from remote.plan.plan import Plan, Policy
from remote.record.events_file import read_records as read
from remote.record.write import Recorder
from remote.run.run_state import RunState
from remote.session.session import Session
from remote.session.times import TIMES, Times
from remote.transport import AgentCommand, Program, ReachProgress, Unreachable
from remote.transport.failure import Failure, FailureCause
from tests.kit.scripted_hosts import End, Part, Player
from tests.kit.wait import GUARD, looks
from training.job import Job
from training.wire.commands import (
    Close,
    Command,
    Connect,
    Lease,
    Reserve,
    StartAttempt,
    Stop,
)
from training.wire.enums import EndReason
from training.wire.events import PREFIX, Record, to_object
from training.wire.host_events import (
    AgentEnded,
    Connected,
    Exited,
    Hello,
    HostSample,
    Launched,
    OutputText,
    Reserved,
    Spawned,
)
from training.wire.jsonl import dumps
from training.wire.rank_events import Finished

HELLO = Hello(
    "h",
    "u",
    1,
    "3.11",
    "/usr/bin/python3",
    "Linux",
    "boot",
    2.0,
    1,
    torch="2",
    route_address="127.0.0.1",
)


DIED = AgentEnded(EndReason.AGENT_DIED, "SIGKILL")


class _ToLauncher:
    """The host's end of a `DirectLine`: what is sent is read from a queue, and nothing is received,
    as commands are played where they are written."""

    def __init__(self) -> None:
        self.sent: SimpleQueue[bytes] = SimpleQueue()

    def sendall(self, data: bytes) -> None:
        self.sent.put(data)

    def recv(self, size: int) -> bytes:
        raise NotImplementedError

    def close(self) -> None:
        self.sent.put(b"")


class DirectLine:
    """The launcher's end of a connection whose commands are played at once, in its own thread."""

    def __init__(self, stage: Stage, player: Player, part: Part, program: AgentCommand) -> None:
        self._stage = stage
        self._part = part
        self._channel = _ToLauncher()
        self.end = End(player, program.argv(), self._channel)
        self.end.catch_up()
        if not player.journal:
            part(self.end, None)

    def read(self) -> bytes:
        return self._channel.sent.get()

    def write(self, data: bytes) -> None:
        command = self.end.receive(data)
        assert command is not None
        self._part(self.end, command)

    def close(self) -> str:
        self._stage.were_let_go &= self._stage.release.wait(5)
        self._channel.close()
        return ""


def hasten(
    monkeypatch: pytest.MonkeyPatch, stall_least: float | None = None, **seconds: float
) -> None:
    """Have the sessions of the test take less time."""
    times: Times = replace(Stage.times, **seconds)  # type: ignore[arg-type]
    if stall_least is not None:
        times = replace(times, stall=replace(times.stall, least=stall_least))
    monkeypatch.setattr(Stage, "times", times)


def _never(_: End) -> None:
    raise AssertionError("the parts of a stage are played by `DirectLine`")


class Stage:
    """A transport to hosts that play these parts. A line is let go once `release` is set, which it
    is from the start."""

    times: Times = replace(TIMES, lease=0.2, evidence=0.2, retry=0.1)
    """As the real ones, but sooner."""

    def __init__(self, *parts: Part | Exception) -> None:
        self._parts = parts
        self.players = [Player(number, play=_never) for number in range(len(parts))]
        self.opened: list[tuple[int, int]] = []
        """The host of each line, and the number of the last record that was known then."""
        self.gone = False
        """Whether new lines end at once."""
        self.ways = threading.Event()
        """Whether hosts can be reached, or take for ever."""
        self.ways.set()
        self.refuses: set[int] = set()
        """Hosts to which no new line comes to be."""
        self.release = threading.Event()
        self.release.set()
        self.were_let_go = True

    @property
    def lines(self) -> dict[int, End]:
        """The newest line to each host, as the host sees it."""
        return {player.number: player.ends[-1] for player in self.players if player.ends}

    @property
    def journals(self) -> dict[int, list[bytes]]:
        return {player.number: player.journal for player in self.players}

    def open(self, _: Host, program: Program, progress: ReachProgress) -> DirectLine:
        assert isinstance(program, AgentCommand)
        part, host = self._parts[program.host], program.host
        progress.phase("connecting")
        self.ways.wait()
        if isinstance(part, Exception):
            raise part
        if host in self.refuses:
            raise Unreachable("node1", Failure(FailureCause.REFUSED, "connection refused"))
        self.opened.append((host, program.after))
        line = DirectLine(self, self.players[host], part, program)
        if self.gone:
            line.end.drop()
        return line

    def session(self, folder: Path, policy: Policy = Policy()) -> Session:  # noqa: B008
        plan = self.plan(policy)
        return Session(plan, self, Recorder(folder, plan), times=self.times)

    def plan(self, policy: Policy = Policy()) -> Plan:  # noqa: B008
        hosts = tuple(
            Host(f"node{number}", f"127.0.0.{number}") for number in range(1, len(self._parts) + 1)
        )
        return Plan("a-run", hosts, Job(), policy)

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
    thread.join(GUARD)
    assert not thread.is_alive(), "the session hangs"
    if errors:
        raise errors[0]
    return session.state


def trains(line: End, command: Command | None) -> None:
    """An agent whose ranks train until they are stopped."""
    match command:
        case None:
            line.say(HELLO)
        case Reserve(address):
            line.say(Reserved(address, 29_500 + line.host))
        case Connect(targets):
            line.say(*(Connected(*target, 0.001) for target in targets))
        case StartAttempt(placements=placements, hosts=hosts):
            line.say(Launched(tuple(placement.rank for placement in placements), hosts))
            line.say(*(Spawned(placement.rank, 1) for placement in placements))
        case Stop() if line.runs:
            line.say(Exited(line.rank, -15, "SIGTERM", stopped=True))
        case Close():
            line.say(AgentEnded(EndReason.CLOSED))


def finishes(line: End, command: Command | None) -> None:
    """An agent whose rank finishes at once."""
    trains(line, command)
    if isinstance(command, StartAttempt):
        done = PREFIX + dumps(to_object(Finished(line.host, 1, 1, 1.0)))
        line.say(OutputText(line.host, "stdout", done), Exited(line.host, 0))


def until(session: Session, batches: Iterator[list[Record]], condition: Callable[[], bool]) -> None:
    """Take batches until the condition holds."""
    for _ in looks("what the session is to come to"):
        if condition():
            return
        next(batches)


def all_run(session: Session) -> bool:
    return all(rank.pid for rank in session.state.ranks)


def recorded(folder: Path) -> list[Record]:
    return list(read(folder / "a-run"))


def running(
    stage: Stage,
    folder: Path,
    policy: Policy = Policy(),  # noqa: B008
) -> tuple[Session, Iterator[list[Record]]]:
    """A session whose ranks run, and the batches that are still to come."""
    session = stage.session(folder, policy)
    batches = session.batches()
    until(session, batches, lambda: all_run(session))
    return session, batches


def to_the_end(batches: Iterator[list[Record]]) -> None:
    """Take all that is still to come."""
    for _ in batches:
        continue


def samples(line: End, command: Command | None) -> None:
    """An agent that gives a sign of life at each lease."""
    trains(line, command)
    if isinstance(command, Lease):
        line.say(HostSample((), 1, 1))


def come_back(stage: Stage, folder: Path, policy: Policy) -> Session:
    plan = stage.plan(policy)
    session = Session(plan, stage, Recorder(folder, plan, continues=True), times=stage.times)
    session.catch_up(recorded(folder))
    return session


def from_elsewhere(stage: Stage, folder: Path, policy: Policy) -> Session:
    """A session that comes back where nothing is recorded of the run."""
    plan = stage.plan(policy)
    session = Session(plan, stage, Recorder(folder / "elsewhere", plan), times=stage.times)
    session.catch_up(())
    return session


def waits_once(line: End, command: Command | None) -> None:
    """An agent whose rank trains until it is stopped in the first attempt, and finishes in the
    second."""
    if isinstance(command, StartAttempt) and command.attempt == 0:
        trains(line, command)
    else:
        finishes(line, command)


def loses_its_agent(line: End, command: Command | None) -> None:
    """An agent that is killed once its rank runs."""
    trains(line, command)
    if isinstance(command, StartAttempt):
        line.say(Exited(line.host, -9, "SIGKILL", stopped=True), DIED)
