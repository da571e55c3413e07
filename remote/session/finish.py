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
from remote.run.findings.late_ranks import find_late_ranks
from remote.run.findings.script_visibility import has_shown_start, unfollowed
from remote.run.findings.start_halt import find_start_halt
from remote.run.state.host_state import HostState
from remote.run.state.launcher_state import FETCH, UPLOAD, Stage
from remote.run.state.phases import RankPhase
from remote.run.state.rank_state import RankState
from remote.session.actions import Actions, Fetch, Release, Say, StopTransfers
from remote.session.decision_input import DecisionInput, LinkedHost, is_done, send_once
from remote.session.host_link import HostLink
from remote.session.reach import lose
from remote.session.restart import restart
from training.wire.commands import Close, Stop
from training.wire.events import SESSION


def hear_stop(inputs: DecisionInput) -> Actions:
    """Stop the run if another launcher has stopped it."""
    if inputs.launcher.person_stopped:
        return
    if any(host.stop_heard for host, _ in inputs.live):
        yield Say(Stopping(STOPPED_ELSEWHERE, by_person=True, elsewhere=True))


def notice_failure(inputs: DecisionInput) -> Actions:
    """Notice the first failure. The other ranks then have a moment for their last words."""
    if not inputs.launcher.failing and has_failed(inputs):
        yield Say(AttemptFailing())


def stop_failed(inputs: DecisionInput) -> Actions:
    """Stop an attempt that has failed, or whose loss is no number."""
    divergence = inputs.run.progress.diverged
    if inputs.now >= inputs.launcher.failing_at + inputs.times.evidence:
        yield Say(Stopping("a rank or host failed", by_person=False))
    elif divergence and inputs.policy.on_nan is OnNan.STOP:
        yield Say(Stopping(divergence.text, by_person=False, final=True))


def stop_late(inputs: DecisionInput) -> Actions:
    """Stop an attempt that does not get going in the time that it has for it."""
    launcher = inputs.launcher
    start_timeout = inputs.policy.start_timeout
    # Before the first attempt, the time that hosts need to be reached counts as well.
    attempt_began = launcher.attempt_at or inputs.run.started
    if not start_timeout or launcher.returned or inputs.now < attempt_began + start_timeout:
        return
    missing_progress, activity = _describe_missing_start(inputs)
    if missing_progress:
        stop_reason = f"{missing_progress} {start_timeout:g} s after the start"
        if activity:
            stop_reason += f"; {activity}"
        yield Say(Stopping(stop_reason, by_person=False))


def stop_ranks(inputs: DecisionInput) -> Actions:
    """Tell the hosts what ends their ranks, or themselves."""
    launcher = inputs.launcher
    is_closing = launcher.stage is Stage.CLOSING
    may_have_ranks = launcher.stop_now if is_closing else launcher.started or launcher.returned
    if launcher.is_transferring(UPLOAD):
        yield StopTransfers()
        yield Say(Transferring(UPLOAD, over=True))
    for host, link in inputs.live:
        if may_have_ranks and (host.running or not is_closing):
            yield from _send_stop(inputs, host, link)
        if is_closing:
            yield from _send_close(inputs, host, link)


def give_up(inputs: DecisionInput) -> Actions:
    """Lose the hosts that do not end in time."""
    is_closing = inputs.launcher.stage is Stage.CLOSING
    for host, link in inputs.live:
        # What came before that and is still to be taken in may be the end that is waited for.
        is_late = inputs.now - link.behind >= _patience(inputs, link)
        if is_late and (host.running or is_closing):
            yield lose(inputs, host, _explain_late(inputs, link))


def end_reaching(inputs: DecisionInput) -> Actions:
    """Give up if no host can be reached."""
    return _lose_unreachable(inputs, inputs.live)


def end_starting(inputs: DecisionInput) -> Actions:
    """Restart without the hosts that were lost in a start, or close."""
    if any(is_done(host, link) for host, link in inputs.taking_part):
        return restart(inputs)
    return _lose_unreachable(inputs, inputs.taking_part)


def end_attempt(inputs: DecisionInput) -> Actions:
    """Restart all or close, once no rank runs any more."""
    launcher = inputs.launcher
    is_stopping = launcher.stage is Stage.STOPPING
    # No rank can be there that an end would have to wait for.
    if is_stopping and not (launcher.started or launcher.returned):
        yield Say(SessionClosing())
        return
    busy_hosts = [(host, link) for host, link in inputs.live if not _is_idle(inputs, host, link)]
    if busy_hosts:
        yield from _lose_unreachable(inputs, busy_hosts)
    elif (is_stopping or launcher.failing) and not launcher.person_stopped:
        yield from restart(inputs)
    else:
        yield Say(SessionClosing())


def close(inputs: DecisionInput) -> Actions:
    """Fetch results once all hosts have ended, then close."""
    launcher = inputs.launcher
    if inputs.live:
        return
    # Only after all hosts have ended: until then, ranks may still write what is to be fetched.
    if FETCH not in launcher.transfers and _is_to_fetch(inputs):
        fetch_hosts = [host.index for host in inputs.run.hosts if not (host.lost or host.left_out)]
        yield Say(Transferring(FETCH))
        yield Fetch(tuple(fetch_hosts))
    elif not launcher.is_transferring(FETCH):
        unfollowed_remark = unfollowed(inputs.run)
        if unfollowed_remark:
            yield Say(RemarkMade(SESSION, unfollowed_remark))
        yield Say(SessionClosed())


# -------------------------------------------------------------------------------------------------


