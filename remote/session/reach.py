"""Decisions about connections: a host that is silent gets another one, one that stays away is
lost."""

from __future__ import annotations

from remote.run.course import Stage
from remote.run.host import SOUGHT, HostState
from remote.run.phases import HostPhase
from remote.session.actions import Action, Open, Release, Say, Send
from remote.session.connections import Connections
from remote.session.view import View
from training.wire.commands import Close
from training.wire.enums import Reach
from training.wire.events import SESSION, Detached, Lost, Reaching, Said, Silent

LEFT_OUT = "is back, but the run has gone on without it: what is left there ends"


def reach(view: View) -> list[Action]:
    """What becomes of each host that is to be reached, or is not heard."""
    if is_unheard(view):
        return _wait_for_any(view)
    return [action for host, ways in view.live() for action in _reach(view, host, ways)]


def greet(view: View) -> list[Action]:
    """Say which hosts can be talked to."""
    return [
        Say(Reaching(host.index, Reach.READY))
        for host, ways in view.live()
        if ways.is_open and host.hello and host.phase in (*SOUGHT, HostPhase.WAITING)
    ]


def end_left_out(view: View) -> list[Action]:
    """End what is left on a host that comes back after the run has gone on without it."""
    actions: list[Action] = []
    for host, ways in view.hosts():
        if not host.left_out or host.ended or ways.released or not host.hello:
            continue
        if ways.is_open:
            on = host.index
            actions += [Say(Said(on, LEFT_OUT)), Send(on, Close(), Close), Release(on)]
        elif not ways.is_opening and view.now >= ways.retry_at:
            actions.append(Open(host.index))
    return actions


def lose(view: View, host: HostState, reason: str, *, unfit: bool = False) -> Action:
    """Give a host up."""
    named = view.run.plan.named(reason)
    return Say(Lost(host.index, named, reached=host.hello is not None, unfit=unfit))


def is_unheard(view: View) -> bool:
    """Whether no host of a kept run is heard: then it is this machine that is cut off, or was
    suspended, and the run goes on."""
    if not view.course.keep or view.course.stage is not Stage.RUNNING:
        return False
    live = view.live()
    silent = view.times.silent
    return bool(live) and all(view.now - ways.heard_at >= silent for _, ways in live)


def _wait_for_any(view: View) -> list[Action]:
    """Go on trying to reach the hosts, for long; then leave the run to them."""
    live = view.live()
    if all(view.now - ways.heard_at >= view.times.unheard for _, ways in live):
        what = f"no host has answered for {view.times.unheard:.0f} s: detaching; the run goes on"
        return [Say(Said(SESSION, what)), Say(Detached(cut_off=True))]
    actions = [action for host, ways in live for action in _say_silent(view, host, ways)]
    opened = [Open(host.index) for host, ways in live if _is_to_reopen(view, host, ways)]
    return [*actions, *opened]


def _reach(view: View, host: HostState, ways: Connections) -> list[Action]:
    name, quiet = view.run.host_name(host.index), _quiet(view, ways)
    unspared = min(quiet, view.now - ways.spared_at)
    if ways.failure:
        return [lose(view, host, ways.failure, unfit=_is_unfit(view, host, ways))]
    if ways.problem or not view.may_return(host):
        if ways.is_open and not host.hello and unspared >= view.times.lost:
            what = f"the agent started but has sent nothing for {quiet:.0f} s"
            return [lose(view, host, f"{name}: {what}")]
        is_due = not (ways.is_open or ways.is_opening) and view.now >= ways.retry_at
        return [Open(host.index)] if is_due else []
    if unspared >= view.times.lost:
        return [lose(view, host, f"{name}: no sign of life for {quiet:.0f} s")]
    if _has_parted(view, ways):
        what = f"the connection broke, and no new one could be made for {view.times.parted:g} s"
        return [lose(view, host, f"{name}: {what}")]
    opened = [Open(host.index)] if _is_to_reopen(view, host, ways) else []
    return [*opened, *_say_silent(view, host, ways)]


def _quiet(view: View, ways: Connections) -> float:
    """For how many seconds nothing has come from a host, as far as is known."""
    return 0.0 if ways.unread else view.now - ways.heard_at


def _is_unfit(view: View, host: HostState, ways: Connections) -> bool:
    """Whether the login succeeded, but the host's python or workdir cannot be used."""
    from remote.doctor import doctor

    name = view.run.plan.hosts[host.index].name
    return host.hello is None and doctor.unfit(ways.failure.removeprefix(f"{name}: "))


def _has_parted(view: View, ways: Connections) -> bool:
    """Whether a host has been away for so long that its agent has stopped its ranks."""
    parted = view.now - ways.parted_at >= view.times.parted
    return not ways.is_open and not view.course.keep and parted


def _is_to_reopen(view: View, host: HostState, ways: Connections) -> bool:
    quiet = _quiet(view, ways) >= view.times.silent
    is_due = not ways.is_opening and view.now >= ways.retry_at
    return view.may_return(host) and is_due and (quiet or not ways.is_open)


def _say_silent(view: View, host: HostState, ways: Connections) -> list[Action]:
    quiet = _quiet(view, ways)
    if quiet < view.times.silent or host.missed or not host.hello:
        return []
    return [Say(Silent(host.index, quiet))]
