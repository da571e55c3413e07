"""The plans of runs as their hosts keep them, for a launcher that has not recorded them."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from remote.cluster.hosts import Cluster
from remote.format import size
from remote.host_commands.run_on_hosts import HostAnswer, run_on_hosts
from remote.limits import LIMITS
from remote.plan import serialize
from remote.plan.plan import Plan, PlanError
from remote.record import trust
from remote.transport import Transport
from training.agent.layout import LAST


@dataclass(frozen=True)
class KeptPlan:
    """The plan of a run, as this machine or its hosts keep it."""

    plan: Plan
    offsets: Mapping[int, float]
    """How many seconds the clocks of the hosts that answered are ahead of this machine's, by
    number."""
    refusal: str = ""
    """Why its hosts cannot be reached, "" where they can; the record on this machine can be read
    anyway."""
    foreign: bool = False
    """This user has not recorded it here."""
    others: tuple[Plan, ...] = ()
    """Plans of single hosts that have another place in the run by their own plan."""


@dataclass(frozen=True)
class Difference:
    """What a host's plan of a run has in one setting, and what most of its hosts have there."""

    host: str
    setting: str
    here: str
    elsewhere: str


@dataclass(frozen=True)
class RunOnHosts:
    """A run that hosts tell of, by the plan that most of them keep."""

    kept: KeptPlan
    hosts: tuple[str, ...]
    """The hosts that tell of it."""
    live: tuple[str, ...]
    """Those on which it is live."""
    has_begun: bool
    """Its ranks were started."""
    is_shared: bool
    """Most of its hosts that have answered tell of it."""
    differences: tuple[Difference, ...] = ()
    unreadable: tuple[str, ...] = ()
    """Why plans of single hosts cannot be read."""

    @property
    def plan(self) -> Plan:
        """The plan that most of its hosts keep."""
        return self.kept.plan


@dataclass(frozen=True)
class HostsAnswer:
    """What hosts tell of the runs that a name may mean."""

    runs: Mapping[str, RunOnHosts]
    mistakes: Mapping[str, PlanError]
    """Why nothing can be told of other runs: no host's plan can be read."""
    problems: tuple[str, ...]
    """Why other hosts did not answer."""


@dataclass(frozen=True)
class _Told:
    """What one host tells of a run."""

    host: str
    plan: Plan
    keep: bool
    is_live: bool
    has_begun: bool
    ahead: float | None
    """Seconds by which its clock is ahead."""


def ask_for_plans(
    transport: Transport, cluster: Cluster, run: str, within: float = math.inf
) -> HostsAnswer:
    """Ask the hosts of the hosts file for the runs that `run` may mean: a name, the name that a
    person gave, the beginning of a name, or `last`. `within`: seconds after which no host is waited
    for."""
    answers = run_on_hosts(transport, cluster.hosts, "plan", lambda _: (run,), within=within)
    answered = frozenset(answer.host.name for answer in answers if not answer.error)
    told: dict[str, list[_Told]] = defaultdict(list)
    mistakes: dict[str, dict[str, PlanError]] = defaultdict(dict)
    for answer in answers:
        for name, said in _by_run(answer).items():
            try:
                one = _read(answer, said, name, cluster)
            except PlanError as error:
                if run == LAST or name.startswith(run):
                    mistakes[name][answer.host.name] = error
            else:
                if run == LAST or name.startswith(run) or one.plan.label == run:
                    told[name].append(one)
    return HostsAnswer(
        {name: _join(told[name], mistakes.get(name, {}), answered) for name in sorted(told)},
        {name: next(iter(mistakes[name].values())) for name in mistakes if name not in told},
        tuple(answer.error for answer in answers if answer.error),
    )


def _by_run(answer: HostAnswer) -> dict[str, Mapping[str, Any]]:
    """Return what a host tells, once of each run."""
    said: dict[str, Mapping[str, Any]] = {}
    for one in answer.objects:
        name = one.get("run")
        if isinstance(name, str) and isinstance(one.get("plan"), str):
            said.setdefault(name, one)
    return said


