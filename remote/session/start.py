"""Decisions about a start: from the facts of all hosts to their ranks.

The hosts are checked by their facts. Then each reserves a port, the first one that of the
rendezvous, and tries connections to others. Then the ranks are placed and started.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from remote.doctor import doctor
from remote.events import (
    Checked,
    Closing,
    Prepared,
    Preparing,
    Refused,
    Said,
    Starting,
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
from remote.session.contact import Contact
from remote.session.reach import lose
from remote.session.restart import restart
from remote.session.view import Host, View, is_done, send_once, takes
from training.wire.commands import Connect, Keep, Placement, Reserve, Start
from training.wire.events import SESSION, Hello, Reserved


def upload(view: View) -> list[Action]:
    """Begin to upload what the plan uploads, while the hosts are reached."""
    course = view.course
    if course.stage is not Stage.REACHING or course.returned or UPLOAD in course.transfers:
        return []
    return [Say(Transferring(UPLOAD)), Upload()] if view.run.plan.uploads else []


def keep_plan(view: View) -> list[Action]:
    """Have every host keep the plan, for a launcher that returns to the run."""
    if view.course.stage not in (Stage.REACHING, Stage.STARTING):
        return []
    greeted = [contact for host, contact in view.live if host.hello and takes(contact, Keep)]
    if not greeted:
        return []
    plan = public_plan(view.run.plan, keep=view.course.keep)
    command = Keep(PLAN, plan, max(0.0, view.now - view.run.started))
    return [action for contact in greeted for action in send_once(contact, command)]


def public_plan(plan: Plan, *, keep: bool) -> str:
    """The plan without the contact to its hosts, which may hold a password and are of no use to
    another launcher."""
    hosts = tuple(replace(host, proxy_command="") for host in plan.hosts)
    return serialize.dump(replace(plan, hosts=hosts, policy=replace(plan.policy, keep=keep)))


def prepare(view: View) -> list[Action]:
    """Check the hosts by their facts, once all are known; not earlier, so that all hosts that
    cannot take part are named at once."""
    course = view.course
    if course.stage is Stage.REACHING:
        if not all(host.hello or is_done(host, contact) for host, contact in view.hosts()):
            return []
        done = [host for host, contact in view.hosts() if is_done(host, contact)]
        if course.refused or any(host.hello is None for host in done):
            return [Say(Closing())]
        if done:  # an attempt that fails before its ranks are started fails as any other
            return restart(view)
    elif course.stage is not Stage.STARTING or course.preparing:
        return []
    facts = [view.run.hosts[on].hello for on in course.hosts]
    remarks = frameworks.remarks(view.plan_on(course.hosts), facts)
    said = [Say(Said(SESSION, text)) for text in remarks]
    return [Say(Preparing(course.hosts)), *_check_facts(view), *said]


def ask(view: View) -> list[Action]:
    """Ask the hosts for ports and connections; once all have answered, check what came of it."""
    course = view.course
    if course.stage is not Stage.STARTING or not course.preparing or course.prepared:
        return []
    if course.refused or not any(wanted := _reservations(view)):
        return [Say(Closing())]
    hosts = view.taking_part()
    asked = [
        action
        for (host, contact), reserve in zip(hosts, wanted, strict=True)
        if reserve and not host.reserved
        for action in send_once(contact, reserve, course.attempt)
    ]
    if any(reserve and not host.reserved for (host, _), reserve in zip(hosts, wanted, strict=True)):
        return asked
    return _connect(view)


def start(view: View) -> list[Action]:
    """Start the ranks, once all has been checked and is there."""
    course = view.course
    if course.stage is not Stage.STARTING or not course.prepared:
        return []
    if course.refused:
        return [Say(Closing())]
    has_lost_one = any(is_done(host, contact) for host, contact in view.taking_part())
    if course.is_transferring(UPLOAD) or has_lost_one:
        return []
    try:
        place_ranks(view)
    except PlanError as error:
        return [Say(Refused(SESSION, view.run.plan.named(str(error))))]
    return [Say(Starting())]


def send_starts(view: View) -> list[Action]:
    """Tell each host to start its ranks, until it has."""
    course = view.course
    if course.stage is not Stage.RUNNING or course.failing:
        return []
    hosts = [
        (host, contact) for host, contact in view.taking_part() if host.attempt != course.attempt
    ]
    if not any(_takes_start(view, host, contact) for host, contact in hosts):
        return []
    placed = dict(zip(course.hosts, place_ranks(view), strict=True))
    work = view.run.plan.work
    is_ours, follow = (False, work.follow) if isinstance(work, Script) else (True, ())
    attempts = view.policy.max_restarts + 1
    may_restart = attempts - 1 > course.attempt
    tell_written = not is_ours and not view.run.plan.is_local  # there, a user sees the files
    commands = {
        host.index: Start(
            course.attempt,
            is_ours,
            placed[host.index],
            course.hosts,
            may_restart,
            follow,
            attempts,
            tell_written,
        )
        for host, _ in hosts
    }
    return [
        action
        for host, contact in hosts
        if _takes_start(view, host, contact)
        for action in send_once(contact, commands[host.index], course.attempt)
    ]


def _takes_start(view: View, host: HostState, contact: Contact) -> bool:
    """Whether a host can be told now. A launcher that has returned may lack what the ranks need."""
    is_asked = (Start, view.course.attempt) in contact.sent
    if is_done(host, contact) or is_asked or not contact.is_open:
        return False
    master = view.run.hosts[view.course.hosts[0]]
    return master.reserved is not None and not view.missing_variables(view.course.hosts)


def place_ranks(view: View) -> Sequence[tuple[Placement, ...]]:
    """The ranks of each host of the attempt. Raises: PlanError."""
    hosts = [host for host, _ in view.taking_part()]
    master = hosts[0].reserved
    if not master:
        raise PlanError(f"{view.run.host_name(hosts[0].index)}: it has reserved no port")
    facts = [host.hello for host in hosts]
    return place(
        view.plan_on(view.course.hosts),
        facts,
        master.address,
        master.port,
        view.forwarded,
        view.course.attempt,
    )


def give_up(view: View) -> list[Action]:
    """A host that drops out of a start ends it."""
    if view.course.stage is not Stage.STARTING:
        return []
    actions: list[Action] = []
    for host, _ in view.taking_part():
        if host.ended and not host.lost:
            why = "its agent ended while the ranks were being started"
            why += f": {agent_end.describe_end(host.ended)}"
            actions.append(lose(view, host, f"{view.run.host_name(host.index)}: {why}"))
    return actions


def _connect(view: View) -> list[Action]:
    """All ports are reserved: have the hosts try connections, and check what came of them."""
    hosts = view.taking_part()
    wanted = doctor.connects([host.reserved for host, _ in hosts])
    asked: list[Action] = []
    whole = True
    for (host, contact), connect in zip(hosts, wanted, strict=True):
        if connect and not doctor.has_tried(connect, host.connected):
            whole = False
            asked += send_once(contact, connect, view.course.attempt)
    if not whole:
        return asked
    return [Say(Prepared()), *_check_connections(view, hosts, wanted)]


def _check_connections(
    view: View, hosts: Sequence[Host], wanted: Sequence[Connect | None]
) -> list[Action]:
    facts = [host.hello for host, _ in hosts]
    reserved: list[Reserved | None] = [host.reserved for host, _ in hosts]
    # An answer to the attempt before names others.
    connected = [
        doctor.answers_to(connect, host.connected)
        for (host, _), connect in zip(hosts, wanted, strict=True)
    ]
    found = doctor.check_connections(view.plan_on(view.course.hosts), facts, reserved, connected)
    shown = [one for one in found if view.policy.doctor or one.outcome == doctor.FAILED]
    return _report(view, shown)


def _check_facts(view: View) -> list[Action]:
    hosts = view.taking_part()
    facts: list[Hello | None] = [host.hello for host, _ in hosts]
    if view.policy.doctor:
        offsets = [host.offset for host, _ in hosts]
        return _report(view, doctor.check_facts(view.plan_on(view.course.hosts), facts, offsets))
    try:
        master_address(view.plan_on(view.course.hosts), [hello for hello in facts if hello])
    except PlanError as error:
        return [Say(Refused(SESSION, view.run.plan.named(str(error))))]
    return []


def _reservations(view: View) -> list[Reserve | None]:
    """The port that each host is to reserve. Without checks, only that of the rendezvous."""
    facts = [host.hello for host, _ in view.taking_part()]
    wanted = doctor.reservations(view.plan_on(view.course.hosts), facts)
    if not view.policy.doctor or len(facts) == 1:
        wanted[1:] = [None] * (len(wanted) - 1)
    return wanted


def _report(view: View, checks: Sequence[Checked]) -> list[Action]:
    """Say what was found, and refuse the start where something has failed. A check's `on` is a
    position among the hosts of the attempt."""
    named = view.run.plan.named
    plan = view.plan_on(view.course.hosts)
    found = doctor.with_hosts_file(plan, checks)
    names = [host.name for host in plan.hosts]
    refused = [one for one in found if one.outcome == doctor.FAILED and doctor.is_told(one)]
    return [
        *(Say(_number(view, one)) for one in found),
        *(
            Say(Refused(_refused_on(view, one), named(doctor.refusal(names, one))))
            for one in refused
        ),
    ]


def _refused_on(view: View, check: Checked) -> int:
    return SESSION if check.same else _number(view, check).on


def _number(view: View, check: Checked) -> Checked:
    """The check with its hosts' numbers in the run, some of whose hosts may have been left out."""
    if check.on == SESSION:
        return check
    number = view.course.hosts
    return replace(check, on=number[check.on], same=tuple(number[on] for on in check.same))
