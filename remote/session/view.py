"""What decisions are made from: the run, the connections to its hosts, and the time."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from remote.plan.plan import Plan, Policy
from remote.run.run_state import RunState
from remote.run.state.host_state import HostState
from remote.run.state.launcher_state import LauncherState
from remote.session.actions import Action, Send
from remote.session.contact import Contact
from remote.session.times import Times
from training.wire.commands import Command

Host = tuple[HostState, Contact]


@dataclass(frozen=True)
class View:
    """`forwarded`: variables for the ranks, see `remote.plan.environment`."""

    run: RunState
    contacts: Sequence[Contact]
    forwarded: Mapping[str, str]
    times: Times
    now: float

    @property
    def course(self) -> LauncherState:
        """How far the launchers of the run have come."""
        return self.run.course

    @property
    def policy(self) -> Policy:
        """What is to happen when something goes wrong."""
        return self.run.plan.policy

    def hosts(self) -> Iterator[Host]:
        """All hosts with their connections."""
        return zip(self.run.hosts, self.contacts, strict=True)

    @cached_property
    def live(self) -> list[Host]:
        """The hosts of which more is to come."""
        return [(host, contact) for host, contact in self.hosts() if not is_done(host, contact)]

    def taking_part(self) -> list[Host]:
        """The hosts of the attempt, in the order of their ranks."""
        return [(self.run.hosts[on], self.contacts[on]) for on in self.course.hosts]

    def plan_on(self, numbers: Collection[int]) -> Plan:
        """The plan for these hosts only, resumed from a checkpoint that one of them has."""
        plan = self.run.plan
        work = self.run.plan.work
        if plan.job and any(self.run.hosts[on].saved_step for on in numbers):
            work = replace(plan.job, resume=plan.run)
        return replace(plan, hosts=tuple(plan.hosts[on] for on in numbers), work=work)

    def missing_variables(self, numbers: Iterable[int]) -> list[str]:
        """What the ranks on these hosts need of the operator's environment, and is not there."""
        hosts = [self.run.plan.hosts[on] for on in numbers]
        return [name for host in hosts for name in host.env_from if name not in self.forwarded]

    @property
    def without_step(self) -> list[int]:
        """The ranks that have made no step in this attempt; those of a user's own script: that have
        not been started."""
        if self.run.plan.job:
            return [one.rank for one in self.run.ranks if not (one.pace or one.serves)]
        return [one.rank for one in self.run.ranks if not one.pid]

    def may_return(self, host: HostState) -> bool:
        """Whether an agent is there, or may be, to which another connection can lead."""
        return host.hello is not None or self.course.returned


def is_done(host: HostState, contact: Contact) -> bool:
    """Whether nothing more comes from a host."""
    return host.done or contact.released


def takes(contact: Contact, kind: type[Command], *key: object) -> bool:
    """Whether the connection in use is there, and has not taken a command of this kind and key."""
    return contact.is_open and (kind, *key) not in contact.sent


def send_once(contact: Contact, command: Command, *key: object) -> list[Action]:
    """Send a command, unless the connection in use has taken it, or there is none."""
    kind = type(command)
    return [Send(contact.index, command, (kind, *key))] if takes(contact, kind, *key) else []
