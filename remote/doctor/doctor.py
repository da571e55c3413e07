"""The checks before a run: what the hosts' facts, and the connections that they tried, mean for
this plan. Pure.

Two rounds. After all hosts have said Hello, or could not be reached: `check_facts`. Then every host
listens (`reservations`) and connects to the master and to its next neighbour (`connects`), and
`check_connections` says what came of it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from msgspec import structs

from remote.cluster.hosts import Host
from remote.doctor import machine, network, software, work
from remote.doctor.host_facts import (
    FAILED,
    OK,
    WARNING,
    CheckedHost,
    HostFinding,
    reached_hosts,
)
from remote.doctor.wording import LOAD, is_told, refusal, warning, whose
from remote.events import CheckFinished
from remote.plan.place import master_address
from remote.plan.plan import Plan, PlanError
from remote.transport.failure import Failure, FailureCause
from remote.transport.registry import load_transport
from training.wire.commands import Connect, Reserve
from training.wire.host_events import Connected, Hello, Reserved

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
    LOAD: machine.check_load,
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
    clock_offsets: Sequence[float],
    failures: Sequence[Failure | None] = (),
) -> list[CheckFinished]:
    """Make the checks of the first round, host by host, in order.

    `facts` are None for a host that was not reached, and then `failures` has why; `clock_offsets`
    are how many seconds each host's clock is ahead of ours (any number for those not reached).
    Without `failures`, all were reached.
    """
    reached_by_index = reached_hosts(plan, facts, clock_offsets)
    needed_checks = work.checks_for(plan)
    check_names = [
        check_name
        for check_name in OF_FACTS
        if check_name not in OF_SOME_PLANS or check_name in needed_checks
    ]
    untrusted_failures = [
        failure
        for failure in failures
        if failure and failure.cause is FailureCause.HOST_KEY_UNKNOWN
    ]
    checks: list[CheckFinished] = []
    for host_index, host in enumerate(plan.hosts):
        if host_index in reached_by_index:
            checked_host = reached_by_index[host_index]
            checks += [
                _checked(host_index, check_name, OF_FACTS[check_name](checked_host))
                for check_name in check_names
            ]
            continue
        reach_failure = (failures[host_index] if failures else None) or UNREACHED
        if (
            reach_failure in untrusted_failures and len(untrusted_failures) > 1
        ):  # one command for all of them
            trust_command = f"rankboard trust{plan.hosts_option} --all"
            reach_failure = structs.replace(reach_failure, advice=trust_command)
        checks += _not_reached(host, host_index, reach_failure)
    return checks


def _checked(host_index: int, check_name: str, finding: HostFinding | str) -> CheckFinished:
    if isinstance(finding, str):
        return CheckFinished(host_index, check_name, OK, finding)
    return CheckFinished(
        host_index,
        check_name,
        finding.outcome,
        finding.text,
        finding.advice,
        value=finding.value,
        command=finding.command,
        helps_to_exclude=finding.helps_to_exclude,
    )


def _not_reached(host: Host, host_index: int, reach_failure: Failure) -> list[CheckFinished]:
    """Say what is known of a host that has not said Hello: what its transport passed, and what
    not."""
    failed_check = _failed_check(reach_failure.cause)
    checks: list[CheckFinished] = []
    # The checks are passed in order: who was refused at the login has an address that leads
    # somewhere.
    if failed_check != "address":
        checks.append(CheckFinished(host_index, "address", OK, host.address))
        if failed_check != "login":
            checks.append(CheckFinished(host_index, "login", OK, "ok"))
    advice = " ".join(reach_failure.advice.split())
    manual_command = load_transport(host.transport).by_hand(host, ["true"])
    if not advice and manual_command:
        advice = f"try it by hand: {manual_command}"
    return [*checks, CheckFinished(host_index, failed_check, FAILED, reach_failure.what, advice)]


def _failed_check(cause: FailureCause) -> str:
    return OF_CAUSES.get(cause, "login")


def reservations(plan: Plan, facts: Sequence[Hello | None]) -> list[Reserve | None]:
    """Say where each host is to listen: the master at the rendezvous, the others at any port; None
    if that cannot be known."""
    reserve_commands: list[Reserve | None] = [None] * len(facts)
    for host_index, checked_host in reached_hosts(plan, facts).items():
        address = network.own_address(checked_host)
        if address:
            reserve_commands[host_index] = Reserve(address, 0)
    known_facts = [hello for hello in facts if hello]
    # The address of the rendezvous depends on whether the hosts are one machine.
    if len(known_facts) < len(facts):
        return reserve_commands
    try:
        address = master_address(plan, known_facts)
    except PlanError:  # the first round has found it and says why
        reserve_commands[0] = None
    else:
        reserve_commands[0] = Reserve(address, plan.hosts[0].master_port)
    return reserve_commands


def connects(reserved: Sequence[Reserved | None]) -> list[Connect | None]:
    """Say whom each host is to try: the master and the next host that listens; None if there is
    nobody but itself."""
    listening_addresses = [
        (one.address, one.port) if one and not one.error else None for one in reserved
    ]
    connect_commands: list[Connect | None] = []
    for host_index, own_target in enumerate(listening_addresses):
        # With the next one each host is tried from somewhere, at a cost that grows with the hosts
        # and not with their pairs.
        other_targets = (*listening_addresses[host_index + 1 :], *listening_addresses[:host_index])
        next_target = [other_target for other_target in other_targets if other_target][:1]
        targets = [
            one for one in (listening_addresses[0], *next_target) if one and one != own_target
        ]
        distinct_targets = tuple(dict.fromkeys(targets))
        connect_commands.append(
            Connect(distinct_targets, SECONDS) if own_target and distinct_targets else None
        )
    return connect_commands


def answers_to(connect: Connect | None, connected: Sequence[Connected]) -> list[Connected]:
    """Return the answers about connections that this command asks for."""
    targets = connect.targets if connect else ()
    return [answer for answer in connected if (answer.address, answer.port) in targets]


def has_tried(connect: Connect, connected: Sequence[Connected]) -> bool:
    """Return True if all connections that this command asks for have been tried."""
    tried_targets = {(answer.address, answer.port) for answer in connected}
    return tried_targets >= set(connect.targets)


def check_connections(
    plan: Plan,
    facts: Sequence[Hello | None],
    reserved: Sequence[Reserved | None],
    connected: Sequence[Sequence[Connected]],
) -> list[CheckFinished]:
    """Make the checks of the second round: of each host that was to listen whether it does, and
    whether it reached whom it was to try."""
    connect_commands = connects(reserved)
    checks: list[CheckFinished] = []
    for host_index, checked_host in reached_hosts(plan, facts).items():
        reserved_port = reserved[host_index]
        if reserved_port:
            checks.append(
                _checked(host_index, "port", network.check_port(checked_host, reserved_port))
            )
        if connect_commands[host_index]:
            finding = network.check_connect(checked_host, reserved, connected[host_index])
            checks.append(_checked(host_index, "connect", finding))
    return checks


def lost(host_index: int, reason: str) -> CheckFinished:
    """Return the check that a host failed which was lost in the second round."""
    advice = "see whether it is still up, then check once more"
    return CheckFinished(host_index, "connect", FAILED, reason, advice)


def grouped(checks: Sequence[CheckFinished]) -> list[CheckFinished]:
    """Return the checks; those that have found the same of several hosts say of which."""
    hosts_by_finding: dict[tuple[object, ...], list[int]] = {}
    for check in checks:
        hosts_by_finding.setdefault(_what_is_read(check), []).append(check.host)
    marked_checks: list[CheckFinished] = []
    for check in checks:
        same_hosts = hosts_by_finding[_what_is_read(check)]
        marked_checks.append(
            replace(check, same=tuple(same_hosts)) if len(same_hosts) > 1 else check
        )
    return marked_checks


def _what_is_read(check: CheckFinished) -> tuple[object, ...]:
    # What is well is not told, but shown host by host.
    shown_host = check.host if check.outcome == OK else None
    return check.check, check.outcome, check.text, check.advice, shown_host


def is_unfit(cause: FailureCause) -> bool:
    """Return True if the host can be logged in to, but its python or workdir cannot be used."""
    return _failed_check(cause) in UNFIT
