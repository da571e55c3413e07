"""Decisions about connections: a host that is silent gets another one, one that stays away is
lost."""

from __future__ import annotations

from remote.doctor import doctor
from remote.events import Detached, HostLost, HostPhaseChanged, HostSilent, RemarkMade
from remote.run.state.host_state import SOUGHT, HostState
from remote.run.state.launcher_state import Stage
from remote.run.state.phases import HostPhase
from remote.session.actions import Action, Actions, Open, Release, Say, Send
from remote.session.decision_input import DecisionInput
from remote.session.host_link import HostLink
from training.wire.commands import Close
from training.wire.enums import Reach
from training.wire.events import SESSION

LEFT_OUT = "is back, but the run has gone on without it: what is left there ends"
NEW = (*SOUGHT, HostPhase.WAITING)
"""The phases of a host that has not been said to be ready."""


def reach(inputs: DecisionInput) -> Actions:
    """Reach each host that is not reached yet, or is not heard any more."""
    if is_unheard(inputs):
        yield from _wait_for_any(inputs)
        return
    for host, link in inputs.live:
        yield from _reach(inputs, host, link)


def greet(inputs: DecisionInput) -> Actions:
    """Say which hosts are ready."""
    for host, link in inputs.live:
        if link.is_open and host.hello and host.phase in NEW:
            yield Say(HostPhaseChanged(host.index, Reach.READY))


def end_left_out(inputs: DecisionInput) -> Actions:
    """End what is left on a host that comes back after the run has gone on without it."""
    for host, link in inputs.hosts:
        if not host.left_out or host.ended or link.released or not host.hello:
            continue
        index = host.index
        if link.is_open:
            yield Say(RemarkMade(index, LEFT_OUT))
            # Nobody waits for its end: the connection is closed once the command is out.
            yield Send(index, Close(), Close)
            yield Release(index)
        elif _may_open(inputs, link):
            yield Open(index)


def lose(
    inputs: DecisionInput, host: HostState, loss_reason: str, *, is_unfit: bool = False
) -> Action:
    """Give a host up. `loss_reason` is without its name. `is_unfit`: its login succeeded."""
    named_reason = f"{host.name}: {loss_reason}"
    return Say(HostLost(host.index, named_reason, reached=host.hello is not None, unfit=is_unfit))


def is_unheard(inputs: DecisionInput) -> bool:
    """Return True if no host of a kept run is heard any more: then it is this machine that is cut
    off, or was suspended, and the run goes on. A host that has never said anything shows nothing of
    that."""
    if not inputs.launcher.keep or inputs.launcher.stage is not Stage.RUNNING:
        return False
    heard_times = [link.heard_at for host, link in inputs.live if host.hello]
    return bool(heard_times) and inputs.now - max(heard_times) >= inputs.times.silent


def _wait_for_any(inputs: DecisionInput) -> Actions:
    """Go on trying to reach the hosts, for long; then leave the run to them."""
    unheard_limit = inputs.times.unheard
    if inputs.now - max(link.heard_at for _, link in inputs.live) >= unheard_limit:
        detach_remark = (
            f"no host has answered for {unheard_limit:.0f} s: detaching; the run continues"
        )
        yield Say(RemarkMade(SESSION, detach_remark))
        yield Say(Detached(cut_off=True))
        return
    # First all remarks: an opened connection makes the next decision, in which they are old.
    for host, link in inputs.live:
        yield from _say_silent(inputs, host, link)
    for host, link in inputs.live:
        yield from _reopen(inputs, host, link)


def _reach(inputs: DecisionInput, host: HostState, link: HostLink) -> Actions:
    if link.failure:
        is_unfit = host.hello is None and doctor.is_unfit(link.failure.cause)
        yield lose(inputs, host, link.failure.text, is_unfit=is_unfit)
    elif not host.hello:
        yield from _await_hello(inputs, host, link)
    elif _is_quiet_too_long(inputs, link):
        yield lose(inputs, host, f"no sign of life for {_quiet(inputs, link):.0f} s")
    elif _has_parted(inputs, link):
        parted_limit = f"{inputs.times.parted:g} s"
        loss_reason = f"the connection broke, and no new one could be made for {parted_limit}"
        yield lose(inputs, host, loss_reason)
    else:
        yield from _reopen(inputs, host, link)
        yield from _say_silent(inputs, host, link)


def _await_hello(inputs: DecisionInput, host: HostState, link: HostLink) -> Actions:
    """Connect to a host that has said nothing yet, and lose it if that takes too long."""
    is_needed = inputs.may_return(host) or inputs.launcher.stage is not Stage.CLOSING
    is_overdue = _is_quiet_too_long(inputs, link)
    if is_overdue and link.is_open:
        quiet_seconds = _quiet(inputs, link)
        yield lose(
            inputs, host, f"the agent started but has sent nothing for {quiet_seconds:.0f} s"
        )
    elif is_overdue and link.problem:
        yield lose(inputs, host, link.problem.text)
    elif is_needed and not link.is_open and _may_open(inputs, link):
        yield Open(host.index)


def _quiet(inputs: DecisionInput, link: HostLink) -> float:
    """Return for how many seconds nothing has come from a host, as far as is known."""
    # While messages wait in our own queue, the silence may be ours and not the host's.
    return 0.0 if link.behind else inputs.now - link.heard_at


def _is_quiet_too_long(inputs: DecisionInput, link: HostLink) -> bool:
    """Return True if a host is to be lost for its silence, as far as that is held against it."""
    quiet_seconds = min(_quiet(inputs, link), inputs.now - link.spared_at)
    return quiet_seconds >= inputs.times.lost


def _has_parted(inputs: DecisionInput, link: HostLink) -> bool:
    """Return True if a host has been away for so long that its agent has stopped its ranks."""
    has_parted = inputs.now - link.parted_at >= inputs.times.parted
    return has_parted and not link.is_open and not inputs.launcher.keep


def _may_open(inputs: DecisionInput, link: HostLink) -> bool:
    """Return True if it is time for another try to connect."""
    return not link.is_opening and inputs.now >= link.retry_at


def _reopen(inputs: DecisionInput, host: HostState, link: HostLink) -> Actions:
    # Of a host that has said nothing yet, the agent at the end of another connection is the same.
    is_quiet = host.hello is not None and _quiet(inputs, link) >= inputs.times.silent
    is_needed = is_quiet or not link.is_open
    if is_needed and inputs.may_return(host) and _may_open(inputs, link):
        yield Open(host.index)


def _say_silent(inputs: DecisionInput, host: HostState, link: HostLink) -> Actions:
    quiet_seconds = _quiet(inputs, link)
    if quiet_seconds >= inputs.times.silent and host.hello and not host.missed:
        yield Say(HostSilent(host.index, quiet_seconds))
