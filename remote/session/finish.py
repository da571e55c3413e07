"""Decisions about an end: what fails a run, stopping its ranks, and closing."""

from __future__ import annotations

import math
from collections.abc import Collection

from remote.events import (
    AttemptFailing,
    RemarkMade,
    SessionClosed,
    SessionClosing,
    Stopping,
    Transferring,
)
from remote.format import ranks_text
from remote.plan.plan import OnNan
from remote.run.diagnosis import agent_end
from remote.run.diagnosis.verdict import STOPPED_ELSEWHERE
from remote.run.findings.script_visibility import unfollowed
from remote.run.state.host_state import HostState
from remote.run.state.launcher_state import FETCH, UPLOAD, Stage
from remote.run.state.phases import RankPhase
from remote.run.state.rank_state import RankState
from remote.session.actions import Action, Fetch, Release, Say, StopTransfers
from remote.session.decision_input import DecisionInput, LinkedHost, is_done, send_once
from remote.session.host_link import HostLink
from remote.session.reach import lose
from remote.session.restart import restart
from training.wire.commands import Close, Stop
from training.wire.events import SESSION


def hear_stop(inputs: DecisionInput) -> list[Action]:
    """Stop the run if another launcher has stopped it."""
    if inputs.launcher.person_stopped or not any(host.stop_heard for host, _ in inputs.live):
        return []
    return [Say(Stopping(STOPPED_ELSEWHERE, by_person=True, elsewhere=True))]


def notice_failure(inputs: DecisionInput) -> list[Action]:
    """Notice the first failure. The other ranks then have a moment for their last words."""
    launcher = inputs.launcher
    if launcher.stage is not Stage.RUNNING or launcher.failing or not has_failed(inputs):
        return []
    return [Say(AttemptFailing())]


def stop_failed(inputs: DecisionInput) -> list[Action]:
    """Stop an attempt that has failed, that does not get going, or whose loss is no number."""
    launcher = inputs.launcher
    if launcher.stage is Stage.RUNNING:
        if inputs.now >= launcher.failing_at + inputs.times.evidence:
            return [Say(Stopping("a rank or host failed", by_person=False))]
        diverged = inputs.run.progress.diverged
        if diverged and inputs.policy.on_nan is OnNan.STOP:
            return [Say(Stopping(diverged.text, by_person=False, final=True))]
    late = _late_ranks(inputs)
    if not late:
        return []
    what = "made no step" if inputs.run.plan.job else "not been started"
    seconds = f"{inputs.policy.start_timeout:g} s"
    why = f"{ranks_text(late)} had {what} {seconds} after the start"
    return [Say(Stopping(why, by_person=False))]


def end_hosts(inputs: DecisionInput) -> list[Action]:
    """Tell the hosts what ends their ranks, or themselves."""
    launcher = inputs.launcher
    if launcher.stage not in (Stage.STOPPING, Stage.CLOSING):
        return []
    actions: list[Action] = []
    if launcher.is_transferring(UPLOAD):
        actions = [StopTransfers(), Say(Transferring(UPLOAD, over=True))]
    for host, link in inputs.live:
        if _may_have_ranks(inputs, host):
            actions += _send_stop(inputs, host, link)
        if launcher.stage is Stage.CLOSING:
            actions += _send_close(inputs, host, link)
    return actions


def _may_have_ranks(inputs: DecisionInput, host: HostState) -> bool:
    """Return True if a host may have ranks that are to be stopped."""
    launcher = inputs.launcher
    if launcher.stage is Stage.STOPPING:
        return launcher.started or launcher.returned
    return launcher.stop_now and bool(host.running)


def give_up(inputs: DecisionInput) -> list[Action]:
    """Lose the hosts that do not end in time."""
    is_closing = inputs.launcher.stage is Stage.CLOSING
    actions: list[Action] = []
    for host, link in inputs.live:
        if not (host.running or is_closing):
            continue
        # What came before that and is still to be taken in may be the end that is waited for.
        if inputs.now - link.behind >= _patience(inputs, link):
            actions.append(lose(inputs, host, _explain_late(inputs, link)))
    return actions


def finish_attempt(inputs: DecisionInput) -> list[Action]:
    """Restart all or close, once no rank runs any more."""
    launcher = inputs.launcher
    if launcher.stage is Stage.REACHING:
        return _lose_unreachable(inputs, inputs.live)
    if launcher.stage is Stage.STARTING:
        if not any(is_done(host, link) for host, link in inputs.taking_part()):
            return _lose_unreachable(inputs, inputs.taking_part())
        return restart(inputs)
    if launcher.stage is Stage.STOPPING and not (launcher.started or launcher.returned):
        return [Say(SessionClosing())]
    if launcher.stage not in (Stage.RUNNING, Stage.STOPPING):
        return []
    busy = [(host, link) for host, link in inputs.live if not _is_idle(inputs, host, link)]
    if busy:
        return _lose_unreachable(inputs, busy)
    is_failed = launcher.failing or launcher.stage is Stage.STOPPING
    if is_failed and not launcher.person_stopped:
        return restart(inputs)
    return [Say(SessionClosing())]


def close(inputs: DecisionInput) -> list[Action]:
    """Fetch results once all hosts have ended, then close."""
    launcher = inputs.launcher
    if launcher.stage is not Stage.CLOSING or inputs.live:
        return []
    if FETCH not in launcher.transfers and _is_to_fetch(inputs):
        hosts = [host for host, _ in inputs.hosts() if not (host.lost or host.left_out)]
        return [Say(Transferring(FETCH)), Fetch(tuple(host.index for host in hosts))]
    if launcher.is_transferring(FETCH):
        return []
    remark = unfollowed(inputs.run)
    remarks = [Say(RemarkMade(SESSION, remark))] if remark else []
    return [*remarks, Say(SessionClosed())]


