"""Decisions when ranks make no progress: ask for their stacks, then do what the policy says."""

from __future__ import annotations

from remote.events import StacksAsked, StallExplained, Stopping
from remote.plan.plan import OnStall
from remote.run.findings import stall
from remote.run.state.launcher_state import Stage
from remote.run.state.types import Stall
from remote.session.actions import Action, Say, Send
from remote.session.decision_input import DecisionInput
from training.wire.commands import Stacks


def watch(inputs: DecisionInput) -> list[Action]:
    """Notice a stall, and act on it once the stacks of the ranks have come, or should have."""
    launcher = inputs.launcher
    if launcher.stage is not Stage.RUNNING:
        return []
    new_stall = stall.find_stall(inputs.run, inputs.now, inputs.times.stall)
    if new_stall:
        return [Say(new_stall), *ask_stacks(inputs)]
    current = inputs.run.stall
    if not current or current.explained:
        return []
    if inputs.policy.on_stall is not OnStall.REPORT:
        if any(host.missed for host, _ in inputs.live):
            return []  # the ranks may wait for a host that is silent
        moving_again_at = _moving_again_at(inputs, current)
        if launcher.stacks_asked_at < moving_again_at:
            return ask_stacks(inputs) if inputs.now >= moving_again_at else []
    is_due = inputs.now >= launcher.stacks_asked_at + inputs.times.stacks
    if not is_due and not stall.has_all_stacks(inputs.run):
        return []
    return _act(inputs, current)


def ask_stacks(inputs: DecisionInput) -> list[Action]:
    """Ask where each rank is."""
    actions: list[Action] = [Say(StacksAsked())]
    for host, link in inputs.live:
        if host.running and link.is_open:
            actions.append(Send(host.index, Stacks(), inputs.now))
    return actions


def _moving_again_at(inputs: DecisionInput, current: Stall) -> float:
    """Return when the ranks should move again after a host was silent."""
    hosts = [host for host in inputs.run.hosts if host.back > current.since]
    # TCP takes at most as long again as it was cut off.
    return max((host.back + host.away for host in hosts), default=0.0)


def _act(inputs: DecisionInput, current: Stall) -> list[Action]:
    if inputs.policy.on_stall is OnStall.REPORT:
        return [Say(StallExplained(current.text))]
    is_final = inputs.policy.on_stall is OnStall.STOP
    return [Say(Stopping(current.text, by_person=False, final=is_final))]
