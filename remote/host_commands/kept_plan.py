"""Read the plans of runs as their hosts keep them, for a launcher that has not recorded them."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from remote.cluster.hosts import Cluster
from remote.format import size
from remote.limits import LIMITS
from remote.plan import serialize
from remote.plan.plan import Plan, PlanError
from remote.record import trust
from remote.transport import Transport
from training.agent.layout import LAST

if TYPE_CHECKING:  # a run that is recorded here is opened without asking its hosts
    from remote.host_commands.run_on_hosts import HostAnswer


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
    transport: Transport, cluster: Cluster, asked_run: str, seconds_in_all: float = math.inf
) -> PlansOnHosts:
    """Ask the hosts of the hosts file for the runs that `asked_run` may mean: a name, the name that
    a person gave, the beginning of a name, or `last`. `seconds_in_all`: seconds after which no host
    is waited for."""
    from remote.host_commands.run_on_hosts import run_on_hosts

    answers = run_on_hosts(
        transport, cluster.hosts, "plan", lambda _: (asked_run,), seconds_in_all=seconds_in_all
    )
    answered_hosts = frozenset(answer.host.name for answer in answers if not answer.error)
    copies_by_run: dict[str, list[_HostCopy]] = defaultdict(list)
    mistakes_by_run: dict[str, dict[str, PlanError]] = defaultdict(dict)
    for answer in answers:
        for run_name, host_report in _reports_by_run(answer).items():
            is_meant = asked_run == LAST or run_name.startswith(asked_run)
            try:
                host_copy = _read_copy(answer, host_report, run_name, cluster)
            except PlanError as error:
                if is_meant:
                    mistakes_by_run[run_name][answer.host.name] = error
            else:
                # Only the plan tells the name that a person gave the run.
                if is_meant or host_copy.plan.label == asked_run:
                    copies_by_run[run_name].append(host_copy)
    runs = {
        run_name: _join(copies_by_run[run_name], mistakes_by_run.get(run_name, {}), answered_hosts)
        for run_name in sorted(copies_by_run)
    }
    first_mistakes = {
        run_name: next(iter(errors.values()))
        for run_name, errors in mistakes_by_run.items()
        if run_name not in copies_by_run
    }
    host_errors = [answer.error for answer in answers if answer.error]
    return PlansOnHosts(runs, first_mistakes, tuple(host_errors))


def _reports_by_run(answer: HostAnswer) -> dict[str, Mapping[str, Any]]:
    """Return what a host reports, once of each run."""
    report_by_run: dict[str, Mapping[str, Any]] = {}
    for host_report in answer.objects:
        run_name = host_report.get("run")
        if isinstance(run_name, str) and isinstance(host_report.get("plan"), str):
            report_by_run.setdefault(run_name, host_report)
    return report_by_run


def _read_copy(
    answer: HostAnswer, host_report: Mapping[str, Any], run_name: str, cluster: Cluster
) -> _HostCopy:
    """Read what a host reports of this run. Raises: PlanError."""
    plan = _parse(host_report["plan"], run_name, cluster)
    host_time = host_report.get("now")
    clock_ahead = None
    if isinstance(host_time, float) and math.isfinite(host_time):
        # The host looked at its clock just before the first bytes came.
        clock_ahead = host_time - answer.moment
    return _HostCopy(
        answer.host.name,
        # some hosts may have been away when the launcher detached
        replace(plan, policy=replace(plan.policy, keep=True)),
        plan.policy.keep,
        host_report.get("live") is True,
        host_report.get("begun") is True,
        clock_ahead,
    )


def _parse(plan_text: str, run_name: str, cluster: Cluster) -> Plan:
    """Parse the plan of this run in the answer of a host. Raises: PlanError."""
    try:
        # Parsing takes many times the memory of the text, and a host may send anything.
        if len(plan_text) > LIMITS.plan:
            raise ValueError(f"it is longer than {size(LIMITS.plan)}")
        plan = serialize.parse(plan_text)
    except serialize.OtherFormat:
        raise
    except ValueError as error:
        raise PlanError(
            f"{run_name}: the plan that its hosts keep cannot be read: {error}"
        ) from error
    if plan.run != run_name:
        raise PlanError(f"{run_name}: what its hosts keep is the plan of another run, {plan.run}")
    return trust.with_ways(trust.harmless(plan), cluster)


# One plan out of several --------------------------------------------------------------------------


def _join(
    copies: Sequence[_HostCopy],
    mistakes_by_host: Mapping[str, PlanError],
    answered_hosts: frozenset[str],
) -> RunOnHosts:
    """Make one run of what its hosts report. A host that differs is named, and changes nothing for
    the others."""
    plan = _most_kept(copies)
    same_copies = [host_copy for host_copy in copies if host_copy.plan == plan]
    other_copies = [host_copy for host_copy in copies if host_copy.plan != plan]
    plan_hosts = [host.name for host in plan.hosts]
    reporting_hosts = {host_copy.host for host_copy in copies} | set(mistakes_by_host)
    asked_hosts = answered_hosts.intersection(plan_hosts)
    clock_offsets = {}
    for host_copy in copies:
        if host_copy.ahead is not None and host_copy.host in plan_hosts:
            clock_offsets[plan_hosts.index(host_copy.host)] = host_copy.ahead
    remarks = [f"{host}: {plan_error}" for host, plan_error in mistakes_by_host.items()]
    for host_copy in other_copies:
        remarks.append(f"{host_copy.host} keeps another plan of {plan.run}, which is not used")
    keeps_running = any(host_copy.keep for host_copy in same_copies)
    return RunOnHosts(
        KeptPlan(
            replace(plan, policy=replace(plan.policy, keep=keeps_running)),
            clock_offsets,
            foreign=True,
            others=_plans_of_other_places(plan, other_copies),
        ),
        hosts=tuple(host_copy.host for host_copy in copies),
        live=tuple(host_copy.host for host_copy in copies if host_copy.is_live),
        has_begun=any(host_copy.has_begun for host_copy in copies),
        is_shared=2 * len(asked_hosts & reporting_hosts) > len(asked_hosts),
        remarks=tuple(remarks),
    )


def _most_kept(copies: Sequence[_HostCopy]) -> Plan:
    """Return the plan that most of its own hosts keep; of several, the one that leaves out the
    fewest hosts which know the run, then the one of the first host."""
    reporting_hosts = {host_copy.host for host_copy in copies}

    def count_votes(plan: Plan) -> tuple[int, int, int]:
        keeping_hosts = [host_copy.host for host_copy in copies if host_copy.plan == plan]
        plan_members = {host.name for host in plan.hosts}
        return (
            len(plan_members.intersection(keeping_hosts)),
            len(keeping_hosts),
            len(plan_members & reporting_hosts),
        )

    # `max` takes the first of equal ones
    return max((host_copy.plan for host_copy in copies), key=count_votes)


def _plans_of_other_places(plan: Plan, other_copies: Sequence[_HostCopy]) -> tuple[Plan, ...]:
    """Return the plans by which a host has another index in the run than by `plan`: there it
    would not be found."""
    other_plans: list[Plan] = []
    for host_copy in other_copies:
        is_elsewhere = _place(host_copy.host, host_copy.plan) != _place(host_copy.host, plan)
        if is_elsewhere and host_copy.plan not in other_plans:
            other_plans.append(host_copy.plan)
    return tuple(other_plans)


def _place(host_name: str, plan: Plan) -> int:
    """Return the index of a host in a run, -1 if it has none."""
    member_names = [member.name for member in plan.hosts]
    return member_names.index(host_name) if host_name in member_names else -1
