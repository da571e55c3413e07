"""Decisions when ranks make no progress: ask for their stacks, then do what the policy says."""

from __future__ import annotations

from remote.events import StacksAsked, StallExplained, Stopping
from remote.plan.plan import OnStall
from remote.run.diagnosis.meeting_point import find_meeting_address
from remote.run.findings import stall
from remote.run.findings.start_halt import find_start_halt
from remote.run.findings.start_waits import NAMED_AFTER
from remote.run.state.types import Stall
from remote.session.actions import Actions, Say, Send
from remote.session.decision_input import DecisionInput, send_once
from training.wire.commands import Connect, Stacks


def watch(inputs: DecisionInput) -> Actions:
    """Notice a stall, and act on it once the stacks of the ranks have come, or should have."""
    new_stall = stall.find_stall(inputs.run, inputs.now, inputs.times.stall)
    if new_stall:
        yield Say(new_stall)
        yield from ask_stacks(inputs)
        return
    current_stall = inputs.run.stall
    silent_since = stall.find_silent_exchange(inputs.run, inputs.now, inputs.times.stall)
    if silent_since is not None and inputs.launcher.stacks_asked_at < silent_since:
        yield from ask_stacks(inputs)
        return
    if not current_stall or current_stall.explained:
        return
    asked_at = inputs.launcher.stacks_asked_at
    on_stall = inputs.policy.on_stall
    if on_stall is not OnStall.REPORT:
        if any(host.missed for host, _ in inputs.live):
            return  # the ranks may wait for a host that is silent
        moving_again_at = _moving_again_at(inputs, current_stall)
        # Stacks from before then would show the ranks waiting for that host only.
        if asked_at < moving_again_at:
            if inputs.now >= moving_again_at:
                yield from ask_stacks(inputs)
            return
    if inputs.now < asked_at + inputs.times.stacks and not stall.has_all_stacks(inputs.run):
        return
    if on_stall is OnStall.REPORT:
        yield Say(StallExplained(current_stall.text))
    else:
        is_final = on_stall is OnStall.STOP
        yield Say(Stopping(current_stall.text, by_person=False, final=is_final))


def locate_halted(inputs: DecisionInput) -> Actions:
    """Ask for stacks if ranks of a script stand still before the first step: they show where these
    are, and whether a signal has stopped one.

    A rank that is late goes on, so they are asked for again, each time after twice as long.
    """
    halt = find_start_halt(inputs.run)
    if not halt:
        return
    wait_seconds = inputs.now - halt.since
    waited_when_asked = inputs.launcher.stacks_asked_at - halt.since
    # Ranks of which none waits may load their data, or make their first step.
    first_asked = NAMED_AFTER if halt.waiting else inputs.times.stall.least
    if wait_seconds >= max(first_asked, 2 * waited_when_asked):
        yield from ask_stacks(inputs)


def try_meeting(inputs: DecisionInput) -> Actions:
    """Have the hosts try a connection to where the ranks of a script meet, if none is missing but
    they do not find each other."""
    address = find_meeting_address(inputs.run.ranks)
    if not address:
        return
    wait_seconds = inputs.now - max(rank.since for rank in inputs.run.ranks)
    if wait_seconds < NAMED_AFTER:
        return
    for host, link in inputs.live:
        if host.running:
            yield from send_once(link, Connect((address,)), address, inputs.launcher.attempt)


def ask_stacks(inputs: DecisionInput) -> Actions:
    """Ask where each rank is."""
    yield Say(StacksAsked())
    for host, link in inputs.live:
        if host.running and link.is_open:
            yield Send(host.index, Stacks(), inputs.now)


def _moving_again_at(inputs: DecisionInput, current_stall: Stall) -> float:
    """Return when the ranks should move again after a host was silent."""
    returned_hosts = [host for host in inputs.run.hosts if host.back > current_stall.since]
    # TCP takes at most as long again as it was cut off.
    return max((host.back + host.away for host in returned_hosts), default=0.0)
