"""What may go wrong in a simulation. Each fault begins at a time after the start, and is over after
`lasts` seconds."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, ClassVar

from tests.simulation.process import TRACEBACK, Process

if TYPE_CHECKING:
    from remote.plan.plan import Plan
    from tests.simulation.world import World

OWN = f"{TRACEBACK}\nValueError: the labels are wrong"
OUTAGES = (0.1, 0.5, 2.0, 5.0, 9.0, 12.0, 15.0, 25.0, 45.0, 70.0, 150.0, 150.0)
"""Seconds for which links are down, processes stopped, launchers suspended."""
HOURS = 7200.0
"""How long some outages last."""


def _draw_outage(draw: Random) -> float:
    return HOURS if draw.random() < 0.02 else draw.choice(OUTAGES)


@dataclass(frozen=True, eq=False)
class Fault:
    """Base of all faults. `weight` is how often it is drawn."""

    at: float
    weight: ClassVar[float] = 1.0

    @property
    def over_at(self) -> float:
        """When it is over."""
        return self.at

    @classmethod
    def drawn(cls, draw: Random, at: float, plan: Plan) -> Fault:
        """One at random."""
        return cls(at)

    def act(self, world: World) -> None:
        """Have it happen."""
        raise NotImplementedError


@dataclass(frozen=True, eq=False)
class OnHost(Fault):
    """A fault of a host."""

    host: int

    @classmethod
    def drawn(cls, draw: Random, at: float, plan: Plan) -> Fault:
        return cls(at, draw.randrange(len(plan.hosts)))


@dataclass(frozen=True, eq=False)
class OnHostFor(OnHost):
    """A fault of a host that is over after some seconds."""

    lasts: float

    @property
    def over_at(self) -> float:
        return self.at + self.lasts

    @classmethod
    def drawn(cls, draw: Random, at: float, plan: Plan) -> Fault:
        return cls(at, draw.randrange(len(plan.hosts)), _draw_outage(draw))


class LinkDown(OnHostFor):
    """The link of one host is down."""

    weight = 3.0

    def act(self, world: World) -> None:
        world.blame("link", self.host, lasts=self.lasts)
        for machine in world.machines:
            machine.links[self.host].cut(self.lasts)


class LinkSlow(OnHostFor):
    """What goes over a host's link takes seconds."""

    def act(self, world: World) -> None:
        world.blame("slow", self.host)
        for machine in world.machines:
            link = machine.links[self.host]
            link.latency = world.draw.uniform(1.0, 8.0)
            world.loop.after(self.lasts, link.hurry)


class NetworkDown(OnHostFor):
    """The links of all hosts are down, for the first launcher's machine."""

    def act(self, world: World) -> None:
        for host, link in enumerate(world.machines[0].links):
            world.blame("link", host, lasts=self.lasts)
            link.cut(self.lasts)


class ConnectionsReset(OnHost):
    """All connections to a host break."""

    def act(self, world: World) -> None:
        world.blame("reset", self.host)
        for machine in world.machines:
            machine.links[self.host].reset()


class HostCrash(OnHost):
    """A host loses its power for good."""

    def act(self, world: World) -> None:
        world.blame("host", self.host)
        world.hosts[self.host].lose_power()


class HostRestarts(OnHostFor):
    """A host loses its power for some seconds."""

    def act(self, world: World) -> None:
        host = world.hosts[self.host]
        world.blame("host", self.host)
        host.lose_power()

        def go_on() -> None:
            host.up = True
            for machine in world.machines:
                machine.links[self.host].reset()

        world.loop.after(self.lasts, go_on)


class AgentKilled(OnHost):
    """SIGKILL to an agent."""

    weight = 1.5

    def act(self, world: World) -> None:
        if world.hosts[self.host].agent:
            world.blame("agent", self.host)
            world.hosts[self.host].kill_agent()


class AgentStopped(OnHostFor):
    """SIGSTOP to an agent, and SIGCONT."""

    weight = 2.0

    def act(self, world: World) -> None:
        host = world.hosts[self.host]
        if agent := host.agent:
            world.blame("silent", self.host, lasts=self.lasts)
            host.stop_agent()
            world.loop.after(
                self.lasts, lambda: host.continue_agent() if host.agent is agent else None
            )


