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
from remote.plan.place import master_address, place, place_before
from remote.plan.plan import Plan, PlanError
from remote.record.layout import PLAN
from remote.run.diagnosis import agent_end
from remote.run.state.host_state import HostState
from remote.run.state.launcher_state import UPLOAD
from remote.sanitise import cut
from remote.session.actions import Actions, Say, Upload
from remote.session.decision_input import DecisionInput, can_send, is_done, send_once
from remote.session.host_link import HostLink
from remote.session.reach import lose
from remote.session.restart import restart
from training.wire.commands import Keep, Placement, Reserve, RunBefore, StartAttempt
from training.wire.events import SESSION
from training.wire.host_events import Connected

LONGEST_LINE = 300
"""Characters of a last line that a refusal has."""


def upload(inputs: DecisionInput) -> Actions:
    """Begin to upload what the plan uploads, while the hosts are reached."""
    launcher = inputs.launcher
    if inputs.run.plan.uploads and not launcher.returned and UPLOAD not in launcher.transfers:
        yield Say(Transferring(UPLOAD))
        yield Upload()


def keep_plan(inputs: DecisionInput) -> Actions:
    """Have every host keep the plan, for a launcher that returns to the run."""
    ready_links = [link for host, link in inputs.live if host.hello and can_send(link, Keep)]
    if ready_links:
        run_state = inputs.run
        plan_text = public_plan(run_state.plan, keeps_running=inputs.launcher.keep)
        keep_command = Keep(PLAN, plan_text, max(0.0, inputs.now - run_state.started))
        for link in ready_links:
            yield from send_once(link, keep_command)


def public_plan(plan: Plan, *, keeps_running: bool) -> str:
    """Return the plan as text, without the commands that lead to its hosts: they may hold a
    password, and are of no use to another launcher."""
    public_hosts = tuple(replace(host, proxy_command="") for host in plan.hosts)
    return serialize.dump(
        replace(plan, hosts=public_hosts, policy=replace(plan.policy, keep=keeps_running))
    )


def check_hosts(inputs: DecisionInput) -> Actions:
    """Check the hosts by their facts, once all are known; not earlier, so that all hosts that
    cannot take part are named at once."""
    if any(host.hello is None for host, _ in inputs.live):
        return
    lost_hosts = [host for host, link in inputs.hosts if is_done(host, link)]
    if inputs.launcher.refused or any(host.hello is None for host in lost_hosts):
        yield Say(SessionClosing())
    elif lost_hosts:  # an attempt that fails before its ranks are started fails as any other
        yield from restart(inputs)
    else:
        yield from _prepare(inputs)


def prepare(inputs: DecisionInput) -> Actions:
    """Check the hosts again before a restart."""
    if not inputs.launcher.preparing:
        yield from _prepare(inputs)


def _prepare(inputs: DecisionInput) -> Actions:
    yield Say(Preparing(inputs.launcher.hosts))
    yield from _check_facts(inputs)
    host_facts = [host.hello for host, _ in inputs.taking_part]
    for framework_remark in frameworks.remarks(inputs.plan, host_facts):
        yield Say(RemarkMade(SESSION, framework_remark))


def ask(inputs: DecisionInput) -> Actions:
    """Ask the hosts for ports and connections; once all have answered, check what came of it."""
    launcher = inputs.launcher
    if not launcher.preparing or launcher.prepared:
        return
    reserve_commands = [] if launcher.refused else _reservations(inputs)
    if not any(reserve_commands):
        yield Say(SessionClosing())
        return
    is_complete = True
    for (host, link), reserve_command in zip(inputs.taking_part, reserve_commands, strict=True):
        if reserve_command and not host.reserved:
            is_complete = False
            yield from send_once(link, reserve_command, launcher.attempt)
    if is_complete:
        yield from _ask_for_connections(inputs)


