"""Decisions about what a person asks for: to stop a run, or to leave it to its agents."""

from __future__ import annotations

from remote.events import Detached, Leaving, Said, Stopping
from remote.record.layout import PLAN
from remote.run.state.launcher_state import FETCH, Stage
from remote.session.actions import Action, Say, Send, StopTransfers
from remote.session.start import public_plan
from remote.session.view import View
from training.wire.commands import Keep, OnDisconnect
from training.wire.events import SESSION


def stop(view: View, reason: str, *, now: bool) -> list[Action]:
    """A person stops the run; the second time, its hosts are not waited for any more. `now`: ranks
    get no time to end by themselves."""
    if view.course.detached or view.course.stage is Stage.OVER:
        return []
    ended = [StopTransfers()] if view.course.is_transferring(FETCH) else []
    return [*ended, Say(Stopping(reason, by_person=True, now=now))]


def detach(view: View) -> list[Action]:
    """A person leaves the run to its agents, once the ranks run."""
    course = view.course
    if course.stage in (Stage.REACHING, Stage.STARTING):
        return [Say(Leaving())]
    if course.stage is Stage.CLOSING and course.is_transferring(FETCH):
        return [StopTransfers()]  # what is left on the hosts stays there
    return leave(view, asked=True)


def leave(view: View, *, asked: bool = False) -> list[Action]:
    """Leave a run whose ranks run to its agents, if a person has asked for it."""
    course = view.course
    if course.stage is not Stage.RUNNING or not (asked or course.leaving):
        return []
    away = _names_away(view)
    if away and not course.keep:
        what = f"cannot detach: {', '.join(away)} cannot be reached now; try again, or stop the run"
        return [Say(Said(SESSION, what)), *([Say(Leaving(False))] if course.leaving else [])]
    plan = public_plan(view.run.plan, keep=True)
    actions: list[Action] = []
    for host, contact in view.live:
        if contact.is_open:
            on = host.index
            actions += [Send(on, Keep(PLAN, plan), Keep), Send(on, OnDisconnect(True), True)]
    return [*actions, Say(Detached())]


def _names_away(view: View) -> list[str]:
    moment = view.times.moment
    return [
        view.run.host_name(host.index)
        for host, contact in view.live
        if not contact.is_open or host.missed or contact.held_up > moment
    ]
