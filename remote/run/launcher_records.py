"""What launchers say of a run."""

from __future__ import annotations

import math
from dataclasses import replace

from remote import events as launcher
from remote.doctor.doctor import WARNING, is_told, warning
from remote.format import duration
from remote.plan.plan import OnNan, OnStall
from remote.run.diagnosis import stall_causes
from remote.run.run_state import BELIEVED, RunState
from remote.run.series import marks
from remote.run.state.host_state import SOUGHT, HostState
from remote.run.state.phases import HostPhase, RunPhase
from remote.run.state.types import Death, Evidence
from training.wire.events import SESSION, Event, Record

SAMPLE_EVERY = 1.0
"""Seconds between two samples of a host: it died about this long after its last record."""


def apply(run: RunState, record: Record, when: float) -> None:
    """Take in a record of a launcher."""
    event = record.event
    if isinstance(event, launcher.Preparing) and not run.are_hosts(event.hosts):
        return
    host = run.host(getattr(event, "on", SESSION))
    if host:
        _apply_on_host(run, event, host, when)
    match event:
        case launcher.Said() if not host:
            run.note("", event.text, when)
        case launcher.StallExplained(text):
            if not _is_said_of_stall(run, text):
                run.note("", text, when)
            if run.stall:
                run.stalls[-1] = replace(run.stall, explained=True)
        case launcher.Checked():
            _check(run, event, when)
        case launcher.Detached():
            run.note("", _detached_text(run), when)
        case launcher.Attached():
            _attach(run, when)
        case launcher.Starting():
            _start(run)
        case launcher.Restarted(hosts, reason) if run.are_hosts(hosts):
            run.restart(record.attempt, hosts, reason, when, started=False)
        case launcher.Stalled() if run.are_ranks(event.ranks):
            _begin_stall(run, event, when)
        case launcher.Refused(on, reason):
            _refuse(run, run.host_name(on), reason, when)
        case launcher.Stopping():
            _stop(run, event, when)
        case launcher.Failing():
            _judge_unheard(run)
        case launcher.Closed():
            _judge_unheard(run)
            run.phase, run.ended = RunPhase.ENDED, _end(run)
            run.verdict = run.judge.close()
    run.course.apply(event, when)


def _end(run: RunState) -> float:
    """Return when a run that a launcher closes has ended: with the last of its agents. By the age
    that these tell, all launchers say the same; without that, it is known where all had ended
    before the launcher returned."""
    agents = [host for host in run.hosts if not host.left_out]
    most = run.now - run.started + BELIEVED
    age = max((host.age_at_end for host in agents if host.age_at_end <= most), default=0.0)
    if age:
        return run.started + age
    last = max((host.heard for host in agents), default=run.now)
    is_found = all(host.ended for host in agents) and last < run.course.returned_at
    return last if is_found else run.now


def _apply_on_host(run: RunState, event: Event, host: HostState, when: float) -> None:
    """What a launcher says of a host."""
    match event:
        case launcher.Reaching(_, phase):
            host.enter(HostPhase(phase), when)
        case launcher.Clock(_, offset):
            if not host.heard:  # but for its Hello, which came before its clock was known
                host.began += host.offset - offset
            host.offset = offset
        case launcher.Said(_, text):
            run.note(host.name, text, when)
        case launcher.Silent(_, seconds):
            host.missed = True
            host.enter(HostPhase.SILENT, when)
            run.note(host.name, f"silent for {duration(seconds)}", when)
        case launcher.Parted(_, reason):
            host.parted = True
            run.note(host.name, f"{reason}; connecting again", when)
        case launcher.Refused(_, reason):
            host.reason = reason
        case launcher.Lost():
            _lose(run, event, host, when)


