"""Decisions about connections: a host that is silent gets another one, one that stays away is
lost."""

from __future__ import annotations

from remote.events import Detached, Lost, Reaching, Said, Silent
from remote.run.state.host_state import SOUGHT, HostState
from remote.run.state.launcher_state import Stage
from remote.run.state.phases import HostPhase
from remote.session.actions import Action, Open, Release, Say, Send
from remote.session.contact import Contact
from remote.session.view import View
from training.wire.commands import Close
from training.wire.enums import Reach
from training.wire.events import SESSION

LEFT_OUT = "is back, but the run has gone on without it: what is left there ends"


def reach(view: View) -> list[Action]:
    """What becomes of each host that is to be reached, or is not heard."""
    if is_unheard(view):
        return _wait_for_any(view)
    return [action for host, contact in view.live for action in _reach(view, host, contact)]


def greet(view: View) -> list[Action]:
    """Say which hosts can be talked to."""
    return [
        Say(Reaching(host.index, Reach.READY))
        for host, contact in view.live
        if contact.is_open and host.hello and host.phase in (*SOUGHT, HostPhase.WAITING)
    ]


def end_left_out(view: View) -> list[Action]:
    """End what is left on a host that comes back after the run has gone on without it."""
    actions: list[Action] = []
    for host, contact in view.hosts():
        if not host.left_out or host.ended or contact.released or not host.hello:
            continue
        if contact.is_open:
            on = host.index
            actions += [Say(Said(on, LEFT_OUT)), Send(on, Close(), Close), Release(on)]
        elif not contact.is_opening and view.now >= contact.retry_at:
            actions.append(Open(host.index))
    return actions


def lose(view: View, host: HostState, reason: str, *, unfit: bool = False) -> Action:
    """Give a host up."""
    return Say(Lost(host.index, reason, reached=host.hello is not None, unfit=unfit))


def is_unheard(view: View) -> bool:
    """Return whether no host of a kept run is heard any more: then it is this machine that is cut
    off, or was suspended, and the run goes on. A host that has never said anything shows nothing of
    that."""
    if not view.course.keep or view.course.stage is not Stage.RUNNING:
        return False
    known = [contact for host, contact in view.live if host.hello]
    silent = view.times.silent
    return bool(known) and all(view.now - contact.heard_at >= silent for contact in known)


def _wait_for_any(view: View) -> list[Action]:
    """Go on trying to reach the hosts, for long; then leave the run to them."""
    live = view.live
    if all(view.now - contact.heard_at >= view.times.unheard for _, contact in live):
        what = f"no host has answered for {view.times.unheard:.0f} s: detaching; the run continues"
        return [Say(Said(SESSION, what)), Say(Detached(cut_off=True))]
    actions = [action for host, contact in live for action in _say_silent(view, host, contact)]
    opened = [Open(host.index) for host, contact in live if _is_to_reopen(view, host, contact)]
    return [*actions, *opened]


def _reach(view: View, host: HostState, contact: Contact) -> list[Action]:
    name = view.run.host_name(host.index)
    quiet = _quiet(view, contact)
    unspared = min(quiet, view.now - contact.spared_at)
    if contact.failure:
        return [lose(view, host, contact.failure, unfit=_is_unfit(host, contact))]
    if not host.hello:
        return _await_hello(view, host, contact)
    if unspared >= view.times.lost:
        return [lose(view, host, f"{name}: no sign of life for {quiet:.0f} s")]
    if _has_parted(view, contact):
        what = f"the connection broke, and no new one could be made for {view.times.parted:g} s"
        return [lose(view, host, f"{name}: {what}")]
    opened = [Open(host.index)] if _is_to_reopen(view, host, contact) else []
    return [*opened, *_say_silent(view, host, contact)]


def _await_hello(view: View, host: HostState, contact: Contact) -> list[Action]:
    """Connect to a host that has said nothing yet, and lose it if that takes too long."""
    quiet = _quiet(view, contact)
    unspared = min(quiet, view.now - contact.spared_at)
    if contact.is_open and unspared >= view.times.lost:
        what = f"the agent started but has sent nothing for {quiet:.0f} s"
        return [lose(view, host, f"{view.run.host_name(host.index)}: {what}")]
    if contact.problem and unspared >= view.times.lost:
        return [lose(view, host, contact.problem)]
    is_wanted = view.may_return(host) or view.course.stage is not Stage.CLOSING
    is_away = not (contact.is_open or contact.is_opening)
    is_due = is_wanted and is_away and view.now >= contact.retry_at
    return [Open(host.index)] if is_due else []


def _quiet(view: View, contact: Contact) -> float:
    """For how many seconds nothing has come from a host, as far as is known."""
    return 0.0 if contact.behind else view.now - contact.heard_at


def _is_unfit(host: HostState, contact: Contact) -> bool:
    """Whether the login succeeded, but the host's python or workdir cannot be used."""
    from remote.doctor import doctor

    return host.hello is None and contact.cause is not None and doctor.is_unfit(contact.cause)


def _has_parted(view: View, contact: Contact) -> bool:
    """Whether a host has been away for so long that its agent has stopped its ranks."""
    parted = view.now - contact.parted_at >= view.times.parted
    return not contact.is_open and not view.course.keep and parted


def _is_to_reopen(view: View, host: HostState, contact: Contact) -> bool:
    # Of a host that has said nothing yet, the agent at the end of another connection is the same.
    quiet = host.hello is not None and _quiet(view, contact) >= view.times.silent
    is_due = not contact.is_opening and view.now >= contact.retry_at
    return view.may_return(host) and is_due and (quiet or not contact.is_open)


def _say_silent(view: View, host: HostState, contact: Contact) -> list[Action]:
    quiet = _quiet(view, contact)
    if quiet < view.times.silent or host.missed or not host.hello:
        return []
    return [Say(Silent(host.index, quiet))]
