"""Facts of healthy hosts, and what the checks make of facts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from remote.cluster.hosts import Host
from remote.doctor import doctor
from remote.events import CheckFinished
from remote.plan.plan import Plan, Script
from training.job import Job
from training.wire.host_events import Hello

GIB = 2**30


def plan(hosts: int = 3, work: Job | Script | None = None, **more: object) -> Plan:
    made = [Host(f"node{n}", f"10.0.0.{n}", **more) for n in range(1, hosts + 1)]  # type: ignore[arg-type]
    return Plan("a-run", tuple(made), work or Job())


def hello(number: int, **more: object) -> Hello:
    """The facts of a host that lacks nothing: a machine of its own, with a docker bridge as
    everywhere."""
    interfaces = (
        ("lo", "127.0.0.1", 8),
        ("eth1", f"10.0.0.{number}", 24),
        ("docker0", "172.17.0.1", 16),
    )
    facts = Hello(
        *(
            f"host{number}",
            "ada",
            100,
            "3.12.3",
            "/opt/venv/bin/python3",
            "Linux 6 x86_64",
            f"boot{number}",
            8.0,
            16 * GIB,
        ),
        torch="2.14.1+cpu",
        torchvision="0.29.1+cpu",
        interfaces=interfaces,
        route_address=f"10.0.0.{number}",
        route_interface="eth1",
        memory_free=12 * GIB,
        disk_free=80 * GIB,
        load=0.4,
        link_speeds=(("eth1", 1000),),
    )
    return replace(facts, **more)  # type: ignore[arg-type]


def hellos(count: int = 3, **of_node2: object) -> list[Hello | None]:
    """The facts of healthy hosts, but for what node2 has otherwise."""
    return [hello(number, **(of_node2 if number == 2 else {})) for number in range(1, count + 1)]


def amiss(found: Sequence[CheckFinished]) -> list[tuple[int, str, str]]:
    assert all(one.advice for one in found if one.outcome != doctor.OK), (
        "each warning and failure says what to do"
    )
    return [(one.host, one.check, one.outcome) for one in found if one.outcome != doctor.OK]


def check(
    of: Plan, facts: Sequence[Hello | None], offsets: Sequence[float] = (0.0,) * 8
) -> list[CheckFinished]:
    return doctor.check_facts(of, facts, offsets)