# -------------------------------------------------------------------------------------------------


def has_failed(inputs: DecisionInput) -> bool:
    """Return True if something of the attempt has failed."""
    run = inputs.run
    if run.cause or any(rank.exited and rank.exited.code for rank in run.ranks):
        return True
    hosts = [host for host, _ in inputs.taking_part()]
    if any(host.gone or _has_ended_badly(host) for host in hosts):
        return True
    return any(host.lost for host in hosts) and _stand_still(inputs)


def _stand_still(inputs: DecisionInput) -> bool:
    """Return True if the ranks that are heard wait for those that are not. While they go on, a host
    that this launcher has never heard goes on with them."""
    run = inputs.run
    if run.stall:
        return True
    heard = [rank for rank in run.ranks if run.hosts[rank.host].hello]
    living = [rank for rank in heard if not rank.exited]
    return bool(living) and all(_is_joining(rank, inputs) for rank in living)


def _is_joining(rank: RankState, inputs: DecisionInput) -> bool:
    """Return True if a rank has waited for too long to meet the others."""
    is_meeting = rank.phase in (RankPhase.RENDEZVOUS, RankPhase.JOINING)
    return is_meeting and inputs.now - rank.since >= inputs.times.lost


def _has_ended_badly(host: HostState) -> bool:
    # An agent that is kept ends by itself once its ranks have, or if another launcher closes it:
    # no failure by itself. Else somebody killed it, or its disk is full.
    if not host.ended:
        return False
    return host.ended.died or host.ended.reason not in agent_end.QUIET


def _late_ranks(inputs: DecisionInput) -> list[int]:
    """Return the ranks that have not begun in the time that they have for it."""
    launcher = inputs.launcher
    patience = inputs.policy.start_timeout
    is_starting = launcher.stage in (Stage.REACHING, Stage.STARTING, Stage.RUNNING)
    if not patience or not is_starting or launcher.returned:
        return []
    began = launcher.attempt_at or inputs.run.started
    return inputs.ranks_without_step if inputs.now >= began + patience else []


def _send_stop(inputs: DecisionInput, host: HostState, link: HostLink) -> list[Action]:
    launcher = inputs.launcher
    grace = 0.0 if launcher.stop_now else inputs.times.grace
    may_restart = launcher.restarts_left > 0
    order = Stop(grace, again=may_restart, by_person=launcher.person_stopped)
    # A launcher may have started ranks after the order had come.
    return send_once(link, order, order, host.attempt)


def _send_close(inputs: DecisionInput, host: HostState, link: HostLink) -> list[Action]:
    if link.is_open:
        return send_once(link, Close())
    is_hopeless = inputs.launcher.impatient and link.is_first
    if inputs.may_return(host) and not is_hopeless:
        return []
    return [Release(host.index)]


def _is_idle(inputs: DecisionInput, host: HostState, link: HostLink) -> bool:
    """Return True if no rank runs on a host: all have ended or, if all is being stopped, none has
    been started."""
    launcher = inputs.launcher
    if host.running or host.launched:
        return not host.running
    is_known = not link.is_first or launcher.abandoned
    is_over = launcher.abandoned or inputs.now >= launcher.stopping_at + inputs.times.closing
    return launcher.stage is Stage.STOPPING and is_known and is_over


def _patience(inputs: DecisionInput, link: HostLink) -> float:
    """Return until when a host has time to end. One that this launcher has returned to is first to
    be reached."""
    launcher = inputs.launcher
    times = inputs.times
    if launcher.abandoned:
        return launcher.abandoned_at
    if link.is_first or launcher.ending_at == math.inf:
        return math.inf
    began = max(launcher.ending_at, link.tried_at)
    at_most = began + times.closing
    if not launcher.person_stopped:
        return at_most
    return min(at_most, max(began + times.moment, link.heard_at + times.away))


def _explain_late(inputs: DecisionInput, link: HostLink) -> str:
    """Say why a host is not waited for any longer."""
    times = inputs.times
    if inputs.launcher.abandoned:
        what = "was not waited for"
    elif inputs.now >= max(inputs.launcher.ending_at, link.tried_at) + times.closing:
        what = f"did not end within {times.closing:g} s"
    else:
        what = f"has not been heard for {inputs.now - link.heard_at:.0f} s"
    return _with_command(inputs, what)


def _with_command(inputs: DecisionInput, reason: str) -> str:
    """Add the command that stops what may still run on a host of a kept run."""
    if not inputs.launcher.keep or inputs.launcher.stage is not Stage.STOPPING:
        return reason
    run = inputs.run.plan.run
    return f"{reason}; once it is back, rankboard stop {run} stops what still runs there"


def _lose_unreachable(inputs: DecisionInput, hosts: Collection[LinkedHost]) -> list[Action]:
    """Give up on hosts that cannot be reached, once no other is left. This applies to a launcher
    that has returned to a run."""
    actions: list[Action] = []
    for host, link in hosts:
        if not link.problem:
            return []
        actions.append(lose(inputs, host, _with_command(inputs, link.problem.text)))
    return actions


def _is_to_fetch(inputs: DecisionInput) -> bool:
    """Return True if results are to be brought. A person who stopped the run before its end need
    not wait for them."""
    run = inputs.run
    has_finished = all(rank.finished for rank in run.ranks)
    if inputs.launcher.person_stopped and not has_finished:
        return False
    has_begun = run.has_begun if run.plan.job else any(rank.pid for rank in run.ranks)
    return inputs.policy.fetch and has_begun
