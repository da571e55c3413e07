"""The decision whether a failed run is restarted."""

from __future__ import annotations

from collections.abc import Collection

from remote.events import Closing, Detached, Restarted, Said
from remote.plan.plan import PlanError, check
from remote.session.actions import Action, Say
from remote.session.reach import lose
from remote.session.view import View
from training.wire.events import SESSION


def restart(view: View) -> list[Action]:
    """All ranks have ended and some have failed: start all again, where the policy says so."""
    run = view.run
    course = view.course
    policy = view.policy
    live = view.live
    if not live or not course.restarts_left or run.refused:
        return [Say(Closing())]
    enough = policy.min_nodes or len(run.hosts)
    if len(live) < enough:
        why = f"--min-hosts {enough}" if policy.min_nodes else "all are needed without --min-hosts"
        return _do_not_restart(f"{len(live)} of {len(run.hosts)} hosts are left, {why}")
    if any(contact.is_first for _, contact in live):  # which hosts there are is not known yet
        return []
    missing = view.missing_variables(host.index for host, _ in live)
    if missing:
        what = f"not restarted: the ranks need {missing[0]}; export it here, and attach again"
        return [Say(Said(SESSION, what)), Say(Detached(cut_off=True))]
    away = [(host, contact) for host, contact in live if not contact.met]
    if away:
        why = "cannot be reached, and the run is to be restarted"
        return [
            lose(view, host, contact.problem or f"{run.host_name(host.index)}: {why}")
            for host, contact in away
        ]
    if any(host.hello is None for host, _ in live):  # one that says nothing is lost in time
        return []
    hosts = tuple(host.index for host, _ in live)
    try:
        check(view.plan_on(hosts))
    except PlanError as error:
        return _do_not_restart(str(error))
    why = run.cause.text() if run.cause else "a rank failed"
    return [*_warn_anew(view, hosts), Say(Restarted(hosts, why))]


def _do_not_restart(why: str) -> list[Action]:
    return [Say(Said(SESSION, f"not restarted: {why}")), Say(Closing())]


def _warn_anew(view: View, hosts: Collection[int]) -> list[Action]:
    states = view.run.hosts
    if any(states[on].saved_step for on in hosts) or not any(one.saved_step for one in states):
        return []
    what = "no remaining host has a complete checkpoint: the run starts from the beginning"
    return [Say(Said(SESSION, what))]
