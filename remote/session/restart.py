"""The decision whether a failed run is restarted."""

from __future__ import annotations

from collections.abc import Collection

from remote.events import Detached, RemarkMade, Restarted, SessionClosing
from remote.plan.plan import PlanError, check
from remote.session.actions import Actions, Say
from remote.session.decision_input import DecisionInput
from remote.session.reach import lose
from training.wire.events import SESSION


def restart(inputs: DecisionInput) -> Actions:
    """Start all ranks again after all have ended and some have failed, if the policy says so."""
    run = inputs.run
    live = inputs.live
    if not live or not inputs.launcher.restarts_left or run.refused:
        yield Say(SessionClosing())
        return
    problem = _too_few_hosts(inputs)
    if problem:
        yield from _do_not_restart(problem)
        return
    if any(link.is_first for _, link in live):  # which hosts there are is not known yet
        return
    missing = inputs.missing_variables(host.index for host, _ in live)
    if missing:
        text = f"not restarted: the ranks need {missing[0]}; export it here, and attach again"
        yield Say(RemarkMade(SESSION, text))
        yield Say(Detached(cut_off=True))
        return
    if any(not link.met for _, link in live):
        for host, link in live:
            usual = "cannot be reached, and the run is to be restarted"
            if not link.met:
                yield lose(inputs, host, link.problem.text if link.problem else usual)
        return
    if any(host.hello is None for host, _ in live):  # one that says nothing is lost in time
        return
    hosts = tuple(host.index for host, _ in live)
    try:
        check(inputs.plan_on(hosts))
    except PlanError as error:
        yield from _do_not_restart(str(error))
        return
    yield from _warn_of_lost_checkpoints(inputs, hosts)
    yield Say(Restarted(hosts, run.cause.text() if run.cause else "a rank failed"))


def _too_few_hosts(inputs: DecisionInput) -> str:
    """Say why the hosts that are left are too few; "" if they are enough."""
    remaining = len(inputs.live)
    hosts = len(inputs.hosts)
    at_least = inputs.policy.min_nodes
    if remaining >= (at_least or hosts):
        return ""
    why = f"--min-hosts {at_least}" if at_least else "all are needed without --min-hosts"
    return f"{remaining} of {hosts} hosts are left, {why}"


def _do_not_restart(why: str) -> Actions:
    yield Say(RemarkMade(SESSION, f"not restarted: {why}"))
    yield Say(SessionClosing())


def _warn_of_lost_checkpoints(inputs: DecisionInput, hosts: Collection[int]) -> Actions:
    saving = {state.index for state in inputs.run.hosts if state.saved_step}
    if saving and saving.isdisjoint(hosts):
        text = "no remaining host has a complete checkpoint: the run starts from the beginning"
        yield Say(RemarkMade(SESSION, text))