def _lose(run: RunState, event: launcher.Lost, host: HostState, when: float) -> None:
    host.enter(HostPhase.LOST, when)
    host.reason = event.reason
    host.lost = True
    host.running.clear()
    run.note(host.name, event.reason, when)
    died = when
    what = event.reason
    if event.reached:
        died = host.heard + SAMPLE_EVERY if host.heard else when
        what = f"host lost: {event.reason.removeprefix(f'{host.name}: ')}"
    if run.course.returned and not event.reached:
        return  # that is no failure, as the others may go on with it
    unfit = event.unfit and not run.is_under_way
    run.judge.judge_host(host, what, died, refused=unfit)


def _judge_unheard(run: RunState) -> None:
    """Judge the hosts of which a launcher that has returned heard nothing, as the attempt has
    failed or is over: they are the cause where nothing else is known."""
    for index in run.course.hosts:
        host = run.hosts[index]
        if host.lost and not host.gone:
            run.judge.judge_host(host, host.reason, host.since, evidence=Evidence.UNHEARD)


def _refuse(run: RunState, host: str, reason: str, when: float) -> None:
    run.note(host, reason, when)
    refused = not run.is_under_way
    run.judge.refuse(Death(host, -1, when, Evidence.KILLED, reason, refused=refused))


def _check(run: RunState, check: launcher.Checked, when: float) -> None:
    known = run.checks.get((check.on, check.check))
    run.checks[check.on, check.check] = check
    was_told = known is not None and known.outcome == WARNING  # before a restart
    if check.outcome == WARNING and is_told(check) and not was_told:
        local = f" --local {run.plan.world_size}" if run.plan.is_local else ""
        more = f"rankboard doctor{run.plan.hosts_option}{local}"
        run.note("", warning([host.name for host in run.hosts], check, more), when)


def _detached_text(run: RunState) -> str:
    policy = run.plan.policy
    stops = policy.on_stall is not OnStall.REPORT or policy.on_nan is OnNan.STOP
    waits = f"to handle stalls and failures: rankboard attach {run.plan.run}"
    more = f"; {waits}" if policy.max_restarts or stops else ""
    return f"detached: the run continues without its launcher{more}"


def _attach(run: RunState, when: float) -> None:
    """Another launcher has to find out for itself which hosts there are."""
    run.ended = 0.0
    for host in run.hosts:
        host.lost = False
        if host.phase in (HostPhase.WAITING, *SOUGHT):
            host.since = when  # it is this launcher that now waits for the host


def _start(run: RunState) -> None:
    """The hosts of the attempt have been told to start its ranks."""
    for index in run.course.hosts:
        run.hosts[index].launched = True
    for rank in run.ranks:
        run.hosts[rank.host].running.add(rank.rank)


def _begin_stall(run: RunState, event: launcher.Stalled, when: float) -> None:
    """These ranks, and perhaps some that were named before, have come to a halt."""
    for index in event.ranks:
        run.ranks[index].stalled = True
    if run.stall:
        run.stalls.pop()
    stall = stall_causes.begin(run.ranks, event, when)
    run.stalls.append(stall_causes.explained(stall, run.ranks, run.hosts))
    run.marks.add(marks.STALL, run.step, when - run.started)
    run.note("", f"stalled: {run.stalls[-1].text}", when)


def _is_said_of_stall(run: RunState, text: str) -> bool:
    """Whether the log has said this when the stall was found: stacks had come by then."""
    since = run.stall.since if run.stall else math.inf
    said = f"stalled: {text}"
    return any(note.time >= since and note.text == said for note in run.log.notes)


def _stop(run: RunState, event: launcher.Stopping, when: float) -> None:
    if event.reason != run.stop_reason and not _is_said_of_stall(run, event.reason):
        run.note("", event.reason, when)
    if run.phase is not RunPhase.ENDED:
        run.phase = RunPhase.STOPPING
    stall = run.stall
    death = stall_causes.death(stall, run.ranks, run.hosts, event.reason, when) if stall else None
    run.judge.stop(event.reason, event.by_person, when, death)
