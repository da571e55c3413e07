"""What the records of launchers change in the state of a run."""

from __future__ import annotations

import math
from dataclasses import replace

from remote.doctor.host_facts import WARNING
from remote.doctor.wording import is_told, warning
from remote.events import (
    Attached,
    AttemptFailing,
    CheckFinished,
    ClockMeasured,
    ConnectionLost,
    Detached,
    HostLost,
    HostPhaseChanged,
    HostSilent,
    Preparing,
    RemarkMade,
    Restarted,
    SessionClosed,
    Stalled,
    StallExplained,
    Starting,
    StartRefused,
    Stopping,
)
from remote.format import duration
from remote.plan.plan import OnNan, OnStall
from remote.run.diagnosis.stall_causes import as_death, begin_stall, explain_stall, lacks_stacks
from remote.run.output.log_levels import first_error
from remote.run.run_state import AGE_TOLERANCE, RunState, restart
from remote.run.series.marks import STALL
from remote.run.state.host_state import SOUGHT, HostState, names_host, strip_host_name
from remote.run.state.phases import HostPhase, RunPhase, Verdict
from remote.run.state.types import Cause, Evidence
from training.wire.events import SESSION, Event, Record

SAMPLE_EVERY = 1.0
"""Seconds between two samples of a host: it died about this long after its last record."""


def apply(run: RunState, record: Record, when: float) -> None:
    """Take in a record of a launcher."""
    event = record.event
    # Records come over a wire, and a file that somebody may have changed: no index may be wrong.
    if isinstance(event, Preparing) and not run.are_hosts(event.hosts):
        return
    host = run.host(getattr(event, "host", SESSION))
    if host:
        _apply_on_host(run, event, host, when)
    match event:
        case RemarkMade() if not host:
            run.note("", event.text, when)
        case StallExplained(text):
            if not _is_announced(run, text):
                run.note("", text, when)
            if run.stall:
                run.replace_stall(replace(run.stall, explained=True))
        case CheckFinished():
            _take_check(run, event, when)
        case Detached():
            run.note("", _describe_detaching(run), when)
        case Attached():
            _take_attach(run, when)
        case Starting():
            _take_start(run)
        case Restarted(hosts, reason) if run.are_hosts(hosts):
            restart(run, record.attempt, hosts, reason, when, started=False)
        case Stalled() if run.are_ranks(event.ranks):
            _begin_stall(run, event, when)
        case StartRefused(host_index, reason):
            _refuse_start(run, run.host_name(host_index), reason, when)
        case Stopping():
            _take_stop(run, event, when)
        case AttemptFailing():
            _judge_unheard(run)
        case SessionClosed():
            _judge_unheard(run)
            run.phase = RunPhase.ENDED
            run.ended = _end_of_run(run)
            was_open = run.verdict is None
            run.verdict = run.judge.close()
            if was_open:
                _note_silent_death(run, when)
    run.launcher.apply(event, when)


def _note_silent_death(run: RunState, when: float) -> None:
    """Say in the log how a rank died that has printed no error."""
    cause = run.cause
    if run.verdict is not Verdict.FAILED or cause is None or cause.rank < 0:
        return
    restarts = run.progress.restarts
    attempt_start = run.started + restarts[-1].seconds if restarts else 0.0
    if first_error(list(run.log.lines), cause, attempt_start) is None:
        run.log.note(when, "", cause.culprit_text, is_cause=True)


def _end_of_run(run: RunState) -> float:
    """Return when a run that a launcher closes has ended: with the last of its agents.

    By the age that agents report, all launchers find the same time. Without it, the end is known if
    all agents had ended before the launcher returned.
    """
    known_hosts = [host for host in run.hosts if not host.left_out]
    longest_age = run.now - run.started + AGE_TOLERANCE
    run_age = max(
        (host.age_at_end for host in known_hosts if host.age_at_end <= longest_age), default=0.0
    )
    if run_age:
        return run.started + run_age
    last_heard = max((host.heard for host in known_hosts), default=run.now)
    had_ended = all(host.ended for host in known_hosts) and last_heard < run.launcher.returned_at
    return last_heard if had_ended else run.now


def _apply_on_host(run: RunState, event: Event, host: HostState, when: float) -> None:
    """Take in what a launcher reports of a host."""
    match event:
        case HostPhaseChanged(_, phase):
            host.enter(HostPhase(phase), when)
        case ClockMeasured(_, offset):
            if not host.heard:  # but for its Hello, which came before its clock was known
                host.began += host.offset - offset
            host.offset = offset
        case RemarkMade(_, text):
            run.note(host.name, text, when)
        case HostSilent(_, seconds):
            host.missed = True
            host.enter(HostPhase.SILENT, when)
            run.note(host.name, f"silent for {duration(seconds)}", when)
        case ConnectionLost(_, reason):
            host.parted = True
            run.note(host.name, f"{reason}; connecting again", when)
        case StartRefused(_, reason):
            host.reason = reason
        case HostLost():
            _lose_host(run, event, host, when)


