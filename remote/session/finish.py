"""Decisions about an end: what fails a run, stopping its ranks, and closing."""

from __future__ import annotations

import math
from collections.abc import Collection

from remote.events import Closed, Closing, Failing, Said, Stopping, Transferring
from remote.format import ranks_text
from remote.plan.plan import OnNan
from remote.run.diagnosis import agent_end
from remote.run.findings.script_visibility import unfollowed
from remote.run.state.host_state import HostState
from remote.run.state.launcher_state import FETCH, UPLOAD, Stage
from remote.run.state.phases import RankPhase
from remote.run.state.rank_state import RankState
from remote.session.actions import Action, Fetch, Release, Say, StopTransfers
from remote.session.contact import Contact
from remote.session.reach import lose
from remote.session.restart import restart
from remote.session.view import Host, View, is_done, send_once
from training.wire.commands import Close, Stop
from training.wire.events import SESSION

ELSEWHERE = "stopped from elsewhere"


def hear_stop(view: View) -> list[Action]:
    """Another launcher has stopped the run."""
    if view.course.person_stopped or not any(host.stop_heard for host, _ in view.live):
        return []
    return [Say(Stopping(ELSEWHERE, by_person=True, elsewhere=True))]


def notice_failure(view: View) -> list[Action]:
    """A first failure: the others have a moment for their last words."""
    if view.course.stage is not Stage.RUNNING or view.course.failing or not has_failed(view):
        return []
    return [Say(Failing())]


def stop_failed(view: View) -> list[Action]:
    """Stop an attempt that has failed, that does not get going, or whose loss is no number."""
    course = view.course
    policy = view.policy
    if course.stage is Stage.RUNNING and view.now >= course.failing_at + view.times.evidence:
        return [Say(Stopping("a rank or host failed", by_person=False))]
    diverged = view.run.progress.diverged
    if course.stage is Stage.RUNNING and diverged and policy.on_nan is OnNan.STOP:
        return [Say(Stopping(diverged.text, by_person=False, final=True))]
    late = _late_ranks(view)
    if late:
        what = "made no step" if view.run.plan.job else "not been started"
        why = f"{ranks_text(late)} had {what} {policy.start_timeout:g} s after the start"
        return [Say(Stopping(why, by_person=False))]
    return []


def end_hosts(view: View) -> list[Action]:
    """Tell the hosts what ends their ranks, or themselves."""
    course = view.course
    if course.stage not in (Stage.STOPPING, Stage.CLOSING):
        return []
    actions: list[Action] = []
    if course.is_transferring(UPLOAD):
        actions = [StopTransfers(), Say(Transferring(UPLOAD, over=True))]
    for host, contact in view.live:
        if _has_ranks(view, host):
            actions += _send_stop(view, host, contact)
        if course.stage is Stage.CLOSING:
            actions += _send_close(view, host, contact)
    return actions


def _has_ranks(view: View, host: HostState) -> bool:
    """Whether a host may have ranks that are to be stopped."""
    course = view.course
    if course.stage is Stage.STOPPING:
        return course.started or course.returned
    return course.stop_now and bool(host.running)


def give_up(view: View) -> list[Action]:
    """Lose the hosts that do not end in time."""
    is_closing = view.course.stage is Stage.CLOSING
    late = [
        (host, contact)
        for host, contact in view.live
        if (host.running or is_closing)
        # What came before that and is still to be taken in may be the end that is waited for.
        and view.now - contact.behind >= _patience(view, contact)
    ]
    return [lose(view, host, _explain_late(view, host, contact)) for host, contact in late]


def finish_attempt(view: View) -> list[Action]:
    """Once no rank runs any more: restart all, or close."""
    course = view.course
    if course.stage is Stage.REACHING:
        return _lose_unreachable(view, view.live)
    if course.stage is Stage.STARTING:
        if not any(is_done(host, contact) for host, contact in view.taking_part()):
            return _lose_unreachable(view, view.taking_part())
        return restart(view)
    if course.stage is Stage.STOPPING and not (course.started or course.returned):
        return [Say(Closing())]
    if course.stage not in (Stage.RUNNING, Stage.STOPPING):
        return []
    left = [(host, contact) for host, contact in view.live if not _is_idle(view, host, contact)]
    if left:
        return _lose_unreachable(view, left)
    failed = course.failing or (not course.person_stopped and course.stage is Stage.STOPPING)
    return restart(view) if failed and not course.person_stopped else [Say(Closing())]


def close(view: View) -> list[Action]:
    """Once all hosts have ended: fetch results, then close."""
    if view.course.stage is not Stage.CLOSING or view.live:
        return []
    if FETCH not in view.course.transfers and _is_to_fetch(view):
        there = tuple(host.index for host, _ in view.hosts() if not (host.lost or host.left_out))
        return [Say(Transferring(FETCH)), Fetch(there)]
    if view.course.is_transferring(FETCH):
        return []
    said = [Say(Said(SESSION, text)) for text in filter(None, [unfollowed(view.run)])]
    return [*said, Say(Closed())]


