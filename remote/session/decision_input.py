"""What decisions are made from: the run, the links to its hosts, and the time."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from remote.plan.plan import Plan, Policy
from remote.run.run_state import RunState
from remote.run.state.host_state import HostState
from remote.run.state.launcher_state import LauncherState
from remote.session.actions import Actions, Send
from remote.session.host_link import HostLink
from remote.session.times import Times
from training.wire.commands import Command

LinkedHost = tuple[HostState, HostLink]


@dataclass(frozen=True)
class DecisionInput:
    """All that a rule may look at."""

    run: RunState
    links: Sequence[HostLink]
    """In the order of the hosts."""
    forwarded: Mapping[str, str]
    """Variables for the ranks, see `remote.plan.environment`."""
    times: Times
    now: float
    """By the session's clock, as the times of the records."""

    @property
    def launcher(self) -> LauncherState:
        """Return how far the launchers of the run have come."""
        return self.run.launcher

    @property
    def policy(self) -> Policy:
        """Return what is to happen when something goes wrong."""
        return self.run.plan.policy

    @cached_property
    def hosts(self) -> list[LinkedHost]:
        """Return all hosts with their links."""
        return list(zip(self.run.hosts, self.links, strict=True))

    @cached_property
    def live(self) -> list[LinkedHost]:
        """Return the hosts from which more is to come."""
        return [(host, link) for host, link in self.hosts if not is_done(host, link)]

    @cached_property
    def taking_part(self) -> list[LinkedHost]:
        """Return the hosts of the attempt, in the order of their ranks."""
        return [self.hosts[host_index] for host_index in self.launcher.hosts]

    @property
    def plan(self) -> Plan:
        """Return the plan for the hosts of the attempt."""
        return self.plan_on(self.launcher.hosts)

    def plan_on(self, host_indices: Collection[int]) -> Plan:
        """Return the plan for these hosts only, resumed from a checkpoint that one of them has."""
        plan = self.run.plan
        work = plan.work
        # A run that was started afresh continues from its own checkpoints once it restarts.
        if plan.job and any(self.run.hosts[host_index].saved_step for host_index in host_indices):
            work = replace(plan.job, resume=plan.run)
        planned_hosts = tuple(plan.hosts[host_index] for host_index in host_indices)
        return replace(plan, hosts=planned_hosts, work=work)

    def missing_variables(self, host_indices: Iterable[int]) -> list[str]:
        """Return what the ranks on these hosts need of the operator's environment, but lack."""
        missing_names: list[str] = []
        for host_index in host_indices:
            needed_names = self.run.plan.hosts[host_index].env_from
            missing_names += [
                variable_name
                for variable_name in needed_names
                if variable_name not in self.forwarded
            ]
        return missing_names

    @property
    def ranks_without_step(self) -> list[int]:
        """Return the ranks that have made no step in this attempt. In a script: those that have
        not been started."""
        ranks = self.run.processes
        if self.run.plan.job:
            return [state.rank for state in ranks if not (state.pace or state.serves)]
        return [state.rank for state in ranks if not state.pid]

    def may_return(self, host: HostState) -> bool:
        """Return True if an agent may be there to which another connection can lead."""
        return host.hello is not None or self.launcher.returned


def is_done(host: HostState, link: HostLink) -> bool:
    """Return True if nothing more comes from a host."""
    return host.done or link.released


def can_send(link: HostLink, command_type: type[Command], *key_parts: object) -> bool:
    """Return True if the connection in use has not taken a command of this kind and key yet."""
    return link.is_open and (command_type, *key_parts) not in link.sent


def send_once(link: HostLink, command: Command, *key_parts: object) -> Actions:
    """Send a command, unless the connection in use has taken it, or there is none."""
    command_type = type(command)
    if can_send(link, command_type, *key_parts):
        yield Send(link.index, command, (command_type, *key_parts))
