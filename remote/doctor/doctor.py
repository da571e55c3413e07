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
from remote.doctor import machine, network, software, work
from remote.doctor.host_facts import (
    FAILED,
    NAMED,
    OK,
    WARNING,
    CheckedHost,
    HostFinding,
    reached_hosts,
)
from remote.events import CheckFinished
from remote.format import listed
from remote.plan.place import master_address
from remote.plan.plan import Plan, PlanError
from remote.transport.failure import Failure, FailureCause
from remote.transport.registry import load_transport
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
OF_FACTS: dict[str, Callable[[CheckedHost], HostFinding | str]] = {
    "address": machine.check_address,
    "login": lambda own: own.hello.user,
    "python": software.check_python,
    "torch": software.check_torch,
    "torchvision": software.check_torchvision,
    "code": software.check_code,
    "disk": machine.check_disk,
    "memory": machine.check_memory,
    "clock": machine.check_clock,
    "cores": machine.check_cores,
    "load": machine.check_load,
    "gpus": machine.check_gpus,
    "interface": network.check_interface,
    "data": work.check_data,
    "job": work.check_job,
    "precision": work.check_precision,
    "program": work.check_program,
}
"""The checks of the first round, in the order in which they are shown."""
OF_SOME_PLANS = ("torchvision", "data", "job", "precision", "program")
"""Those that not every plan needs."""
CHECKS = (*OF_FACTS, "port", "connect")
"""All checks, in the order in which they are shown."""

UNREACHED = Failure(FailureCause.OTHER, "it could not be reached")
UNFIT = ("python", "code", "disk")
"""The checks that a host fails which was logged in to, but cannot be used."""
OF_CAUSES = {
    FailureCause.ADDRESS: "address",
    FailureCause.PYTHON: "python",
    FailureCause.AGENT: "python",
    FailureCause.CODE: "code",
    FailureCause.WORKDIR: "disk",
    FailureCause.NO_ROOM: "disk",
}
"""The check that a host fails which cannot be reached for this cause; for any other, the login."""


def check_facts(
    plan: Plan,
    facts: Sequence[Hello | None],
    offsets: Sequence[float],
    failures: Sequence[Failure | None] = (),
) -> list[CheckFinished]:
    """Make the checks of the first round, host by host, in order.

    `facts` are None for a host that was not reached, and then `failures` has why; `offsets` are how
    many seconds each host's clock is ahead of ours (any number for those not reached). Without
    `failures`, all were reached.
    """
    reached = reached_hosts(plan, facts, offsets)
    needed = work.checks_for(plan)
    names = [name for name in OF_FACTS if name not in OF_SOME_PLANS or name in needed]
    untrusted = [one for one in failures if one and one.cause is FailureCause.HOST_KEY_UNKNOWN]
    checks: list[CheckFinished] = []
    for index, host in enumerate(plan.hosts):
        if index in reached:
            own = reached[index]
            checks += [_checked(index, name, OF_FACTS[name](own)) for name in names]
            continue
        failure = (failures[index] if failures else None) or UNREACHED
        if failure in untrusted and len(untrusted) > 1:  # one command for all of them
            command = f"rankboard trust{plan.hosts_option} --all"
            failure = replace(failure, advice=command)
        checks += _not_reached(host, index, failure)
    return checks


def _checked(host: int, check: str, finding: HostFinding | str) -> CheckFinished:
    if isinstance(finding, str):
        return CheckFinished(host, check, OK, finding)
    return CheckFinished(host, check, finding.outcome, finding.text, finding.advice)


def _not_reached(host: Host, index: int, failure: Failure) -> list[CheckFinished]:
    """Say what is known of a host that has not said Hello: what its transport passed, and what
    not."""
    failed = _failed_check(failure.cause)
    checks: list[CheckFinished] = []
    if failed != "address":
        checks.append(CheckFinished(index, "address", OK, host.address))
        if failed != "login":
            checks.append(CheckFinished(index, "login", OK, "ok"))
    advice = " ".join(failure.advice.split())
    command = load_transport(host.transport).by_hand(host)
    if not advice and command:
        advice = f"try it by hand: {command}"
    return [*checks, CheckFinished(index, failed, FAILED, failure.what, advice)]


