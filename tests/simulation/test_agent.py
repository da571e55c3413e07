"""The simulated agent does what the real one does: the same commands lead to the same records."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import pytest

from remote.plan.plan import Plan, Policy
from tests.kit.agents import Follower, python
from tests.kit.agents import Host as RealHost
from tests.kit.histories import plan
from tests.simulation.agent import Socket
from tests.simulation.host import Host
from tests.simulation.patches import simulated
from tests.simulation.process import Process
from tests.simulation.scenario import Scenario
from tests.simulation.world import World
from training.agent.options import AgentOptions
from training.wire import commands
from training.wire.commands import (
    Close,
    Command,
    Keep,
    OnDisconnect,
    Placement,
    Reserve,
    StartAttempt,
    Stop,
)
from training.wire.events import Event, decode
from training.wire.host_events import (
    AgentEnded,
    Connected,
    Exited,
    Hello,
    HostSample,
    OutputText,
    RankSample,
    Reserved,
    Spawned,
)

ENDS_WELL = "pass"
FAILS = "import sys; sys.exit(3)"
IS_KILLED = "import os; os.kill(os.getpid(), 11)"
SLEEPS = "import time; print('up', flush=True); time.sleep(600)"
STAYS = (
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); "
    "time.sleep(600)"
)


@dataclass(frozen=True)
class Until:
    """Wait until so many events of a kind are there."""

    kind: type[Event]
    count: int = 1


Step = Command | Until


def start(attempt: int, *programs: str, again: bool = False) -> StartAttempt:
    """Start ranks with these programs."""
    placements = tuple(python(code, rank) for rank, code in enumerate(programs))
    return StartAttempt(attempt, False, placements, (3,), again)


SCRIPTS: dict[str, tuple[Step, ...]] = {
    "nothing is started": (Until(Hello), Close(), Until(AgentEnded)),
    "a port and a plan": (
        Reserve("127.0.0.1", 0),
        Until(Reserved),
        Reserve("127.0.0.1", 0),
        Until(Reserved, 2),
        Keep("plan.json", "{}"),
        Close(),
        Until(AgentEnded),
    ),
    "a rank ends well": (start(0, ENDS_WELL), Until(Exited), Close(), Until(AgentEnded)),
    "a rank fails": (start(0, FAILS), Until(Exited), Close(), Until(AgentEnded)),
    "a rank is killed": (start(0, IS_KILLED), Until(Exited), Close(), Until(AgentEnded)),
    "a rank is stopped": (
        start(0, SLEEPS),
        Until(OutputText),
        Stop(5.0),
        Until(Exited),
        Close(),
        Until(AgentEnded),
    ),
    "a rank outlives TERM": (
        start(0, STAYS),
        Until(OutputText),
        Stop(0.2, by_person=True),
        Until(Exited),
        Close(),
        Until(AgentEnded),
    ),
    "an attempt is started twice": (
        start(0, FAILS),
        Until(Exited),
        start(0, FAILS),
        start(1, ENDS_WELL),
        Until(Exited, 2),
        Close(),
        Until(AgentEnded),
    ),
    "an attempt is started too early": (
        start(0, SLEEPS),
        Until(OutputText),
        start(1, SLEEPS),
        Until(OutputText, 2),
        Stop(5.0),
        Until(Exited),
        Close(),
        Until(AgentEnded),
    ),
    "closed while a rank runs": (
        OnDisconnect(True),
        start(0, SLEEPS),
        Until(OutputText),
        Close(),
        Until(AgentEnded),
    ),
}


class Agent(Protocol):
    """An agent that gets commands; `events` are what it has recorded."""

    def send(self, command: Command) -> None: ...
    def wait(self, until: Until) -> None: ...
    def events(self) -> Sequence[Event]: ...


class Real:
    """A real agent, through its follower."""

    def __init__(self, follower: Follower) -> None:
        self._follower = follower

    def send(self, command: Command) -> None:
        self._follower.send(command)

    def wait(self, until: Until) -> None:
        self._follower.wait_for(until.kind, until.count)

    def events(self) -> Sequence[Event]:
        return [record.event for record in self._follower.records]


class ScriptedHost(Host):
    """A host whose ranks do what their programs say."""

    def spawn(self, placement: Placement, pipes: object, attempt: int) -> Process:
        process = self._add(placement.rank, attempt, pipes)
        act: dict[str, Callable[[], None]] = {
            ENDS_WELL: lambda: process.exit(0),
            FAILS: lambda: process.exit(3 << 8),
            IS_KILLED: lambda: process.exit(11),
            SLEEPS: lambda: process.print(0, "up"),
            STAYS: lambda: process.print(0, "up"),
        }
        process.ignores_term = placement.argv[2] == STAYS
        process.then(0.05, act[placement.argv[2]])
        return process


class Simulated:
    """A simulated agent, with a follower's socket."""

    def __init__(self, plan: Plan) -> None:
        world = self._world = World(Scenario(0, plan, 1, 1.0, 1 << 20, (0.0,) * 4, ()))
        self._host = ScriptedHost(world, 3, world.agent_times, 1 << 20, world.draw)
        world.hosts[3] = self._host
        self._socket = Socket(lambda: None)
        self._host.found(AgentOptions("", plan.run, 3))
        agent, socket = self._host.agent, self._socket
        assert agent
        self._host.stir(lambda: agent.accept(socket))

    def send(self, command: Command) -> None:
        if isinstance(command, Stop):
            self._world.checks.watch_stop(self._host, command, meant=1)
        self._socket.inbox += commands.encode(command)
        if agent := self._host.agent:
            self._host.stir(lambda: agent.receive(self._socket))

    def wait(self, until: Until) -> None:
        def is_there() -> bool:
            return sum(isinstance(one, until.kind) for one in self.events()) >= until.count

        self._world.loop.run(self._world.loop.now + 60.0, is_there)
        assert is_there(), f"{until} in {self.events()}"

    def events(self) -> Sequence[Event]:
        lines = self._world.checks.read_journal(self._host).values()
        return [record.event for line in lines if (record := decode(line))]


@pytest.mark.parametrize("name", SCRIPTS)
def test_the_simulated_agent_does_what_the_real_one_does(name: str, host: RealHost) -> None:
    """Times, pids and samples aside."""
    real = play(Real(host.follow()), SCRIPTS[name])
    with simulated():
        assert (
            play(Simulated(replace(plan(4), policy=Policy(max_restarts=1))), SCRIPTS[name]) == real
        )


def play(agent: Agent, script: Sequence[Step]) -> list[Event]:
    """What the agent records when it gets these commands."""
    for step in script:
        if isinstance(step, Until):
            agent.wait(step)
        else:
            agent.send(step)
    return [shown for event in agent.events() if (shown := plain(event))]


def plain(event: Event) -> Event | None:
    """The event without what differs from host to host; None for samples and facts."""
    match event:
        case Hello() | HostSample() | RankSample():
            return None
        case Spawned():
            return replace(event, pid=0)
        case Reserved():
            return replace(event, port=0)
        case Connected():
            return replace(event, seconds=0.0)
    return event