def has_failed(inputs: DecisionInput) -> bool:
    """Return True if something of the attempt has failed."""
    run_state = inputs.run
    if run_state.cause or any(rank.has_failed for rank in run_state.processes):
        return True
    attempt_hosts = [host for host, _ in inputs.taking_part]
    if any(host.gone or _has_ended_badly(host) for host in attempt_hosts):
        return True
    return any(host.lost for host in attempt_hosts) and _stand_still(inputs)


def _describe_missing_start(inputs: DecisionInput) -> tuple[str, str]:
    """Return which ranks have not done what before their first step, "" if all have begun; and
    what the first of them does, "" if that is not known."""
    run_state = inputs.run
    behind_ranks = inputs.ranks_without_step
    if behind_ranks:
        missing_progress = "made no step" if run_state.plan.job else "not been started"
        return f"{ranks_text(behind_ranks)} had {missing_progress}", ""
    if run_state.plan.job or has_shown_start(run_state):
        return "", ""
    late_ranks = find_late_ranks(run_state)
    if late_ranks is None:
        halt = find_start_halt(run_state)
        stopped_ranks = halt.find_stopped() if halt else []
        names = ranks_text([rank.rank for rank in stopped_ranks])
        verb = "is" if len(stopped_ranks) == 1 else "are"
        activity = f"{names} {verb} stopped, by SIGSTOP or a debugger" if stopped_ranks else ""
        return "the script had shown no step", activity
    first_rank = late_ranks.late[0]
    activity = late_ranks.describe_activity(first_rank)
    return late_ranks.describe_late(), f"rank {first_rank.rank} {activity}" if activity else ""


def _stand_still(inputs: DecisionInput) -> bool:
    """Return True if the ranks that are heard wait for those that are not. While they go on, a host
    that this launcher has never heard goes on with them."""
    run_state = inputs.run
    if run_state.stall:
        return True
    heard_ranks = [rank for rank in run_state.processes if run_state.hosts[rank.host].hello]
    living_ranks = [rank for rank in heard_ranks if not rank.exited]
    return bool(living_ranks) and all(_is_joining(rank, inputs) for rank in living_ranks)


def _is_joining(rank: RankState, inputs: DecisionInput) -> bool:
    """Return True if a rank has waited for too long to meet the others."""
    is_meeting = rank.phase in (RankPhase.RENDEZVOUS, RankPhase.JOINING)
    return is_meeting and inputs.now - rank.since >= inputs.times.lost


def _has_ended_badly(host: HostState) -> bool:
    # An agent that is kept ends by itself once its ranks have, or if another launcher closes it:
    # no failure by itself. Else somebody killed it, or its disk is full.
    if not host.ended:
        return False
    return host.ended.died or host.ended.reason not in agent_end.QUIET_ENDS


def _send_stop(inputs: DecisionInput, host: HostState, link: HostLink) -> Actions:
    launcher = inputs.launcher
    grace_seconds = 0.0 if launcher.stop_now else inputs.times.grace
    may_restart = launcher.restarts_left > 0
    stop_command = Stop(grace_seconds, again=may_restart, by_person=launcher.person_stopped)
    # A launcher may have started ranks after the order had come.
    return send_once(link, stop_command, stop_command, host.attempt)


def _send_close(inputs: DecisionInput, host: HostState, link: HostLink) -> Actions:
    is_hopeless = inputs.launcher.impatient and link.is_first
    if link.is_open:
        yield from send_once(link, Close())
    elif is_hopeless or not inputs.may_return(host):
        yield Release(host.index)


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
    end_began = max(launcher.ending_at, link.tried_at)
    latest_end = end_began + times.closing
    if not launcher.person_stopped:
        return latest_end
    # A person at the terminal need not wait for a host that is not heard anyway.
    quiet_end = max(end_began + times.moment, link.heard_at + times.away)
    return min(latest_end, quiet_end)


def _explain_late(inputs: DecisionInput, link: HostLink) -> str:
    """Say why a host is not waited for any longer."""
    times = inputs.times
    if inputs.launcher.abandoned:
        late_reason = "was not waited for"
    elif inputs.now >= max(inputs.launcher.ending_at, link.tried_at) + times.closing:
        late_reason = f"did not end within {times.closing:g} s"
    else:
        late_reason = f"has not been heard for {inputs.now - link.heard_at:.0f} s"
    return _with_command(inputs, late_reason)


def _with_command(inputs: DecisionInput, loss_reason: str) -> str:
    """Add the command that stops what may still run on a host of a kept run."""
    if not inputs.launcher.keep or inputs.launcher.stage is not Stage.STOPPING:
        return loss_reason
    run_name = inputs.run.plan.run
    return f"{loss_reason}; once it is back, rankboard stop {run_name} stops what still runs there"


def _lose_unreachable(inputs: DecisionInput, unheard_hosts: Collection[LinkedHost]) -> Actions:
    """Give up on hosts that cannot be reached, once no other is left. This applies to a launcher
    that has returned to a run."""
    reach_problems = [link.problem for _, link in unheard_hosts if link.problem]
    if len(reach_problems) < len(unheard_hosts):
        return
    for (host, _), reach_problem in zip(unheard_hosts, reach_problems, strict=True):
        yield lose(inputs, host, _with_command(inputs, reach_problem.text))


def _is_to_fetch(inputs: DecisionInput) -> bool:
    """Return True if results are to be brought. A person who stopped the run before its end need
    not wait for them."""
    run_state = inputs.run
    has_finished = all(rank.finished for rank in run_state.ranks)
    if inputs.launcher.person_stopped and not has_finished:
        return False
    has_begun = (
        run_state.has_begun if run_state.plan.job else any(rank.pid for rank in run_state.processes)
    )
    return inputs.policy.fetch and has_begun
