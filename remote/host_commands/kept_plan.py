"""Read the plans of runs as their hosts keep them, for a launcher that has not recorded them."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
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
    """Why its hosts cannot be reached, "" if they can; the record on this machine can be read
    anyway."""
    foreign: bool = False
    """This user has not recorded it here."""
    others: tuple[Plan, ...] = ()
    """Plans of single hosts that have another place in the run by their own plan."""


@dataclass(frozen=True)
class RunOnHosts:
    """A run that hosts report, by the plan that most of them keep."""

    kept: KeptPlan
    hosts: tuple[str, ...]
    """The hosts that report it."""
    live: tuple[str, ...]
    """Those on which it is live."""
    has_begun: bool
    """Its ranks were started."""
    is_shared: bool
    """Most of its hosts that have answered report it."""
    remarks: tuple[str, ...] = ()
    """Which hosts keep another plan, or one that cannot be read."""

    @property
    def plan(self) -> Plan:
        """The plan that most of its hosts keep."""
        return self.kept.plan


@dataclass(frozen=True)
class PlansOnHosts:
    """What hosts report of the runs that a name may mean."""

    runs: Mapping[str, RunOnHosts]
    mistakes: Mapping[str, PlanError]
    """Why nothing is known of other runs: no host's plan can be read."""
    problems: tuple[str, ...]
    """Why other hosts did not answer."""


@dataclass(frozen=True)
class _HostCopy:
    """What one host reports of a run."""

    host: str
    plan: Plan
    keep: bool
    is_live: bool
    has_begun: bool
    ahead: float | None
    """Seconds by which its clock is ahead."""


def ask_for_plans(
    transport: Transport, cluster: Cluster, run: str, within: float = math.inf
) -> PlansOnHosts:
    """Ask the hosts of the hosts file for the runs that `run` may mean: a name, the name that a
    person gave, the beginning of a name, or `last`. `within`: seconds after which no host is waited
    for."""
    answers = run_on_hosts(transport, cluster.hosts, "plan", lambda _: (run,), within=within)
    answered = frozenset(answer.host.name for answer in answers if not answer.error)
    copies: dict[str, list[_HostCopy]] = defaultdict(list)
    mistakes: dict[str, dict[str, PlanError]] = defaultdict(dict)
    for answer in answers:
        for name, report in _reports_by_run(answer).items():
            is_meant = run == LAST or name.startswith(run)
            try:
                copy = _read_copy(answer, report, name, cluster)
            except PlanError as error:
                if is_meant:
                    mistakes[name][answer.host.name] = error
            else:
                if is_meant or copy.plan.label == run:
                    copies[name].append(copy)
    runs = {name: _join(copies[name], mistakes.get(name, {}), answered) for name in sorted(copies)}
    first_mistakes = {
        name: next(iter(errors.values())) for name, errors in mistakes.items() if name not in copies
    }
    problems = [answer.error for answer in answers if answer.error]
    return PlansOnHosts(runs, first_mistakes, tuple(problems))


def _reports_by_run(answer: HostAnswer) -> dict[str, Mapping[str, Any]]:
    """Return what a host reports, once of each run."""
    reports: dict[str, Mapping[str, Any]] = {}
    for report in answer.objects:
        name = report.get("run")
        if isinstance(name, str) and isinstance(report.get("plan"), str):
            reports.setdefault(name, report)
    return reports


def _read_copy(
    answer: HostAnswer, report: Mapping[str, Any], run: str, cluster: Cluster
) -> _HostCopy:
    """Read what a host reports of this run. Raises: PlanError."""
    plan = _parse(report["plan"], run, cluster)
    now = report.get("now")
    ahead = None
    if isinstance(now, float) and math.isfinite(now):
        ahead = now - answer.moment
    return _HostCopy(
        answer.host.name,
        # some hosts may have been away when the launcher detached
        replace(plan, policy=replace(plan.policy, keep=True)),
        plan.policy.keep,
        report.get("live") is True,
        report.get("begun") is True,
        ahead,
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
    copies: Sequence[_HostCopy], mistakes: Mapping[str, PlanError], answered: frozenset[str]
) -> RunOnHosts:
    """Make one run of what its hosts report. A host that differs is named, and changes nothing for
    the others."""
    plan = _most_kept(copies)
    alike = [copy for copy in copies if copy.plan == plan]
    others = [copy for copy in copies if copy.plan != plan]
    hosts = [host.name for host in plan.hosts]
    reporting = {copy.host for copy in copies} | set(mistakes)
    asked = answered.intersection(hosts)
    offsets = {}
    for copy in copies:
        if copy.ahead is not None and copy.host in hosts:
            offsets[hosts.index(copy.host)] = copy.ahead
    remarks = [f"{host}: {error}" for host, error in mistakes.items()]
    for copy in others:
        remarks.append(f"{copy.host} keeps another plan of {plan.run}, which is not used")
    keep = any(copy.keep for copy in alike)
    return RunOnHosts(
        KeptPlan(
            replace(plan, policy=replace(plan.policy, keep=keep)),
            offsets,
            foreign=True,
            others=_plans_of_other_places(plan, others),
        ),
        hosts=tuple(copy.host for copy in copies),
        live=tuple(copy.host for copy in copies if copy.is_live),
        has_begun=any(copy.has_begun for copy in copies),
        is_shared=2 * len(asked & reporting) > len(asked),
        remarks=tuple(remarks),
    )


def _most_kept(copies: Sequence[_HostCopy]) -> Plan:
    """Return the plan that most of its own hosts keep; of several, the one that leaves out the
    fewest hosts which know the run, then the one of the first host."""
    reporting = {copy.host for copy in copies}

    def votes(plan: Plan) -> tuple[int, int, int]:
        keepers = [copy.host for copy in copies if copy.plan == plan]
        members = {host.name for host in plan.hosts}
        return len(members.intersection(keepers)), len(keepers), len(members & reporting)

    # `max` takes the first of equal ones
    return max((copy.plan for copy in copies), key=votes)


def _plans_of_other_places(plan: Plan, others: Sequence[_HostCopy]) -> tuple[Plan, ...]:
    """Return the plans by which a host has another index in the run than by `plan`: there it
    would not be found."""
    plans: list[Plan] = []
    for copy in others:
        is_elsewhere = _place(copy.host, copy.plan) != _place(copy.host, plan)
        if is_elsewhere and copy.plan not in plans:
            plans.append(copy.plan)
    return tuple(plans)


def _place(host: str, plan: Plan) -> int:
    """Return the index of a host in a run, -1 if it has none."""
    names = [member.name for member in plan.hosts]
    return names.index(host) if host in names else -1
