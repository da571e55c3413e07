"""What is known of all hosts, and what a check finds. Pure.

`software`, `machine`, `network` and `work` hold the checks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from functools import cached_property
from statistics import median_high
from typing import TypeVar

from msgspec import Struct

from remote.cluster.hosts import Host
from remote.plan.plan import Plan
from training.wire.host_events import Hello

OK = "ok"
WARNING = "warning"
FAILED = "failed"
T = TypeVar("T", bound=Hashable)
BEHIND = 0.8
"""The share of the median of the hosts below which a host is behind the others. Two machines that
are the same to their owner may differ by a few percent, as in what the firmware keeps for itself.
"""


NAMED = 3
"""Hosts that a finding, or a short line on one, names."""


class HostFinding(Struct, frozen=True):
    """What a check comes to; see `remote.events.CheckFinished`. A check that finds all well may
    return the text alone."""

    outcome: str
    text: str
    advice: str = ""
    value: str = ""
    """What was measured; the text, where all is well."""
    command: str = ""
    """The command of rankboard that does what is advised, if there is one."""
    helps_to_exclude: bool = False
    """A run without the host would be better off."""
    is_download: bool = False
    """The text says what has to be downloaded first."""


class CheckedHost(Struct, frozen=True, dict=True):
    """A host that has said Hello, for the checks."""

    plan: Plan
    index: int
    host: Host
    """As its file describes it."""
    hello: Hello
    offset: float
    """Seconds that its clock is ahead of ours."""
    reached: Sequence[CheckedHost]
    """All hosts that have said Hello, this one too, in their order."""

    @cached_property
    def same_machine(self) -> list[CheckedHost]:
        """Return the hosts that are one machine with this one, itself among them."""
        boot_id = self.hello.boot_id
        return [other_host for other_host in self.reached if other_host.hello.boot_id == boot_id]

    @cached_property
    def elsewhere(self) -> list[CheckedHost]:
        """Return the hosts that are other machines."""
        boot_id = self.hello.boot_id
        return [other_host for other_host in self.reached if other_host.hello.boot_id != boot_id]

    @cached_property
    def sharing(self) -> list[CheckedHost]:
        """Return the hosts of the file that are one machine with this one, and not containers or
        hosts of a lab with interfaces of their own."""
        # Namespaces on one machine have one boot id, but interfaces of their own, and share cores
        # on purpose.
        own_interfaces = self.hello.interfaces
        return [
            other_host
            for other_host in self.same_machine
            if other_host.hello.interfaces == own_interfaces
        ]

    @cached_property
    def ranks_sharing(self) -> int:
        """Return how many ranks share what this host reports that it has."""
        return sum(other_host.host.slots for other_host in self.sharing)

    def median_if_behind(self, measure: Callable[[CheckedHost], float]) -> float:
        """Return the median of a measure over the hosts, if this host is far behind it; else 0.

        Of two hosts it is the larger value. A value of 0 is not known.
        """
        known_values = [host_value for host_value in map(measure, self.reached) if host_value]
        # The higher median: of two hosts, the weaker one is the one to be told of.
        usual_value = median_high(known_values) if known_values else 0.0
        return usual_value if 0 < measure(self) < BEHIND * usual_value else 0.0

    @property
    def median_host(self) -> str:
        """Name the host that has such a median, in words."""
        return "the median host" if len(self.reached) > 2 else "the other host"

    def name_others(self, measure: Callable[[CheckedHost], float], usual_value: float) -> str:
        """Name the hosts that have the median of a measure, or more, in words."""
        others = [other_host for other_host in self.reached if other_host is not self]
        if len(others) == 1:
            return "the other"
        is_same = all(measure(other_host) == usual_value for other_host in others)
        return "the others" if is_same else "most others"

    @property
    def exclude_command(self) -> str:
        """Return the command that checks the hosts without this one; "" for hosts of a lab, whose
        plan does not say how they were limited."""
        if self.plan.is_local:
            return ""
        return f"rankboard doctor{self.plan.hosts_option} --exclude {self.host.name}"

    @property
    def waits_for_slowest(self) -> bool:
        """Return True if all ranks wait for each other in every step."""
        return self.plan.job is None or not self.plan.job.traits().stale

    @property
    def has_gpu_per_rank(self) -> bool:
        """Return True if each rank of the run has a GPU of its own."""
        return all(
            len(other_host.hello.gpus) >= other_host.host.slots for other_host in self.reached
        )

    def usual(self, read_fact: Callable[[Hello], T]) -> T:
        """Return what most hosts have; in a tie, what the first of them has."""
        value_counts = Counter(read_fact(other_host.hello) for other_host in self.reached)
        return value_counts.most_common(1)[0][0]

    def names(self, matches: Callable[[Hello], bool]) -> str:
        """Name the hosts whose facts match, some of them by name."""
        matching_names = [
            other_host.host.name for other_host in self.reached if matches(other_host.hello)
        ]
        hidden_text = (
            f" and {len(matching_names) - NAMED} more" if len(matching_names) > NAMED else ""
        )
        return ", ".join(matching_names[:NAMED]) + hidden_text


def reached_hosts(
    plan: Plan, hellos: Sequence[Hello | None], clock_offsets: Sequence[float] = ()
) -> dict[int, CheckedHost]:
    """Return the hosts that have said Hello, by index. `hellos` are None for the others; without
    `clock_offsets`, clocks are not compared."""
    checked_hosts: list[CheckedHost] = []
    for index, hello in enumerate(hellos):
        if hello:
            clock_offset = clock_offsets[index] if clock_offsets else 0.0
            checked_hosts.append(
                CheckedHost(plan, index, plan.hosts[index], hello, clock_offset, checked_hosts)
            )
    return {checked_host.index: checked_host for checked_host in checked_hosts}
