"""What is known of all hosts, and what a check finds. Pure.

`software`, `machine`, `network` and `work` hold the checks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import median_high
from typing import TypeVar

from remote.cluster.hosts import Host
from remote.plan.plan import Plan
from training.wire.events import Hello

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


@dataclass(frozen=True)
class HostFinding:
    """What a check comes to; see `remote.events.CheckFinished`."""

    outcome: str
    text: str
    advice: str = ""
    is_download: bool = False
    """The text says what has to be downloaded first."""


@dataclass(frozen=True)
class HostFacts:
    """All that is known of the hosts, in their order."""

    plan: Plan
    hellos: Sequence[Hello | None]
    """None for a host that was not reached."""
    offsets: Sequence[float]
    """Seconds that the clock of each host is ahead of ours."""

    def host(self, index: int) -> Host:
        """Return the host as its file describes it."""
        return self.plan.hosts[index]

    def hello(self, index: int) -> Hello:
        """Return the facts of a host that was reached."""
        hello = self.hellos[index]
        assert hello is not None, "only hosts that were reached are checked"
        return hello

    @cached_property
    def reached(self) -> tuple[int, ...]:
        """Return the hosts that have said Hello."""
        return tuple(index for index, hello in enumerate(self.hellos) if hello)

    def on_same_machine(self, index: int) -> tuple[int, ...]:
        """Return the hosts that are one machine with this one, itself among them."""
        boot = self.hello(index).boot_id
        return tuple(other for other in self.reached if self.hello(other).boot_id == boot)

    def elsewhere(self, index: int) -> tuple[int, ...]:
        """Return the hosts that are other machines."""
        same = self.on_same_machine(index)
        return tuple(other for other in self.reached if other not in same)

    def sharing(self, index: int) -> tuple[int, ...]:
        """Return the hosts of the file that are one machine with this one, and not containers or
        hosts of a lab with interfaces of their own."""
        own = self.hello(index).interfaces
        same = self.on_same_machine(index)
        return tuple(other for other in same if self.hello(other).interfaces == own)

    def median_if_behind(self, index: int, measure: Callable[[int], float]) -> float:
        """Return the median of a measure over the hosts, if this host is far behind it; else 0.

        Of two hosts it is the larger value. A value of 0 is not known.
        """
        values = [measure(other) for other in self.reached]
        known = [value for value in values if value]
        usual = median_high(known) if known else 0.0
        return usual if 0 < measure(index) < BEHIND * usual else 0.0

    @property
    def median_host(self) -> str:
        """Name the host that has such a median, in words."""
        return "the median host" if len(self.reached) > 2 else "the other host"

    @cached_property
    def waits_for_slowest(self) -> bool:
        """Return True if all ranks wait for each other in every step."""
        return self.plan.job is None or not self.plan.job.traits().stale

    @cached_property
    def has_gpu_per_rank(self) -> bool:
        """Return True if each rank of the run has a GPU of its own."""
        return all(len(self.hello(index).gpus) >= self.host(index).slots for index in self.reached)

    def ranks_on_machine(self, index: int) -> int:
        """Return how many ranks of the run share this host's machine."""
        return sum(self.host(other).slots for other in self.on_same_machine(index))

    def usual(self, key: Callable[[Hello], T]) -> T:
        """Return what most hosts have; in a tie, what the first of them has."""
        values = Counter(key(self.hello(index)) for index in self.reached)
        return values.most_common(1)[0][0]

    def names(self, matches: Callable[[Hello], bool]) -> str:
        """Name the hosts whose facts match, some of them by name."""
        names = [self.host(index).name for index in self.reached if matches(self.hello(index))]
        more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
        return ", ".join(names[:NAMED]) + more