def _read(answer: HostAnswer, said: Mapping[str, Any], run: str, cluster: Cluster) -> _Told:
    """Read what a host tells of this run. Raises: PlanError."""
    plan = _parse(said["plan"], run, cluster)
    now = said.get("now")
    is_time = isinstance(now, float) and math.isfinite(now)
    return _Told(
        answer.host.name,
        # some hosts may have been away when the launcher detached
        replace(plan, policy=replace(plan.policy, keep=True)),
        plan.policy.keep,
        said.get("live") is True,
        said.get("begun") is True,
        now - answer.moment if isinstance(now, float) and is_time else None,
    )


def _parse(text: str, run: str, cluster: Cluster) -> Plan:
    """Parse the plan of this run in the answer of a host. Raises: PlanError."""
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


# One plan out of several --------------------------------------------------------------------------


def _join(
    told: Sequence[_Told], mistakes: Mapping[str, PlanError], answered: frozenset[str]
) -> RunOnHosts:
    """Make one run of what its hosts tell. A host that differs is named, and changes nothing for
    the others."""
    plan = _most_kept(told)
    alike = [one for one in told if one.plan == plan]
    others = [one for one in told if one.plan != plan]
    hosts = [host.name for host in plan.hosts]
    tellers = {one.host for one in told} | set(mistakes)
    asked = answered.intersection(hosts)
    offsets = {
        hosts.index(one.host): one.ahead
        for one in told
        if one.ahead is not None and one.host in hosts
    }
    keep = any(one.keep for one in alike)
    return RunOnHosts(
        KeptPlan(
            replace(plan, policy=replace(plan.policy, keep=keep)),
            offsets,
            foreign=True,
            others=_plans_of_other_places(plan, others),
        ),
        tuple(one.host for one in told),
        tuple(one.host for one in told if one.is_live),
        any(one.has_begun for one in told),
        2 * len(asked & tellers) > len(asked),
        tuple(difference for one in others for difference in _differences(one, plan)),
        tuple(f"{host}: {error}" for host, error in mistakes.items()),
    )


def _most_kept(told: Sequence[_Told]) -> Plan:
    """Return the plan that most of its own hosts keep; of several, the one that leaves out the
    fewest hosts which know the run, then the one of the first host."""

    def votes(plan: Plan) -> tuple[int, int, int]:
        keepers = [one.host for one in told if one.plan == plan]
        members = {host.name for host in plan.hosts}
        known = members.intersection(one.host for one in told)
        return len(members.intersection(keepers)), len(keepers), len(known)

    plans: list[Plan] = []
    for one in told:
        if one.plan not in plans:
            plans.append(one.plan)
    return max(plans, key=votes)


def _plans_of_other_places(plan: Plan, others: Sequence[_Told]) -> tuple[Plan, ...]:
    """Return the plans by which a host has another number in the run than by `plan`: there it
    would not be found."""
    plans: list[Plan] = []
    for one in others:
        if _place(one.host, one.plan) != _place(one.host, plan) and one.plan not in plans:
            plans.append(one.plan)
    return tuple(plans)


def _place(host: str, plan: Plan) -> int:
    """Return the number of a host in a run, -1 where it has none."""
    names = [one.name for one in plan.hosts]
    return names.index(host) if host in names else -1


def _differences(told: _Told, plan: Plan) -> list[Difference]:
    """Return the settings in which the plan of a host differs."""
    theirs = _settings(told.plan)
    most = _settings(plan)
    names = dict.fromkeys((*most, *theirs))
    return [
        Difference(told.host, name, theirs.get(name, ""), most.get(name, ""))
        for name in names
        if theirs.get(name) != most.get(name)
    ]


def _settings(plan: Plan) -> dict[str, str]:
    """Return the settings of a plan as text, by name."""
    settings: dict[str, Any] = {
        "hosts": ", ".join(host.name for host in plan.hosts),
        "ranks": ", ".join(str(host.slots) for host in plan.hosts),
        **asdict(plan.work),
        **asdict(plan.policy),
        "project": plan.project,
        "name": plan.label,
    }
    return {name: str(value) for name, value in settings.items()}
