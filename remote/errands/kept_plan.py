"""The plan of a run as its hosts keep it, for a launcher that has not recorded it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from remote.cluster.hosts import Cluster
from remote.errands.errands import ask
from remote.format import size
from remote.limits import LIMITS
from remote.plan import serialize
from remote.plan.plan import Plan, PlanError
from remote.record import trust
from remote.record.find import meant
from remote.transport import Transport
from training.agent.layout import LAST


@dataclass(frozen=True)
class KeptPlan:
    """The plan of a run, as this machine or its hosts keep it. `offsets`: how many seconds the
    clocks of the hosts that answered are ahead of this machine's, by number; `problems` are why
    other hosts did not answer. `refusal`: why its hosts cannot be reached, "" where they can; the
    record on this machine can be read anyway. `foreign`: this user has not recorded it here."""

    plan: Plan
    offsets: Mapping[int, float]
    problems: tuple[str, ...] = ()
    refusal: str = ""
    foreign: bool = False


def plan_of(transport: Transport, cluster: Cluster, run: str) -> KeptPlan:
    """The plan that hosts keep of a run, with the hosts as the hosts file has them. `run` is its
    name, the beginning of it, or `last` for the newest. Raises: PlanError."""
    answers = ask(transport, cluster.hosts, "plan", lambda _: (run,))
    problems = tuple(answer.error for answer in answers if answer.error)
    told = [
        (answer, one) for answer in answers for one in answer.objects if _is_asked_for(one, run)
    ]
    if not told:
        text = "".join(f"\n{problem}" for problem in problems)
        hosts = cluster.file or cluster.name
        raise PlanError(
            f"No run called {run!r} here or on the hosts of {hosts}; rankboard ps lists all "
            f"runs{text}"
        )
    name = meant(run, sorted({one["run"] for _, one in told}))
    told = [(answer, one) for answer, one in told if one["run"] == name]
    plans = [_read(one["plan"], name, cluster) for _, one in told]
    # some hosts may have been away when the launcher detached
    left = [replace(plan, policy=replace(plan.policy, keep=True)) for plan in plans]
    if any(plan != left[0] for plan in left):
        raise PlanError(
            f"{name}: its hosts keep different plans of it: "
            f"{' and '.join(answer.host.name for answer, _ in told)}"
        )
    plan = left[0] if any(plan.policy.keep for plan in plans) else plans[0]
    ahead = {
        answer.host.name: one["now"] - answer.moment
        for answer, one in told
        if _is_time(one.get("now"))
    }
    offsets = {
        index: ahead[host.name] for index, host in enumerate(plan.hosts) if host.name in ahead
    }
    return KeptPlan(plan, offsets, problems, foreign=True)


def _is_asked_for(told: Mapping[str, Any], run: str) -> bool:
    """Whether this is the plan of a run that was asked for."""
    name = told.get("run")
    return (
        isinstance(name, str)
        and isinstance(told.get("plan"), str)
        and (run == LAST or name.startswith(run))
    )


def _is_time(value: Any) -> bool:
    return isinstance(value, float) and math.isfinite(value)


def _read(text: str, run: str, cluster: Cluster) -> Plan:
    """The plan of this run in the answer of a host. Raises: PlanError."""
    try:
        if len(text) > LIMITS.plan:
            raise ValueError(f"it is longer than {size(LIMITS.plan)}")
        plan = serialize.parse(text)
    except serialize.OtherFormat:
        raise
    except ValueError as error:
        raise PlanError(f"{run}: the plan that its hosts keep cannot be read: {error}") from error
    if plan.run != run:
        raise PlanError(f"{run}: what its hosts keep is the plan of another run, {plan.run}")
    return trust.with_ways(trust.harmless(plan), cluster)