# -------------------------------------------------------------------------------------------------


def has_failed(view: View) -> bool:
    """Whether something of the attempt has failed."""
    if view.run.cause or any(rank.exited and rank.exited.code for rank in view.run.ranks):
        return True
    hosts = [host for host, _ in view.taking_part()]
    if any(host.gone or _ended_badly(host) for host in hosts):
        return True
    return any(host.lost for host in hosts) and _stand_still(view)


def _stand_still(view: View) -> bool:
    """Return whether the ranks that are heard wait for those that are not. While they go on, a host
    that this launcher has never heard goes on with them."""
    if view.run.stall:
        return True
    heard = [rank for rank in view.run.ranks if view.run.hosts[rank.host].hello]
    living = [rank for rank in heard if not rank.exited]
    return bool(living) and all(_is_joining(rank, view) for rank in living)


def _is_joining(rank: RankState, view: View) -> bool:
    """Return whether a rank has waited for too long to meet the others."""
    is_meeting = rank.phase in (RankPhase.RENDEZVOUS, RankPhase.JOINING)
    return is_meeting and view.now - rank.since >= view.times.lost


def _ended_badly(host: HostState) -> bool:
    """An agent that is kept ends by itself once its ranks have, or where another launcher closes
    it, which is no failure by itself; else somebody killed it, or its disk is full."""
    if not host.ended:
        return False
    return host.ended.died or host.ended.reason not in agent_end.QUIET


def _late_ranks(view: View) -> list[int]:
    """The ranks that have not begun in the time that they have for it."""
    course = view.course
    run = view.run
    is_starting = course.stage in (Stage.REACHING, Stage.STARTING, Stage.RUNNING)
    if not view.policy.start_timeout or not is_starting or course.returned:
        return []
    began = course.attempt_at or run.started
    return view.without_step if view.now >= began + view.policy.start_timeout else []


def _send_stop(view: View, host: HostState, contact: Contact) -> list[Action]:
    course = view.course
    grace = 0.0 if course.stop_now else view.times.grace
    may_restart = course.restarts_left > 0
    order = Stop(grace, again=may_restart, by_person=course.person_stopped)
    # A launcher may have started ranks after the order had come.
    return send_once(contact, order, order, host.attempt)


def _send_close(view: View, host: HostState, contact: Contact) -> list[Action]:
    if contact.is_open:
        return send_once(contact, Close())
    hopeless = view.course.impatient and contact.is_first
    return [] if view.may_return(host) and not hopeless else [Release(host.index)]


def _is_idle(view: View, host: HostState, contact: Contact) -> bool:
    """Whether no rank runs on a host: all have ended, or where all is being stopped, none has been
    started."""
    course = view.course
    known = not contact.is_first or course.abandoned
    over = course.abandoned or view.now >= course.stopping_at + view.times.closing
    never = course.stage is Stage.STOPPING and known and over
    return not host.running and (host.launched or never)


def _patience(view: View, contact: Contact) -> float:
    """Until when a host has time to end. One that this launcher has returned to is first to be
    reached."""
    course = view.course
    times = view.times
    if course.abandoned:
        return course.abandoned_at
    if contact.is_first or course.ending_at == math.inf:
        return math.inf
    began = max(course.ending_at, contact.tried_at)
    if not course.person_stopped:
        return began + times.closing
    return min(began + times.closing, max(began + times.moment, contact.heard_at + times.away))


def _explain_late(view: View, host: HostState, contact: Contact) -> str:
    name = view.run.host_name(host.index)
    times = view.times
    if view.course.abandoned:
        what = "was not waited for"
    elif view.now >= max(view.course.ending_at, contact.tried_at) + times.closing:
        what = f"did not end within {times.closing:g} s"
    else:
        what = f"has not been heard for {view.now - contact.heard_at:.0f} s"
    return _may_go_on(view, f"{name}: {what}")


def _may_go_on(view: View, reason: str) -> str:
    if not view.course.keep or view.course.stage is not Stage.STOPPING:
        return reason
    run = view.run.plan.run
    return f"{reason}; once it is back, rankboard stop {run} stops what still runs there"


def _lose_unreachable(view: View, left: Collection[Host]) -> list[Action]:
    """Whoever returns waits no longer for hosts that cannot be reached, once no other is left."""
    if not left or not all(contact.problem for _, contact in left):
        return []
    return [lose(view, host, _may_go_on(view, contact.problem)) for host, contact in left]


def _is_to_fetch(view: View) -> bool:
    """A person who stopped the run before its end need not wait for results."""
    finished = all(rank.finished for rank in view.run.ranks)
    stopped = view.course.person_stopped and not finished
    has_begun = (
        view.run.has_begun if view.run.plan.job else any(rank.pid for rank in view.run.ranks)
    )
    return view.policy.fetch and not stopped and has_begun
