"""The decision whether a failed run is restarted."""

from __future__ import annotations

from collections.abc import Collection

from remote.events import Detached, RemarkMade, Restarted, SessionClosing
from remote.plan.plan import PlanError, check
from remote.session.actions import Action, Say
from remote.session.decision_input import DecisionInput
from remote.session.reach import lose
from training.wire.events import SESSION


def restart(inputs: DecisionInput) -> list[Action]:
    """Start all ranks again after all have ended and some have failed, if the policy says so."""
    run = inputs.run
    live = inputs.live
    if not live or not inputs.launcher.restarts_left or run.refused:
        return [Say(SessionClosing())]
    problem = _too_few_hosts(inputs)
    if problem:
        return _do_not_restart(problem)
    if any(link.is_first for _, link in live):  # which hosts there are is not known yet
        return []
    missing = inputs.missing_variables(host.index for host, _ in live)
    if missing:
        text = f"not restarted: the ranks need {missing[0]}; export it here, and attach again"
        return [Say(RemarkMade(SESSION, text)), Say(Detached(cut_off=True))]
    away = [(host, link) for host, link in live if not link.met]
    if away:
        usual = "cannot be reached, and the run is to be restarted"
        return [
            lose(inputs, host, link.problem.text if link.problem else usual) for host, link in away
        ]
    if any(host.hello is None for host, _ in live):  # one that says nothing is lost in time
        return []
    hosts = tuple(host.index for host, _ in live)
    try:
        check(inputs.plan_on(hosts))
    except PlanError as error:
        return _do_not_restart(str(error))
    why = run.cause.text() if run.cause else "a rank failed"
    return [*_warn_of_lost_checkpoints(inputs, hosts), Say(Restarted(hosts, why))]


def _too_few_hosts(inputs: DecisionInput) -> str:
    """Say why the hosts that are left are too few; "" if they are enough."""
    left = len(inputs.live)
    hosts = len(inputs.run.hosts)
    at_least = inputs.policy.min_nodes
    if left >= (at_least or hosts):
        return ""
    why = f"--min-hosts {at_least}" if at_least else "all are needed without --min-hosts"
    return f"{left} of {hosts} hosts are left, {why}"


def _do_not_restart(why: str) -> list[Action]:
    return [Say(RemarkMade(SESSION, f"not restarted: {why}")), Say(SessionClosing())]


def _warn_of_lost_checkpoints(inputs: DecisionInput, hosts: Collection[int]) -> list[Action]:
    saving = [state.index for state in inputs.run.hosts if state.saved_step]
    if not saving or any(index in hosts for index in saving):
        return []
    text = "no remaining host has a complete checkpoint: the run starts from the beginning"
    return [Say(RemarkMade(SESSION, text))]
