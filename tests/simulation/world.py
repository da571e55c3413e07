"""One simulation: hosts, networks, launchers and people, from one seed."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from remote.plan import serialize
from remote.run.findings import stall
from remote.session.times import Times
from tests.simulation.checks import Checks
from tests.simulation.disk import Disk
from tests.simulation.here import here
from tests.simulation.host import Host
from tests.simulation.launcher import Launcher, Machine
from tests.simulation.loop import START, Loop
from tests.simulation.process import Process, Training
from tests.simulation.scenario import Scenario
from training.agent import times

TIMES = Times(
    lease=2.0,
    tick=0.5,
    unheard=120.0,
    lost=30.0,
    stall=stall.StallLimits(least=12.0, factor=5.0, compiling=20.0),
)
"""A session's times: some are shorter than usual, as an hour of virtual time takes long too."""
AGENT_TIMES = times.AgentTimes(tick=2.0, lease=30.0, input=30.0, restart=200.0)
NEVER = 1e6
"""A fault that is over later than this lasts for ever."""
PATIENCE = 200.0
"""Seconds that a run gets to end by itself once all faults are over; then a person stops it."""
END = 120.0
"""Seconds in which all must have ended then."""
LOOK = 5.0
"""Seconds between two looks at whether all is over."""


@dataclass(frozen=True)
class Blame:
    """Something that was injected, and took effect: `kind`, where, and when."""

    kind: str
    host: int
    rank: int
    when: float
    lasts: float = 0.0


class World:
    """All of one simulation. `story` is what happened, where it is told."""

    def __init__(self, scenario: Scenario, *, tells: bool = False) -> None:
        self.scenario, self.plan, self.tells = scenario, scenario.plan, tells
        self.times, self.agent_times = TIMES, AGENT_TIMES
        self.loop, self.draw = Loop(), Random(scenario.seed + 1)
        here.loop = self.loop
        self.story: list[str] = []
        self.blames: list[Blame] = []
        self.diverging: set[int] = set()
        self.checks = Checks(self)
        self.hosts = [
            Host(self, index, AGENT_TIMES, scenario.segment, self.draw)
            for index in range(len(self.plan.hosts))
        ]
        for host, skew in zip(self.hosts, scenario.skews, strict=True):
            host.skew = skew
        count = len(self.hosts)
        self.machines = [Machine(name, count, self.draw) for name in ("here", "elsewhere")]
        self.launchers: list[Launcher] = []
        self.was_stopped_at_last = False
        self._trainings: dict[int, Training] = {}
        self._is_over = False

    # What others ask ------------------------------------------------------------------------------

    def tell(self, who: str, what: str) -> None:
        """Add to the story."""
        if self.tells:
            self.story.append(f"{self.loop.now - START:9.2f}  {who}: {what}")

    def blame(self, kind: str, host: int = -1, rank: int = -1, lasts: float = 0.0) -> None:
        """Note what was injected."""
        self.blames.append(Blame(kind, host, rank, self.loop.now, lasts))

    def process(self, rank: int) -> Process | None:
        """The process of a rank that lives."""
        found = [one for host in self.hosts for one in host.living() if one.rank == rank]
        return found[-1] if found else None

    def live_launcher(self) -> Launcher | None:
        """The launcher that began last, of those that live and are not suspended."""
        live = [one for one in self.launchers if one.is_live and not one.is_suspended]
        return live[-1] if live else None

    def training(self, attempt: int, size: int) -> Training:
        """The training of an attempt."""
        if attempt not in self._trainings:
            steps, seconds = self.scenario.steps, self.scenario.seconds
            self._trainings[attempt] = Training(self, attempt, size, steps, seconds)
        return self._trainings[attempt]

    def kept_plan(self) -> str:
        """The plan as one of the hosts keeps it."""
        kept = [host.kept["plan.json"] for host in self.hosts if "plan.json" in host.kept]
        return kept[0] if kept else serialize.dump(self.plan)

    def attach(self, machine: Machine) -> Launcher | None:
        """A person returns to the run, if there is one, and nobody records it there."""
        is_there = any("plan.json" in host.kept and host.up for host in self.hosts)
        if machine.launcher or not (is_there or machine.lines):
            return None
        launcher = Launcher(self, machine, returning=True)
        self.launchers.append(launcher)
        launcher.tell("attaches")
        return launcher

    # The run --------------------------------------------------------------------------------------

    def run(self) -> None:
        """Simulate until all is over. Raises: Violation."""
        launcher = Launcher(self, self.machines[0], returning=False)
        self.launchers.append(launcher)
        for fault in self.scenario.faults:
            self.loop.at(START + fault.at, lambda one=fault: self._inject(one))  # type: ignore[misc]
        calm = max((self._over_at(fault) for fault in self.scenario.faults), default=0.0)
        self.loop.at(START + calm + PATIENCE, self._stop_at_last)
        self.loop.after(LOOK, self._look)
        until = START + calm + PATIENCE + END
        try:
            self.loop.run(until, lambda: self._is_over)
            self.checks.finish()
        finally:
            for launcher in self.launchers:
                launcher.forget()

    @staticmethod
    def _over_at(fault: object) -> float:
        over: float = fault.over_at  # type: ignore[attr-defined]
        return over if over < NEVER else fault.at  # type: ignore[attr-defined]

    def _inject(self, fault: object) -> None:
        self.tell("fault", str(fault))
        fault.act(self)  # type: ignore[attr-defined]

    def _stop_at_last(self) -> None:
        """A person ends what has not ended by itself."""
        live = [one for one in self.launchers if one.is_live]
        if not live and any(host.agent for host in self.hosts):
            here_again = self.draw.random() < 0.5
            if launcher := self.attach(self.machines[0 if here_again else 1]):
                live = [launcher]
        for launcher in live:
            launcher.tell("is stopped at last")
            self.was_stopped_at_last = True
            self.loop.after(2.0, launcher.stop)

    def _look(self) -> None:
        self.checks.look()
        later = [one for one in self.scenario.faults if START + one.at > self.loop.now]
        self._is_over = not later and self.is_quiet
        self.loop.after(LOOK, self._look)

    @property
    def is_quiet(self) -> bool:
        """Whether nobody acts any more."""
        return not (
            any(one.is_live for one in self.launchers)
            or any(host.agent or host.guarded for host in self.hosts)
            or any(host.living() for host in self.hosts if not host.was_orphaned)
        )


__all__ = ["Disk", "World"]
