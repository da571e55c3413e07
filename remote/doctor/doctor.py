"""The checks before a run: what the hosts' facts, and the connections that they tried, mean for
this plan. Pure.

Two rounds. After all hosts have said Hello, or could not be reached: `check_facts`. Then every host
listens (`reservations`) and connects to the master and to its next neighbour (`connects`), and
`check_connections` says what came of it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import replace

from remote.cluster.hosts import Host
from remote.doctor import job, machine, network, program, software
from remote.doctor.check import FAILED, OK, WARNING, Facts, Found
from remote.events import Checked
from remote.format import listed
from remote.plan.place import master_address
from remote.plan.plan import Plan, PlanError
from remote.transport.failure import Cause, Failure
from remote.transport.registry import kind
from training.wire.commands import Connect, Reserve
from training.wire.events import Connected, Hello, Reserved

__all__ = [
    "CHECKS",
    "FAILED",
    "OK",
    "UNFIT",
    "WARNING",
    "answers_to",
    "check_connections",
    "check_facts",
    "connects",
    "grouped",
    "has_tried",
    "is_told",
    "is_unfit",
    "lost",
    "refusal",
    "reservations",
    "warning",
    "whose",
]

SECONDS = 3.0
"""How long a host has to connect to the others."""
OF_FACTS: dict[str, Callable[[Facts, int], Found]] = {
    "address": machine.address,
    "login": lambda facts, index: Found(OK, facts.hello(index).user),
    "python": software.python,
    "torch": software.torch,
    "torchvision": software.torchvision,
    "code": software.code,
    "disk": machine.disk,
    "memory": machine.memory,
    "clock": machine.clock,
    "cores": machine.cores,
    "load": machine.load,
    "gpus": machine.gpus,
    "interface": network.interface,
    "data": job.data,
    "job": job.job,
    "precision": job.precision,
    "program": program.program,
}
"""The checks of the first round, in the order in which they are shown."""
OF_SOME_JOBS = ("torchvision", "data", "job", "precision", "program")
"""Those that not every plan has a use for."""
CHECKS = (*OF_FACTS, "port", "connect")
"""All checks, in the order in which they are shown."""

NAMED = 3
"""Hosts that a short line names."""
UNREACHED = Failure(Cause.OTHER, "it could not be reached")
UNFIT = ("python", "code", "disk")
"""The checks that a host fails which was logged in to, but cannot be used."""
OF_CAUSES = {
    Cause.ADDRESS: "address",
    Cause.PYTHON: "python",
    Cause.AGENT: "python",
    Cause.CODE: "code",
    Cause.WORKDIR: "disk",
    Cause.NO_ROOM: "disk",
}
"""The check that a host fails which cannot be reached for this cause; for any other, the login."""


def check_facts(
    plan: Plan,
    facts: Sequence[Hello | None],
    offsets: Sequence[float],
    failures: Sequence[Failure | None] = (),
) -> list[Checked]:
    """The first round, host by host, in order.

    `facts` are None for a host that was not reached, and then `failures` has why; `offsets` are how
    many seconds each host's clock is ahead of ours (any figure for those not reached). Without
    `failures`, all were reached.
    """
    known = Facts(plan, facts, offsets)
    needed = {*job.checks(plan), *(("torchvision",) if software.torchvision_needed(plan) else ())}
    names = [name for name in OF_FACTS if name not in OF_SOME_JOBS or name in needed]
    unknown = [one for one in failures if one and one.cause is Cause.HOST_KEY_UNKNOWN]
    found: list[Checked] = []
    for index, hello in enumerate(facts):
        if hello:
            found += [_checked(index, name, OF_FACTS[name](known, index)) for name in names]
            continue
        failure = (failures[index] if failures else None) or UNREACHED
        if failure in unknown and len(unknown) > 1:  # one command for all of them
            command = f"rankboard trust{plan.hosts_option} --all"
            failure = replace(failure, advice=command)
        found += _not_reached(plan.hosts[index], index, failure)
    return found


def _checked(on: int, check: str, found: Found) -> Checked:
    return Checked(on, check, found.outcome, found.text, found.advice)


def _not_reached(host: Host, index: int, failure: Failure) -> list[Checked]:
    """What is known of a host that has not said Hello: what its transport passed, and what not."""
    failed = _check_of(failure)
    passed = [] if failed == "address" else [Checked(index, "address", OK, host.address)]
    passed += [] if failed in ("address", "login") else [Checked(index, "login", OK, "ok")]
    advice = " ".join(failure.advice.split()) or _by_hand(host)
    return [*passed, Checked(index, failed, FAILED, failure.what, advice)]


def _check_of(failure: Failure) -> str:
    return OF_CAUSES.get(failure.cause, "login")


def _by_hand(host: Host) -> str:
    command = kind(host.transport).by_hand(host)
    return f"try it by hand: {command}" if command else ""


def reservations(plan: Plan, facts: Sequence[Hello | None]) -> list[Reserve | None]:
    """Where each host is to listen: the master at the rendezvous, the others at any port; None
    where that cannot be known."""
    known = Facts(plan, facts, ())
    found: list[Reserve | None] = []
    for index, hello in enumerate(facts):
        address = network.own_address(known, index) if hello else ""
        found.append(Reserve(address, 0) if address else None)
    if all(facts):
        try:
            master = master_address(plan, [hello for hello in facts if hello])
        except PlanError:  # the first round has found it and says why
            found[0] = None
        else:
            found[0] = Reserve(master, plan.hosts[0].master_port)
    return found


def connects(reserved: Sequence[Reserved | None]) -> list[Connect | None]:
    """Whom each host is to try: the master and the next host that listens; None where there is
    nobody but itself."""
    where = [(one.address, one.port) if one and not one.error else None for one in reserved]
    found: list[Connect | None] = []
    for index, own in enumerate(where):
        behind = [other for other in (*where[index + 1 :], *where[:index]) if other]
        wanted = dict.fromkeys(
            target for target in (where[0], *behind[:1]) if target and target != own
        )
        found.append(Connect(tuple(wanted), SECONDS) if own and wanted else None)
    return found


def answers_to(connect: Connect | None, connected: Sequence[Connected]) -> list[Connected]:
    """Return the answers about connections that this command asks for."""
    targets = connect.targets if connect else ()
    return [answer for answer in connected if (answer.address, answer.port) in targets]


def has_tried(connect: Connect, connected: Sequence[Connected]) -> bool:
    """Return True if all connections that this command asks for have been tried."""
    tried = {(answer.address, answer.port) for answer in connected}
    return tried >= set(connect.targets)


def check_connections(
    plan: Plan,
    facts: Sequence[Hello | None],
    reserved: Sequence[Reserved | None],
    connected: Sequence[Sequence[Connected]],
) -> list[Checked]:
    """The second round: of each host that was to listen whether it does, and whether it reached
    whom it was to try."""
    known = Facts(plan, facts, ())
    asked = connects(reserved)
    found: list[Checked] = []
    for index, own in enumerate(reserved):
        if own:
            found.append(_checked(index, "port", network.port(known, index, own)))
        if asked[index]:
            found.append(
                _checked(
                    index, "connect", network.connect(known, index, reserved, connected[index])
                )
            )
    return found


def lost(on: int, reason: str) -> Checked:
    """The check that a host failed which was lost in the second round."""
    return Checked(
        on, "connect", FAILED, reason, "see whether it is still up, then check once more"
    )


def grouped(checks: Sequence[Checked]) -> list[Checked]:
    """The checks; those that have found the same of several hosts say of which."""
    found: dict[tuple[str, ...], list[int]] = {}
    for one in checks:
        found.setdefault(_finding(one), []).append(one.on)
    return [
        replace(one, same=tuple(of)) if len(of := found[_finding(one)]) > 1 else one
        for one in checks
    ]


def _finding(one: Checked) -> tuple[str, ...]:
    """What is to be read of it. What is well is not told, but shown host by host."""
    return (one.check, one.outcome, one.text, one.advice) + (
        (str(one.on),) if one.outcome == OK else ()
    )


def is_told(checked: Checked) -> bool:
    """Whether this is the one of several equal findings that tells of all of them."""
    return checked.on == (checked.same or (checked.on,))[0]


def is_unfit(cause: Cause) -> bool:
    """Whether the host can be logged in to, but its python or workdir cannot be used."""
    return OF_CAUSES.get(cause) in UNFIT


def refusal(names: Sequence[str], checked: Checked) -> str:
    """A failed check as the reason why a run is not started. `names` are all hosts'."""
    return whose(names, checked) + checked.text + (f"; {checked.advice}" if checked.advice else "")


def warning(names: Sequence[str], checked: Checked, command: str) -> str:
    """A check that warns as a short line for the log of a run, which goes on all the same. `names`
    are all hosts'; `command` tells the rest."""
    return f"{whose(names, checked, NAMED)}{checked.check}: {checked.text} (see {command})"


def whose(names: Sequence[str], checked: Checked, most: int = sys.maxsize) -> str:
    """Return how a line on a check begins: with its hosts, `most` of them. `names` are all
    hosts'."""
    hosts = [names[on] for on in checked.same or (checked.on,) if 0 <= on < len(names)]
    return f"{listed(hosts, most)}: " if hosts else ""
