"""Decisions about connections: a host that is silent gets another one, one that stays away is
lost."""

from __future__ import annotations

from remote.doctor import doctor
from remote.events import Detached, HostLost, HostPhaseChanged, HostSilent, RemarkMade
from remote.run.state.host_state import SOUGHT, HostState
from remote.run.state.launcher_state import Stage
from remote.run.state.phases import HostPhase
from remote.session.actions import Action, Open, Release, Say, Send
from remote.session.decision_input import DecisionInput
from remote.session.host_link import HostLink
from training.wire.commands import Close
from training.wire.enums import Reach
from training.wire.events import SESSION

LEFT_OUT = "is back, but the run has gone on without it: what is left there ends"


def reach(inputs: DecisionInput) -> list[Action]:
    """Reach each host that is not reached yet, or is not heard any more."""
    if is_unheard(inputs):
        return _wait_for_any(inputs)
    actions: list[Action] = []
    for host, link in inputs.live:
        actions += _reach(inputs, host, link)
    return actions


def greet(inputs: DecisionInput) -> list[Action]:
    """Say which hosts are ready."""
    actions: list[Action] = []
    for host, link in inputs.live:
        is_new = host.phase in (*SOUGHT, HostPhase.WAITING)
        if link.is_open and host.hello and is_new:
            actions.append(Say(HostPhaseChanged(host.index, Reach.READY)))
    return actions


def end_left_out(inputs: DecisionInput) -> list[Action]:
    """End what is left on a host that comes back after the run has gone on without it."""
    actions: list[Action] = []
    for host, link in inputs.hosts():
        if not host.left_out or host.ended or link.released or not host.hello:
            continue
        index = host.index
        if link.is_open:
            actions += [
                Say(RemarkMade(index, LEFT_OUT)),
                Send(index, Close(), Close),
                Release(index),
            ]
        elif not link.is_opening and inputs.now >= link.retry_at:
            actions.append(Open(index))
    return actions


def lose(inputs: DecisionInput, host: HostState, reason: str, *, unfit: bool = False) -> Action:
    """Give a host up. `reason` is without its name. `unfit`: its login succeeded."""
    text = f"{inputs.run.host_name(host.index)}: {reason}"
    return Say(HostLost(host.index, text, reached=host.hello is not None, unfit=unfit))


def is_unheard(inputs: DecisionInput) -> bool:
    """Return True if no host of a kept run is heard any more: then it is this machine that is cut
    off, or was suspended, and the run goes on. A host that has never said anything shows nothing of
    that."""
    if not inputs.launcher.keep or inputs.launcher.stage is not Stage.RUNNING:
        return False
    known = [link for host, link in inputs.live if host.hello]
    silent = inputs.times.silent
    return bool(known) and all(inputs.now - link.heard_at >= silent for link in known)


def _wait_for_any(inputs: DecisionInput) -> list[Action]:
    """Go on trying to reach the hosts, for long; then leave the run to them."""
    live = inputs.live
    patience = inputs.times.unheard
    if all(inputs.now - link.heard_at >= patience for _, link in live):
        text = f"no host has answered for {patience:.0f} s: detaching; the run continues"
        return [Say(RemarkMade(SESSION, text)), Say(Detached(cut_off=True))]
    actions: list[Action] = []
    for host, link in live:
        actions += _say_silent(inputs, host, link)
    return actions + [Open(host.index) for host, link in live if _is_to_reopen(inputs, host, link)]


def _reach(inputs: DecisionInput, host: HostState, link: HostLink) -> list[Action]:
    if link.failure:
        is_unfit = host.hello is None and doctor.is_unfit(link.failure.cause)
        return [lose(inputs, host, link.failure.text, unfit=is_unfit)]
    if not host.hello:
        return _await_hello(inputs, host, link)
    quiet = _quiet(inputs, link)
    if _is_quiet_too_long(inputs, link):
        return [lose(inputs, host, f"no sign of life for {quiet:.0f} s")]
    if _has_parted(inputs, link):
        seconds = f"{inputs.times.parted:g} s"
        text = f"the connection broke, and no new one could be made for {seconds}"
        return [lose(inputs, host, text)]
    opened = [Open(host.index)] if _is_to_reopen(inputs, host, link) else []
    return [*opened, *_say_silent(inputs, host, link)]


def _await_hello(inputs: DecisionInput, host: HostState, link: HostLink) -> list[Action]:
    """Connect to a host that has said nothing yet, and lose it if that takes too long."""
    if _is_quiet_too_long(inputs, link):
        if link.is_open:
            quiet = _quiet(inputs, link)
            return [lose(inputs, host, f"the agent started but has sent nothing for {quiet:.0f} s")]
        if link.problem:
            return [lose(inputs, host, link.problem.text)]
    is_needed = inputs.may_return(host) or inputs.launcher.stage is not Stage.CLOSING
    is_away = not (link.is_open or link.is_opening)
    is_due = is_needed and is_away and inputs.now >= link.retry_at
    return [Open(host.index)] if is_due else []


def _quiet(inputs: DecisionInput, link: HostLink) -> float:
    """Return for how many seconds nothing has come from a host, as far as is known."""
    return 0.0 if link.behind else inputs.now - link.heard_at


def _is_quiet_too_long(inputs: DecisionInput, link: HostLink) -> bool:
    """Return True if a host is to be lost for its silence, as far as that is held against it."""
    quiet = min(_quiet(inputs, link), inputs.now - link.spared_at)
    return quiet >= inputs.times.lost


def _has_parted(inputs: DecisionInput, link: HostLink) -> bool:
    """Return True if a host has been away for so long that its agent has stopped its ranks."""
    has_parted = inputs.now - link.parted_at >= inputs.times.parted
    return has_parted and not link.is_open and not inputs.launcher.keep


def _is_to_reopen(inputs: DecisionInput, host: HostState, link: HostLink) -> bool:
    # Of a host that has said nothing yet, the agent at the end of another connection is the same.
    is_quiet = host.hello is not None and _quiet(inputs, link) >= inputs.times.silent
    is_due = not link.is_opening and inputs.now >= link.retry_at
    return inputs.may_return(host) and is_due and (is_quiet or not link.is_open)


def _say_silent(inputs: DecisionInput, host: HostState, link: HostLink) -> list[Action]:
    quiet = _quiet(inputs, link)
    if quiet < inputs.times.silent or host.missed or not host.hello:
        return []
    return [Say(HostSilent(host.index, quiet))]