class GuardKilled(OnHost):
    """SIGKILL to a guard."""

    def act(self, world: World) -> None:
        if world.hosts[self.host].guarded:
            world.blame("guard", self.host)
            world.hosts[self.host].kill_guard()


class BothKilled(OnHost):
    """SIGKILL to guard and agent at once."""

    weight = 0.5

    def act(self, world: World) -> None:
        if world.hosts[self.host].agent:
            world.blame("both", self.host)
            world.hosts[self.host].kill_both()


class DiskFull(OnHost):
    """A host's disk has no room left, but for a few bytes."""

    def act(self, world: World) -> None:
        world.blame("disk", self.host)
        world.hosts[self.host].disk.room = 100


class LeftAloneByLauncher(OnHostFor):
    """The connections to a host break while the launcher stands still, as when its machine sleeps:
    only this host notices."""

    def act(self, world: World) -> None:
        if launcher := world.live_launcher():
            world.blame("suspended")
            world.blame("reset", self.host)
            launcher.suspend(self.lasts)
            launcher.machine.links[self.host].reset()


class JournalRenamed(OnHost):
    """Somebody renames the first segment of a host's journal, while its agent writes to it."""

    weight = 0.5

    def act(self, world: World) -> None:
        if world.hosts[self.host].rename_journal():
            world.blame("journal", self.host)


class JournalRenamedWhileAway(OnHost):
    """The same of a run that a person has left, and now returns to from elsewhere."""

    def act(self, world: World) -> None:
        if launcher := world.live_launcher():
            world.blame("detached")
            launcher.detach()
        world.loop.after(1.0, lambda: JournalRenamed(self.at, self.host).act(world))
        world.loop.after(2.0, lambda: world.attach(world.machines[1]))

    @property
    def over_at(self) -> float:
        return self.at + 2.0


class ClockJumps(OnHostFor):
    """A host's clock is set, forwards or back."""

    def act(self, world: World) -> None:
        ahead = self.lasts if self.host % 2 else -min(self.lasts, 1000.0)
        world.hosts[self.host].skew += ahead

    @property
    def over_at(self) -> float:
        return self.at


@dataclass(frozen=True, eq=False)
class OnRank(Fault):
    """A fault of a rank, if it lives then."""

    rank: int

    @classmethod
    def drawn(cls, draw: Random, at: float, plan: Plan) -> Fault:
        return cls(at, draw.randrange(plan.world_size))

    def act(self, world: World) -> None:
        if process := world.process(self.rank):
            self.hit(world, process)

    def hit(self, world: World, process: Process) -> None:
        """Have it happen to the rank."""
        raise NotImplementedError


class RankKilled(OnRank):
    """SIGKILL to a rank, by a person."""

    weight = 1.5

    def hit(self, world: World, process: Process) -> None:
        world.blame("killed", process.host.index, self.rank)
        process.signal(signal.SIGKILL)


class OutOfMemory(OnRank):
    """The kernel kills a rank."""

    def hit(self, world: World, process: Process) -> None:
        world.blame("killed", process.host.index, self.rank)
        if agent := process.host.agent:
            agent.kill_out_of_memory()
        process.signal(signal.SIGKILL)


@dataclass(frozen=True, eq=False)
class RankRaises(OnRank):
    """A rank ends with an exception of its own; `silent`: without a word. `closes_first`: its
    connections break before."""

    silent: bool
    closes_first: bool
    code: int

    weight = 2.0

    @classmethod
    def drawn(cls, draw: Random, at: float, plan: Plan) -> Fault:
        rank, code = draw.randrange(plan.world_size), draw.choice((1, 1, 1, 3, 77))
        return cls(at, rank, draw.random() < 0.3, draw.random() < 0.5, code)

    def hit(self, world: World, process: Process) -> None:
        world.blame("raised", process.host.index, self.rank)
        if not self.silent:
            process.print(1, OWN)
        if self.closes_first and process.training and not process.has_finished:
            process.training.break_off(process)  # the others end before it does
        process.leave(world.draw.uniform(0.0, 0.5), self.code << 8)


class RankRefuses(OnRank):
    """A rank refuses its job, as it has usage errors."""

    weight = 0.5

    def hit(self, world: World, process: Process) -> None:
        world.blame("usage", process.host.index, self.rank)
        process.print(1, "training: error: the data is not there")
        process.leave(0.1, 2 << 8)


