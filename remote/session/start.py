"""Decisions about a start: from the facts of all hosts to their ranks.

The hosts are checked by their facts. Then each reserves a port, the first one that of the
rendezvous, and tries connections to others. Then the ranks are placed and started.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from remote.doctor import doctor
from remote.events import (
    CheckFinished,
    Prepared,
    Preparing,
    RemarkMade,
    SessionClosing,
    Starting,
    StartRefused,
    Transferring,
)
from remote.plan import frameworks, serialize
from remote.plan.place import master_address, place
from remote.plan.plan import Plan, PlanError, Script
from remote.record.layout import PLAN
from remote.run.diagnosis import agent_end
from remote.run.state.host_state import HostState
from remote.run.state.launcher_state import UPLOAD, Stage
from remote.session.actions import Action, Say, Upload
from remote.session.decision_input import (
    DecisionInput,
    LinkedHost,
    can_send,
    is_done,
    send_once,
)
from remote.session.host_link import HostLink
from remote.session.reach import lose
from remote.session.restart import restart
from training.wire.commands import Connect, Keep, Placement, Reserve, StartAttempt
from training.wire.events import SESSION, Hello


def upload(inputs: DecisionInput) -> list[Action]:
    """Begin to upload what the plan uploads, while the hosts are reached."""
    launcher = inputs.launcher
    if launcher.stage is not Stage.REACHING or launcher.returned or UPLOAD in launcher.transfers:
        return []
    return [Say(Transferring(UPLOAD)), Upload()] if inputs.run.plan.uploads else []


def keep_plan(inputs: DecisionInput) -> list[Action]:
    """Have every host keep the plan, for a launcher that returns to the run."""
    if inputs.launcher.stage not in (Stage.REACHING, Stage.STARTING):
        return []
    links = [link for host, link in inputs.live if host.hello and can_send(link, Keep)]
    if not links:
        return []
    plan = public_plan(inputs.run.plan, keep=inputs.launcher.keep)
    command = Keep(PLAN, plan, max(0.0, inputs.now - inputs.run.started))
    actions: list[Action] = []
    for link in links:
        actions += send_once(link, command)
    return actions


def public_plan(plan: Plan, *, keep: bool) -> str:
    """Return the plan as text, without the ways to its hosts, which may hold a password and are of
    no use to another launcher."""
    hosts = tuple(replace(host, proxy_command="") for host in plan.hosts)
    return serialize.dump(replace(plan, hosts=hosts, policy=replace(plan.policy, keep=keep)))


def prepare(inputs: DecisionInput) -> list[Action]:
    """Check the hosts by their facts, once all are known; not earlier, so that all hosts that
    cannot take part are named at once."""
    launcher = inputs.launcher
    if launcher.stage is Stage.REACHING:
        if any(host.hello is None for host, _ in inputs.live):
            return []
        done = [host for host, link in inputs.hosts() if is_done(host, link)]
        if launcher.refused or any(host.hello is None for host in done):
            return [Say(SessionClosing())]
        if done:  # an attempt that fails before its ranks are started fails as any other
            return restart(inputs)
    elif launcher.stage is not Stage.STARTING or launcher.preparing:
        return []
    facts = [inputs.run.hosts[number].hello for number in launcher.hosts]
    remarks = frameworks.remarks(inputs.plan_on(launcher.hosts), facts)
    said = [Say(RemarkMade(SESSION, text)) for text in remarks]
    return [Say(Preparing(launcher.hosts)), *_check_facts(inputs), *said]


def ask(inputs: DecisionInput) -> list[Action]:
    """Ask the hosts for ports and connections; once all have answered, check what came of it."""
    launcher = inputs.launcher
    if launcher.stage is not Stage.STARTING or not launcher.preparing or launcher.prepared:
        return []
    if launcher.refused:
        return [Say(SessionClosing())]
    requests = _reservations(inputs)
    if not any(requests):
        return [Say(SessionClosing())]
    actions: list[Action] = []
    is_complete = True
    for (host, link), reserve in zip(inputs.taking_part(), requests, strict=True):
        if reserve and not host.reserved:
            is_complete = False
            actions += send_once(link, reserve, launcher.attempt)
    return _ask_for_connections(inputs) if is_complete else actions


def start(inputs: DecisionInput) -> list[Action]:
    """StartAttempt the ranks, once all has been checked and is there."""
    launcher = inputs.launcher
    if launcher.stage is not Stage.STARTING or not launcher.prepared:
        return []
    if launcher.refused:
        return [Say(SessionClosing())]
    has_lost_one = any(is_done(host, link) for host, link in inputs.taking_part())
    if launcher.is_transferring(UPLOAD) or has_lost_one:
        return []
    try:
        place_ranks(inputs)
    except PlanError as error:
        return [Say(StartRefused(SESSION, str(error)))]
    return [Say(Starting())]


def send_starts(inputs: DecisionInput) -> list[Action]:
    """Tell each host to start its ranks, until it has."""
    launcher = inputs.launcher
    if launcher.stage is not Stage.RUNNING or launcher.failing:
        return []
    ready = [
        (host, link)
        for host, link in inputs.taking_part()
        if host.attempt != launcher.attempt and _takes_start(inputs, host, link)
    ]
    if not ready:
        return []
    placed = dict(zip(launcher.hosts, place_ranks(inputs), strict=True))
    actions: list[Action] = []
    for host, link in ready:
        command = _start_command(inputs, placed[host.index])
        actions += send_once(link, command, launcher.attempt)
    return actions


def _start_command(inputs: DecisionInput, placements: tuple[Placement, ...]) -> StartAttempt:
    launcher = inputs.launcher
    work = inputs.run.plan.work
    attempts = inputs.policy.max_restarts + 1
    is_script = isinstance(work, Script)
    return StartAttempt(
        launcher.attempt,
        not is_script,
        placements,
        launcher.hosts,
        attempts - 1 > launcher.attempt,
        work.follow if isinstance(work, Script) else (),
        attempts,
        is_script and not inputs.run.plan.is_local,  # there, a user sees the files that are written
    )


def _takes_start(inputs: DecisionInput, host: HostState, link: HostLink) -> bool:
    """Return True if a host can start its ranks now. A launcher that has returned may lack what the
    ranks need."""
    if is_done(host, link) or not can_send(link, StartAttempt, inputs.launcher.attempt):
        return False
    numbers = inputs.launcher.hosts
    master = inputs.run.hosts[numbers[0]]
    return master.reserved is not None and not inputs.missing_variables(numbers)


def place_ranks(inputs: DecisionInput) -> Sequence[tuple[Placement, ...]]:
    """Return the ranks of each host of the attempt. Raises: PlanError."""
    hosts = [host for host, _ in inputs.taking_part()]
    master = hosts[0].reserved
    if not master:
        raise PlanError(f"{inputs.run.host_name(hosts[0].index)}: it has reserved no port")
    return place(
        inputs.plan_on(inputs.launcher.hosts),
        [host.hello for host in hosts],
        master.address,
        master.port,
        inputs.forwarded,
        inputs.launcher.attempt,
    )


def give_up(inputs: DecisionInput) -> list[Action]:
    """Lose a host that drops out of a start, which ends the start."""
    if inputs.launcher.stage is not Stage.STARTING:
        return []
    actions: list[Action] = []
    for host, _ in inputs.taking_part():
        if host.ended and not host.lost:
            end = agent_end.describe_end(host.ended)
            why = f"its agent ended while the ranks were being started: {end}"
            actions.append(lose(inputs, host, why))
    return actions


# Checks -------------------------------------------------------------------------------------------


def _check_facts(inputs: DecisionInput) -> list[Action]:
    hosts = [host for host, _ in inputs.taking_part()]
    plan = inputs.plan_on(inputs.launcher.hosts)
    facts: list[Hello | None] = [host.hello for host in hosts]
    if inputs.policy.doctor:
        offsets = [host.offset for host in hosts]
        return _report(inputs, doctor.check_facts(plan, facts, offsets))
    try:
        master_address(plan, [hello for hello in facts if hello])
    except PlanError as error:
        return [Say(StartRefused(SESSION, str(error)))]
    return []


def _reservations(inputs: DecisionInput) -> list[Reserve | None]:
    """Return the port that each host is to reserve. Without checks, only that of the
    rendezvous."""
    facts = [host.hello for host, _ in inputs.taking_part()]
    requests = doctor.reservations(inputs.plan_on(inputs.launcher.hosts), facts)
    if not inputs.policy.doctor or len(facts) == 1:
        requests[1:] = [None] * (len(requests) - 1)
    return requests


def _ask_for_connections(inputs: DecisionInput) -> list[Action]:
    """Have the hosts try connections, as all ports are reserved, and check what came of them."""
    hosts = inputs.taking_part()
    requests = doctor.connects([host.reserved for host, _ in hosts])
    actions: list[Action] = []
    is_complete = True
    for (host, link), connect in zip(hosts, requests, strict=True):
        if connect and not doctor.has_tried(connect, host.connected):
            is_complete = False
            actions += send_once(link, connect, inputs.launcher.attempt)
    if not is_complete:
        return actions
    return [Say(Prepared()), *_check_connections(inputs, hosts, requests)]


def _check_connections(
    inputs: DecisionInput, hosts: Sequence[LinkedHost], requests: Sequence[Connect | None]
) -> list[Action]:
    plan = inputs.plan_on(inputs.launcher.hosts)
    facts = [host.hello for host, _ in hosts]
    reserved = [host.reserved for host, _ in hosts]
    # An answer to the attempt before names other addresses.
    connected = [
        doctor.answers_to(connect, host.connected)
        for (host, _), connect in zip(hosts, requests, strict=True)
    ]
    checks = doctor.check_connections(plan, facts, reserved, connected)
    if not inputs.policy.doctor:
        checks = [check for check in checks if check.outcome == doctor.FAILED]
    return _report(inputs, checks)


def _report(inputs: DecisionInput, checks: Sequence[CheckFinished]) -> list[Action]:
    """Say what the checks have found, and refuse the start if something has failed. The host of a
    check is a position among the hosts of the attempt."""
    grouped = doctor.grouped(checks)
    names = [inputs.run.plan.hosts[number].name for number in inputs.launcher.hosts]
    actions: list[Action] = [Say(_with_number(inputs, check)) for check in grouped]
    for check in grouped:
        if check.outcome == doctor.FAILED and doctor.is_told(check):
            host = SESSION if check.same else _with_number(inputs, check).host
            actions.append(Say(StartRefused(host, doctor.refusal(names, check))))
    return actions


def _with_number(inputs: DecisionInput, check: CheckFinished) -> CheckFinished:
    """Return the check with its hosts' numbers in the run, some of whose hosts may have been left
    out."""
    if check.host == SESSION:
        return check
    numbers = inputs.launcher.hosts
    same = tuple(numbers[position] for position in check.same)
    return replace(check, host=numbers[check.host], same=same)
