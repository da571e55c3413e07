"""What a seed stands for: a plan, policies, and the faults that come."""

from __future__ import annotations

from dataclasses import dataclass, replace
from random import Random

from remote.cluster.hosts import Host
from remote.plan.plan import OnNan, OnStall, Plan, Policy, Script
from tests.simulation import faults
from tests.simulation.faults import Fault
from training.job import Job

HOSTS = (1, 1, 2, 2, 2, 3, 3, 4, 5, 8)
MOST_RANKS = 16
EARLY, LATE = 4.0, 6.0
"""Faults begin in a run's first seconds, or until some seconds after its ranks would have ended."""


@dataclass(frozen=True)
class Scenario:
    """One simulation. `steps` of `seconds` each; `segment`: bytes of a journal's segment, of which
    four are kept."""

    seed: int
    plan: Plan
    steps: int
    seconds: float
    segment: int
    skews: tuple[float, ...]
    faults: tuple[Fault, ...]

    def without(self, fault: Fault) -> Scenario:
        """The same with a fault less."""
        return replace(self, faults=tuple(one for one in self.faults if one is not fault))

    def __str__(self) -> str:
        policy = self.plan.policy
        slots = ", ".join(str(host.slots) for host in self.plan.hosts)
        return "\n".join(
            (
                f"seed {self.seed}: {len(self.plan.hosts)} hosts with {slots} ranks; "
                f"{self.steps} steps of {self.seconds:.1f} s",
                f"  {policy}",
                *(f"  {fault}" for fault in self.faults),
            )
        )


def draw_scenario(seed: int) -> Scenario:
    """The scenario of a seed."""
    draw = Random(seed)
    count = draw.choice(HOSTS)
    slots = [draw.choice((1, 1, 1, 2, 2, 3)) for _ in range(count)]
    while sum(slots) > MOST_RANKS:
        slots[slots.index(max(slots))] -= 1
    hosts = tuple(
        Host(f"node{index + 1}", f"127.0.0.{index + 1}", slots=number)
        for index, number in enumerate(slots)
    )
    script = Script(("train.py",), before="mkdir -p output" if seed % 2 else "")
    work = script if draw.random() < 0.15 else Job()
    plan = Plan("20261120-093000-ddp-lenet5-3f9a", hosts, work, _draw_policy(draw, count))
    skews = tuple(draw.choice((0.0, 0.0, 0.4, -3.0, 5.0, 3600.0)) for _ in hosts)
    number = draw.choice((0, 1, 1, 1, 1, 2, 2, 3, 4, 6))
    steps, seconds = draw.randint(2, 8), draw.choice((0.3, 1.0, 2.5))
    until = EARLY + LATE + steps * seconds
    return Scenario(
        seed,
        plan,
        steps,
        seconds,
        segment=draw.choice((1 << 20, 1 << 20, 1 << 20, 3000)),
        skews=skews,
        faults=_draw_faults(draw, plan, until, number),
    )


def _draw_policy(draw: Random, hosts: int) -> Policy:
    restarts = draw.choice((0, 0, 0, 1, 2, 5))
    return Policy(
        keep=draw.random() < 0.4,
        doctor=draw.random() < 0.15,
        start_timeout=draw.choice((0.0, 0.0, 0.0, 20.0)),
        on_stall=draw.choice(tuple(OnStall)),
        on_nan=draw.choice(tuple(OnNan)),
        max_restarts=restarts,
        min_nodes=draw.randint(1, hosts) if restarts and draw.random() < 0.6 else 0,
        fetch=draw.random() < 0.3,
    )


def _begin(fault: Fault) -> float:
    return fault.at


def _draw_faults(draw: Random, plan: Plan, until: float, number: int) -> tuple[Fault, ...]:
    """Faults in order of time; some follow close on the one before."""
    found: list[Fault] = []
    at = 0.0
    for _ in range(number):
        if found and draw.random() < 0.35:
            at += draw.choice((0.1, 0.3, 1.0, 2.0))
        else:
            at = draw.uniform(0.0, until if draw.random() < 0.85 else EARLY)
        found.append(_draw_fault(draw, plan, round(at, 2)))
    return tuple(sorted(found, key=_begin))


def _draw_fault(draw: Random, plan: Plan, at: float) -> Fault:
    kinds = faults.KINDS
    kind = draw.choices(kinds, [kind.weight for kind in kinds])[0]
    return kind.drawn(draw, at, plan)