def _lose_host(run: RunState, event: HostLost, host: HostState, when: float) -> None:
    host.enter(HostPhase.LOST, when)
    host.reason = event.reason
    host.lost = True
    host.running.clear()
    run.note(host.name, event.reason, when)
    is_unfit = event.unfit and not run.is_under_way
    if event.reached:
        died_at = host.heard + SAMPLE_EVERY if host.heard else when
        problem = f"host lost: {strip_host_name(event.reason, host.name)}"
        run.judge.judge_host(host, problem, died_at, refused=is_unfit)
    elif not run.launcher.returned:
        # For a launcher that has returned it is no failure: the others may go on with the host.
        run.judge.judge_host(host, event.reason, when, refused=is_unfit)


def _judge_unheard(run: RunState) -> None:
    """Judge the hosts of which a launcher that has returned heard nothing.

    As the attempt has failed or is over, they are the cause if nothing else is known.
    """
    for index in run.launcher.hosts:
        host = run.hosts[index]
        if host.lost and not host.gone:
            run.judge.judge_host(host, host.reason, host.since, evidence=Evidence.UNHEARD)


def _refuse_start(run: RunState, host_name: str, reason: str, when: float) -> None:
    run.note(host_name, reason, when)
    refusal = Cause(
        host_name,
        -1,
        reason,
        time=when,
        evidence=Evidence.KILLED,
        refused=not run.is_under_way,
        names_hosts=names_host(reason, host_name),
    )
    run.judge.refuse(refusal)


def _take_check(run: RunState, check: CheckFinished, when: float) -> None:
    earlier_check = run.checks.get((check.host, check.check))
    run.checks[check.host, check.check] = check
    was_warning = earlier_check is not None and earlier_check.outcome == WARNING  # before a restart
    if check.outcome == WARNING and is_told(check) and not was_warning:
        command = f"rankboard doctor{run.plan.selection_option}"
        text = warning([host.name for host in run.hosts], check, command)
        # The dashboard shows it above the hosts, and in the list of checks.
        run.note("", text, when, is_minor=True)


def _describe_detaching(run: RunState) -> str:
    detach_text = "detached: the run continues without its launcher"
    policy = run.plan.policy
    stops_by_itself = policy.on_stall is not OnStall.REPORT or policy.on_nan is OnNan.STOP
    if policy.max_restarts or stops_by_itself:
        detach_text += f"; to handle stalls and failures: rankboard attach {run.plan.run}"
    return detach_text


def _take_attach(run: RunState, when: float) -> None:
    """Take in another launcher, which has to find out for itself which hosts there are."""
    # Whatever closed it before: this launcher finds its end anew.
    run.ended = 0.0
    for host in run.hosts:
        host.lost = False
        if host.phase in (HostPhase.WAITING, *SOUGHT):
            host.since = when  # it is this launcher that now waits for the host


def _take_start(run: RunState) -> None:
    """Take in that the hosts of the attempt have been told to start its ranks."""
    for index in run.launcher.hosts:
        run.hosts[index].launched = True
    for rank in run.processes:
        run.hosts[rank.host].running.add(rank.rank)


def _begin_stall(run: RunState, event: Stalled, when: float) -> None:
    """Take in that these ranks, and perhaps some that were named before, have come to a halt."""
    for rank_number in event.ranks:
        run.ranks[rank_number].stalled = True
    if run.stall:
        # One stall that has grown is told once, with all its ranks.
        run.stalls.pop()
    stall = begin_stall(run.ranks, event, when)
    # Where a launcher returns, the hosts tell of their ranks one after the other: the stacks of
    # some say nothing about whom these wait for.
    if not lacks_stacks(stall, run.ranks):
        stall = explain_stall(stall, run.ranks, run.hosts)
    run.stalls.append(stall)
    run.announced_stalls[stall.text] = when
    run.mark(STALL, run.step, when)
    run.note("", f"stalled: {stall.text}", when)


def _is_announced(run: RunState, stall_text: str) -> bool:
    """Return True if the log has said this when the stall was found: stacks had come by then."""
    if not run.stall:
        return False
    return run.announced_stalls.get(stall_text, -math.inf) >= run.stall.since


def _take_stop(run: RunState, event: Stopping, when: float) -> None:
    # The log has it already if an agent gave the same reason, or if the stall was announced with
    # it.
    if event.reason != run.stop_reason and not _is_announced(run, event.reason):
        run.note("", event.reason, when)
    if run.phase is not RunPhase.ENDED:
        run.phase = RunPhase.STOPPING
    death = None
    if run.stall:
        death = as_death(run.stall, run.ranks, run.hosts, event.reason, when)
    run.judge.stop(event.reason, event.by_person, when, death)
