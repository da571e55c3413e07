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
    live_hosts = inputs.live
    if not live_hosts or not inputs.launcher.restarts_left or run.refused:
        yield Say(SessionClosing())
        return
    host_problem = _too_few_hosts(inputs)
    if host_problem:
        yield from _do_not_restart(host_problem)
        return
    if any(link.is_first for _, link in live_hosts):  # which hosts there are is not known yet
        return
    missing_names = inputs.missing_variables(host.index for host, _ in live_hosts)
    if missing_names:
        detach_remark = (
            f"not restarted: the ranks need {missing_names[0]}; export it here, and attach again"
        )
        yield Say(RemarkMade(SESSION, detach_remark))
        # The agents keep waiting for a launcher: one that has the variable can still restart the
        # run.
        yield Say(Detached(cut_off=True))
        return
    if any(not link.met for _, link in live_hosts):
        for host, link in live_hosts:
            default_reason = "cannot be reached, and the run is to be restarted"
            if not link.met:
                yield lose(inputs, host, link.problem.text if link.problem else default_reason)
        return
    if any(host.hello is None for host, _ in live_hosts):  # one that says nothing is lost in time
        return
    host_indices = tuple(host.index for host, _ in live_hosts)
    try:
        check(inputs.plan_on(host_indices))
    except PlanError as error:
        yield from _do_not_restart(str(error))
        return
    yield from _warn_of_lost_checkpoints(inputs, host_indices)
    yield Say(Restarted(host_indices, run.cause.text() if run.cause else "a rank failed"))


def _too_few_hosts(inputs: DecisionInput) -> str:
    """Say why the hosts that are left are too few; "" if they are enough."""
    remaining_count = len(inputs.live)
    host_count = len(inputs.hosts)
    min_hosts = inputs.policy.min_nodes
    if remaining_count >= (min_hosts or host_count):
        return ""
    requirement = f"--min-hosts {min_hosts}" if min_hosts else "all are needed without --min-hosts"
    return f"{remaining_count} of {host_count} hosts are left, {requirement}"


def _do_not_restart(refusal: str) -> Actions:
    yield Say(RemarkMade(SESSION, f"not restarted: {refusal}"))
    yield Say(SessionClosing())


def _warn_of_lost_checkpoints(inputs: DecisionInput, host_indices: Collection[int]) -> Actions:
    saving_hosts = {state.index for state in inputs.run.hosts if state.saved_step}
    if saving_hosts and saving_hosts.isdisjoint(host_indices):
        checkpoint_remark = (
            "no remaining host has a complete checkpoint: the run starts from the beginning"
        )
        yield Say(RemarkMade(SESSION, checkpoint_remark))
