"""Decisions about what a person asks for: to stop a run, or to leave it to its agents."""

from __future__ import annotations

from remote.events import Detached, DetachRequested, RemarkMade, Stopping
from remote.record.layout import PLAN
from remote.run.state.launcher_state import FETCH, Stage
from remote.session.actions import Action, Say, Send, StopTransfers
from remote.session.decision_input import DecisionInput
from remote.session.start import public_plan
from training.wire.commands import Keep, OnDisconnect
from training.wire.events import SESSION


def stop(inputs: DecisionInput, reason: str, *, now: bool) -> list[Action]:
    """Stop the run; the second time, do not wait for its hosts any more. `now`: ranks get no time
    to end by themselves."""
    launcher = inputs.launcher
    if launcher.detached or launcher.stage is Stage.OVER:
        return []
    stopped = [StopTransfers()] if launcher.is_transferring(FETCH) else []
    return [*stopped, Say(Stopping(reason, by_person=True, now=now))]


def detach(inputs: DecisionInput) -> list[Action]:
    """Leave the run to its agents, once the ranks run."""
    launcher = inputs.launcher
    if launcher.stage in (Stage.REACHING, Stage.STARTING):
        return [Say(DetachRequested())]
    if launcher.stage is Stage.CLOSING and launcher.is_transferring(FETCH):
        return [StopTransfers()]  # what is left on the hosts stays there
    return leave(inputs, asked=True)


def leave(inputs: DecisionInput, *, asked: bool = False) -> list[Action]:
    """Leave a run whose ranks run to its agents, if a person has asked for it."""
    launcher = inputs.launcher
    if launcher.stage is not Stage.RUNNING or not (asked or launcher.leaving):
        return []
    away = _names_away(inputs)
    if away and not launcher.keep:
        text = f"cannot detach: {', '.join(away)} cannot be reached now; try again, or stop the run"
        withdrawn = [Say(DetachRequested(False))] if launcher.leaving else []
        return [Say(RemarkMade(SESSION, text)), *withdrawn]
    plan = public_plan(inputs.run.plan, keep=True)
    actions: list[Action] = []
    for host, link in inputs.live:
        if link.is_open:
            actions.append(Send(host.index, Keep(PLAN, plan), Keep))
            actions.append(Send(host.index, OnDisconnect(True), True))
    return [*actions, Say(Detached())]


def _names_away(inputs: DecisionInput) -> list[str]:
    """Return the names of the hosts that do not take a command now."""
    names: list[str] = []
    for host, link in inputs.live:
        if not link.is_open or host.missed or link.held_up > inputs.times.moment:
            names.append(inputs.run.host_name(host.index))
    return names