def _failed_check(cause: FailureCause) -> str:
    return OF_CAUSES.get(cause, "login")


def reservations(plan: Plan, facts: Sequence[Hello | None]) -> list[Reserve | None]:
    """Say where each host is to listen: the master at the rendezvous, the others at any port; None
    if that cannot be known."""
    requests: list[Reserve | None] = [None] * len(facts)
    for index, own in reached_hosts(plan, facts).items():
        address = network.own_address(own)
        if address:
            requests[index] = Reserve(address, 0)
    hellos = [hello for hello in facts if hello]
    if len(hellos) < len(facts):
        return requests
    try:
        address = master_address(plan, hellos)
    except PlanError:  # the first round has found it and says why
        requests[0] = None
    else:
        requests[0] = Reserve(address, plan.hosts[0].master_port)
    return requests


def connects(reserved: Sequence[Reserved | None]) -> list[Connect | None]:
    """Say whom each host is to try: the master and the next host that listens; None if there is
    nobody but itself."""
    listening = [(one.address, one.port) if one and not one.error else None for one in reserved]
    requests: list[Connect | None] = []
    for index, own in enumerate(listening):
        others = (*listening[index + 1 :], *listening[:index])
        next_one = [other for other in others if other][:1]
        targets = [one for one in (listening[0], *next_one) if one and one != own]
        distinct = tuple(dict.fromkeys(targets))
        requests.append(Connect(distinct, SECONDS) if own and distinct else None)
    return requests


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
) -> list[CheckFinished]:
    """Make the checks of the second round: of each host that was to listen whether it does, and
    whether it reached whom it was to try."""
    requests = connects(reserved)
    checks: list[CheckFinished] = []
    for index, own in reached_hosts(plan, facts).items():
        port = reserved[index]
        if port:
            checks.append(_checked(index, "port", network.check_port(own, port)))
        if requests[index]:
            finding = network.check_connect(own, reserved, connected[index])
            checks.append(_checked(index, "connect", finding))
    return checks


def lost(host: int, reason: str) -> CheckFinished:
    """Return the check that a host failed which was lost in the second round."""
    advice = "see whether it is still up, then check once more"
    return CheckFinished(host, "connect", FAILED, reason, advice)


# In words -----------------------------------------------------------------------------------------


def grouped(checks: Sequence[CheckFinished]) -> list[CheckFinished]:
    """Return the checks; those that have found the same of several hosts say of which."""
    hosts: dict[tuple[object, ...], list[int]] = {}
    for check in checks:
        hosts.setdefault(_what_is_read(check), []).append(check.host)
    marked: list[CheckFinished] = []
    for check in checks:
        same = hosts[_what_is_read(check)]
        marked.append(replace(check, same=tuple(same)) if len(same) > 1 else check)
    return marked


def _what_is_read(check: CheckFinished) -> tuple[object, ...]:
    # What is well is not told, but shown host by host.
    host = check.host if check.outcome == OK else None
    return check.check, check.outcome, check.text, check.advice, host


def is_told(checked: CheckFinished) -> bool:
    """Return True if this is the one of several equal findings that tells of all of them."""
    return not checked.same or checked.host == checked.same[0]


def is_unfit(cause: FailureCause) -> bool:
    """Return True if the host can be logged in to, but its python or workdir cannot be used."""
    return _failed_check(cause) in UNFIT


def refusal(names: Sequence[str], checked: CheckFinished) -> str:
    """Return a failed check as the reason why a run is not started. `names` are all hosts'."""
    problem = whose(names, checked) + checked.text
    return f"{problem}; {checked.advice}" if checked.advice else problem


def warning(names: Sequence[str], checked: CheckFinished, command: str) -> str:
    """Return a check that warns as a short line for the log of a run, which goes on all the same.
    `names` are all hosts'; `command` tells the rest."""
    return f"{whose(names, checked, NAMED)}{checked.check}: {checked.text} (see {command})"


def whose(names: Sequence[str], checked: CheckFinished, most: int = sys.maxsize) -> str:
    """Return how a line on a check begins: with its hosts, `most` of them. `names` are all
    hosts'."""
    numbers = checked.same or (checked.host,)
    hosts = [names[number] for number in numbers if 0 <= number < len(names)]
    return f"{listed(hosts, most)}: " if hosts else ""