class RankLeavesEarly(OnRank):
    """A rank exits with 0 before its last step."""

    weight = 0.5

    def hit(self, world: World, process: Process) -> None:
        if not process.has_finished:
            world.blame("early", process.host.index, self.rank)
            process.exit(0)


@dataclass(frozen=True, eq=False)
class RankHangs(OnRank):
    """A rank makes no steps for some seconds; `stopped`: by SIGSTOP. It ignores SIGTERM."""

    lasts: float
    stopped: bool

    weight = 1.5

    @property
    def over_at(self) -> float:
        return self.at + self.lasts

    @classmethod
    def drawn(cls, draw: Random, at: float, plan: Plan) -> Fault:
        seconds, stopped = draw.choice((3.0, 20.0, 60.0, 1e9)), draw.random() < 0.4
        return cls(at, draw.randrange(plan.world_size), seconds, stopped)

    def hit(self, world: World, process: Process) -> None:
        world.blame("hang", process.host.index, self.rank)
        if self.stopped:
            process.signal(signal.SIGSTOP)
            world.loop.after(self.lasts, lambda: process.signal(signal.SIGCONT))
        else:
            process.is_hanging = process.ignores_term = True
            world.loop.after(self.lasts, process.resume_steps)


class RankDiverges(OnRank):
    """A rank's loss is no number any more."""

    weight = 0.5

    def hit(self, world: World, process: Process) -> None:
        world.blame("nan", process.host.index, self.rank)
        world.diverging.add(self.rank)


class LauncherKilled(Fault):
    """SIGKILL to the launcher."""

    weight = 1.5

    def act(self, world: World) -> None:
        if launcher := world.live_launcher():
            world.blame("launcher")
            launcher.tell("is killed")
            launcher.kill()


class LauncherVanishes(Fault):
    """The launcher's machine loses its power."""

    weight = 0.5

    def act(self, world: World) -> None:
        if launcher := world.live_launcher():
            world.blame("launcher")
            launcher.tell("vanishes")
            launcher.kill(notice=False)
            launcher.machine.lose_chunks(world.draw.choice((0, 100, 1_000)))


@dataclass(frozen=True, eq=False)
class LauncherSuspended(Fault):
    """The launcher stands still for some seconds; `machine`: its machine sleeps, and its clock."""

    lasts: float
    machine: bool

    @property
    def over_at(self) -> float:
        return self.at + self.lasts

    @classmethod
    def drawn(cls, draw: Random, at: float, plan: Plan) -> Fault:
        return cls(at, _draw_outage(draw), draw.random() < 0.5)

    def act(self, world: World) -> None:
        if launcher := world.live_launcher():
            world.blame("suspended")
            launcher.suspend(self.lasts, machine=self.machine)


class Detaches(Fault):
    """A person leaves the run."""

    weight = 1.5

    def act(self, world: World) -> None:
        if launcher := world.live_launcher():
            world.blame("detached")
            launcher.detach()


@dataclass(frozen=True, eq=False)
class Attaches(Fault):
    """A person returns to the run, on the same machine or elsewhere, perhaps as a second one."""

    elsewhere: bool

    weight = 2.0

    @classmethod
    def drawn(cls, draw: Random, at: float, plan: Plan) -> Fault:
        return cls(at, draw.random() < 0.5)

    def act(self, world: World) -> None:
        world.attach(world.machines[int(self.elsewhere)])


@dataclass(frozen=True, eq=False)
class Stops(Fault):
    """A person stops the run: once, twice, or without grace."""

    times: int
    now: bool

    weight = 1.5

    @classmethod
    def drawn(cls, draw: Random, at: float, plan: Plan) -> Fault:
        return cls(at, draw.choice((1, 1, 2)), draw.random() < 0.2)

    def act(self, world: World) -> None:
        if launcher := world.live_launcher():
            world.blame("stop")
            for count in range(self.times):
                world.loop.after(count * 1.0, lambda: launcher.stop(now=self.now))


def _kinds(base: type[Fault]) -> Sequence[type[Fault]]:
    found: list[type[Fault]] = []
    for kind in base.__subclasses__():
        found += _kinds(kind) if kind.__subclasses__() else [kind]
    return found


KINDS = tuple(_kinds(Fault))
"""All faults that can be drawn."""
