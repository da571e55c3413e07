"""Decisions when ranks make no progress: ask for their stacks, then do what the policy says."""

from __future__ import annotations

from remote.events import StacksAsked, StallExplained, Stopping
from remote.plan.plan import OnStall
from remote.run.findings import stall
from remote.run.state.launcher_state import Stage
from remote.run.state.types import Stall
from remote.session.actions import Action, Say, Send
from remote.session.view import View
from training.wire.commands import Stacks


def watch(view: View) -> list[Action]:
    """Notice a stall, and act on it once the stacks of the ranks have come, or should have."""
    if view.course.stage is not Stage.RUNNING:
        return []
    found = stall.find_stall(view.run, view.now, view.times.stall)
    if found:
        return [Say(found), *ask_stacks(view)]
    current = view.run.stall
    if not current or current.explained:
        return []
    if view.policy.on_stall is not OnStall.REPORT:
        if any(host.missed for host, _ in view.live):
            return []  # the ranks may wait for a host that is silent
        if view.course.stacks_asked_at < _moving_again_at(view):
            return ask_stacks(view) if view.now >= _moving_again_at(view) else []
    if view.now < view.course.stacks_asked_at + view.times.stacks and not stall.has_all_stacks(
        view.run
    ):
        return []
    return _act(view, current)


def ask_stacks(view: View) -> list[Action]:
    """Ask where each rank is."""
    running = [(host, contact) for host, contact in view.live if host.running and contact.is_open]
    return [
        Say(StacksAsked()),
        *(Send(host.index, Stacks(), view.now) for host, _ in running),
    ]


def _moving_again_at(view: View) -> float:
    """When the ranks should move again after a host was silent: TCP takes as long again at most."""
    since = view.run.stall.since if view.run.stall else 0.0
    back = [host.back + host.away for host in view.run.hosts if host.back > since]
    return max(back, default=0.0)


def _act(view: View, current: Stall) -> list[Action]:
    if view.policy.on_stall is OnStall.REPORT:
        return [Say(StallExplained(current.text))]
    final = view.policy.on_stall is OnStall.STOP
    return [Say(Stopping(current.text, by_person=False, final=final))]