def run_before(inputs: DecisionInput) -> Actions:
    """Have each host run the command that comes before its ranks, once. Refuse the start if it
    fails."""
    launcher = inputs.launcher
    is_ready = launcher.prepared and not launcher.refused and not launcher.is_transferring(UPLOAD)
    pending_hosts = _pending_before(inputs)
    if not is_ready or not pending_hosts:
        return
    failed_hosts = [host for host in pending_hosts if host.before_end]
    for host in failed_hosts:
        yield Say(StartRefused(host.index, _explain_before(inputs.plan, host)))
    ready_positions = [
        position
        for position, (host, link) in enumerate(inputs.taking_part)
        if not (host.is_prepared or is_done(host, link)) and can_send(link, RunBefore)
    ]
    # A launcher that has returned may lack what the command needs.
    if failed_hosts or not ready_positions or inputs.missing_variables(launcher.hosts):
        return
    try:
        placements_by_host = place_ranks(inputs)
    except PlanError as error:
        yield Say(StartRefused(SESSION, str(error)))
        return
    for position in ready_positions:
        _, link = inputs.taking_part[position]
        placement = place_before(inputs.plan, position, placements_by_host[position][0])
        yield from send_once(link, RunBefore(placement))


def _pending_before(inputs: DecisionInput) -> list[HostState]:
    """Return the hosts on which the command that comes before the ranks has not done its work."""
    script = inputs.run.plan.script
    if not script or not script.before:
        return []
    return [host for host, _ in inputs.taking_part if not host.is_prepared]


def _explain_before(plan: Plan, host: HostState) -> str:
    """Say how the command that comes before the ranks has failed on a host."""
    assert plan.script
    assert host.before_end
    code = host.before_end.code
    end_text = f"killed by signal {-code}" if code < 0 else f"exit code {code}"
    last_line = next((line for line in reversed(host.tail) if line.strip()), "")
    reason = f"{host.name}: --before '{plan.script.before}' failed: {end_text}"
    return f"{reason}: {cut(last_line.strip(), LONGEST_LINE)}" if last_line else reason


def start(inputs: DecisionInput) -> Actions:
    """Start the ranks, once all has been checked and is there."""
    launcher = inputs.launcher
    if not launcher.prepared:
        return
    if launcher.refused:
        yield Say(SessionClosing())
        return
    has_lost_one = any(is_done(host, link) for host, link in inputs.taking_part)
    if launcher.is_transferring(UPLOAD) or has_lost_one or _pending_before(inputs):
        return
    try:
        place_ranks(inputs)
    except PlanError as error:
        yield Say(StartRefused(SESSION, str(error)))
    else:
        yield Say(Starting())


def send_starts(inputs: DecisionInput) -> Actions:
    """Tell each host to start its ranks, until it has."""
    launcher = inputs.launcher
    ready_hosts = [
        (host, link)
        for host, link in inputs.taking_part
        if host.attempt != launcher.attempt and _takes_start(inputs, host, link)
    ]
    if not ready_hosts or launcher.failing:
        return
    placements_by_host = dict(zip(launcher.hosts, place_ranks(inputs), strict=True))
    for host, link in ready_hosts:
        start_command = _start_command(inputs, placements_by_host[host.index])
        yield from send_once(link, start_command, launcher.attempt)


def _start_command(inputs: DecisionInput, placements: tuple[Placement, ...]) -> StartAttempt:
    launcher = inputs.launcher
    plan = inputs.run.plan
    max_restarts = inputs.policy.max_restarts
    script = plan.script
    return StartAttempt(
        launcher.attempt,
        script is None,
        placements,
        launcher.hosts,
        max_restarts > launcher.attempt,
        script.follow if script else (),
        max_restarts + 1,
        script is not None and not plan.is_local,  # there, a user sees the files that are written
    )


def _takes_start(inputs: DecisionInput, host: HostState, link: HostLink) -> bool:
    """Return True if a host can start its ranks now. A launcher that has returned may lack what the
    ranks need."""
    if is_done(host, link) or not can_send(link, StartAttempt, inputs.launcher.attempt):
        return False
    master_host, _ = inputs.taking_part[0]
    return master_host.reserved is not None and not inputs.missing_variables(inputs.launcher.hosts)


