"""Decisions about what a person asks for: to stop a run, or to leave it to its agents."""

from __future__ import annotations

from remote.events import Detached, DetachRequested, RemarkMade, Stopping
from remote.record.layout import PLAN
from remote.run.state.launcher_state import FETCH, Stage
from remote.session.actions import Actions, Say, Send, StopTransfers
from remote.session.decision_input import DecisionInput
from remote.session.start import public_plan
from training.wire.commands import Keep, OnDisconnect
from training.wire.events import SESSION


def stop(inputs: DecisionInput, stop_reason: str, *, now: bool) -> Actions:
    """Stop the run; the second time, do not wait for its hosts any more. `now`: ranks get no time
    to end by themselves."""
    launcher = inputs.launcher
    if launcher.detached or launcher.stage is Stage.OVER:
        return
    if launcher.is_transferring(FETCH):
        yield StopTransfers()
    yield Say(Stopping(stop_reason, by_person=True, now=now))


def detach(inputs: DecisionInput) -> Actions:
    """Leave the run to its agents, once the ranks run."""
    launcher = inputs.launcher
    if launcher.stage in (Stage.REACHING, Stage.STARTING):
        yield Say(DetachRequested())
    elif launcher.stage is Stage.RUNNING:
        yield from _leave(inputs)
    elif launcher.is_transferring(FETCH):
        yield StopTransfers()  # what is left on the hosts stays there


def leave(inputs: DecisionInput) -> Actions:
    """Leave a run whose ranks run to its agents, if a person has asked for it before."""
    if inputs.launcher.leaving:
        yield from _leave(inputs)


def _leave(inputs: DecisionInput) -> Actions:
    launcher = inputs.launcher
    names_away = [
        host.name
        for host, link in inputs.live
        if not link.is_open or host.missed or link.held_up > inputs.times.moment
    ]
    if names_away and not launcher.keep:
        away_hosts = ", ".join(names_away)
        detach_remark = (
            f"cannot detach: {away_hosts} cannot be reached now; try again, or stop the run"
        )
        yield Say(RemarkMade(SESSION, detach_remark))
        if launcher.leaving:
            yield Say(DetachRequested(False))
        return
    plan_text = public_plan(inputs.run.plan, keeps_running=True)
    for host, link in inputs.live:
        if link.is_open:
            yield Send(host.index, Keep(PLAN, plan_text), Keep)
            # After the plan: an agent that is kept without one could not be returned to.
            yield Send(host.index, OnDisconnect(True), True)
    yield Say(Detached())