def place_ranks(inputs: DecisionInput) -> Sequence[tuple[Placement, ...]]:
    """Return the ranks of each host of the attempt. Raises: PlanError."""
    attempt_hosts = [host for host, _ in inputs.taking_part]
    master_port = attempt_hosts[0].reserved
    if not master_port:
        raise PlanError(f"{attempt_hosts[0].name}: it has reserved no port")
    host_facts = [host.hello for host in attempt_hosts]
    attempt = inputs.launcher.attempt
    return place(
        inputs.plan, host_facts, master_port.address, master_port.port, inputs.forwarded, attempt
    )


def give_up(inputs: DecisionInput) -> Actions:
    """Lose a host that drops out of a start, which ends the start."""
    for host, _ in inputs.taking_part:
        if host.ended and not host.lost:
            end_text = agent_end.describe_end(host.ended)
            yield lose(
                inputs, host, f"its agent ended while the ranks were being started: {end_text}"
            )


# Checks -------------------------------------------------------------------------------------------


def _check_facts(inputs: DecisionInput) -> Actions:
    attempt_hosts = [host for host, _ in inputs.taking_part]
    host_facts = [host.hello for host in attempt_hosts]
    if inputs.policy.doctor:
        clock_offsets = [host.offset for host in attempt_hosts]
        yield from _report(inputs, doctor.check_facts(inputs.plan, host_facts, clock_offsets))
        return
    try:
        master_address(inputs.plan, [hello for hello in host_facts if hello])
    except PlanError as error:
        yield Say(StartRefused(SESSION, str(error)))


def _reservations(inputs: DecisionInput) -> list[Reserve | None]:
    """Return the port that each host is to reserve. Without checks, only that of the
    rendezvous."""
    host_facts = [host.hello for host, _ in inputs.taking_part]
    reserve_commands = doctor.reservations(inputs.plan, host_facts)
    if not inputs.policy.doctor or len(host_facts) == 1:
        reserve_commands[1:] = [None] * (len(reserve_commands) - 1)
    return reserve_commands


def _ask_for_connections(inputs: DecisionInput) -> Actions:
    """Have the hosts try connections, as all ports are reserved, and check what came of them."""
    reserved_ports = [host.reserved for host, _ in inputs.taking_part]
    connected_answers = list[list[Connected]]()
    is_complete = True
    for (host, link), connect_command in zip(
        inputs.taking_part, doctor.connects(reserved_ports), strict=True
    ):
        # An answer to the attempt before names other addresses.
        connected_answers.append(doctor.answers_to(connect_command, host.connected))
        if connect_command and not doctor.has_tried(connect_command, host.connected):
            is_complete = False
            yield from send_once(link, connect_command, inputs.launcher.attempt)
    if not is_complete:
        return
    yield Say(Prepared())
    host_facts = [host.hello for host, _ in inputs.taking_part]
    checks = doctor.check_connections(inputs.plan, host_facts, reserved_ports, connected_answers)
    if not inputs.policy.doctor:
        checks = [check for check in checks if check.outcome == doctor.FAILED]
    yield from _report(inputs, checks)


def _report(inputs: DecisionInput, checks: Sequence[CheckFinished]) -> Actions:
    """Say what the checks have found, and refuse the start if something has failed. The host of a
    check is a position among the hosts of the attempt."""
    grouped_checks = doctor.grouped(checks)
    host_names = [refused_host.name for refused_host, _ in inputs.taking_part]
    for check in grouped_checks:
        yield Say(_with_number(inputs, check))
    for check in grouped_checks:
        if check.outcome == doctor.FAILED and doctor.is_told(check):
            refused_host = SESSION if check.same else _with_number(inputs, check).host
            yield Say(StartRefused(refused_host, doctor.refusal(host_names, check)))


def _with_number(inputs: DecisionInput, check: CheckFinished) -> CheckFinished:
    """Return the check with its hosts' numbers in the run, some of whose hosts may have been left
    out."""
    if check.host == SESSION:
        return check
    host_indices = inputs.launcher.hosts
    same_hosts = tuple(host_indices[position] for position in check.same)
    return replace(check, host=host_indices[check.host], same=same_hosts)
