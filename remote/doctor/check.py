"""What one host's facts mean for a plan, check by check. Pure: `software`, `machine` and `network`
hold the checks."""

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


@dataclass(frozen=True)
class Found:
    """What a check comes to; see `training.wire.events.Checked`."""

    outcome: str
    text: str
    advice: str = ""


@dataclass(frozen=True)
class Facts:
    """All that is known of the hosts, in their order: None for one that was not reached; offsets in
    seconds."""

    plan: Plan
    hellos: Sequence[Hello | None]
    offsets: Sequence[float]

    def host(self, index: int) -> Host:
        """The host as its file describes it."""
        return self.plan.hosts[index]

    def hello(self, index: int) -> Hello:
        """The facts of a host that was reached."""
        found = self.hellos[index]
        assert found is not None, "only hosts that were reached are checked"
        return found

    @cached_property
    def reached(self) -> tuple[int, ...]:
        """The hosts that have said Hello."""
        return tuple(index for index, hello in enumerate(self.hellos) if hello)

    def machine(self, index: int) -> tuple[int, ...]:
        """The hosts that are one machine with this one, itself among them."""
        boot = self.hello(index).boot_id
        return tuple(other for other in self.reached if self.hello(other).boot_id == boot)

    def elsewhere(self, index: int) -> tuple[int, ...]:
        """The hosts that are other machines."""
        same = self.machine(index)
        return tuple(other for other in self.reached if other not in same)

    def sharing(self, index: int) -> tuple[int, ...]:
        """The hosts of the file that are one machine with this one, and not containers or hosts of
        a lab with interfaces of their own."""
        own = self.hello(index).interfaces
        return tuple(other for other in self.machine(index) if self.hello(other).interfaces == own)

    def median_if_behind(self, index: int, of: Callable[[int], float]) -> float:
        """Return the median over the hosts of a figure, if this host is far behind it; else 0.

        Of two hosts it is the larger figure. A figure of 0 is not known.
        """
        known = [figure for figure in map(of, self.reached) if figure]
        usual = median_high(known) if known else 0.0
        return usual if 0 < of(index) < BEHIND * usual else 0.0

    @property
    def median_host(self) -> str:
        """The host that has such a median, in words."""
        return "the median host" if len(self.reached) > 2 else "the other host"

    @cached_property
    def waits_for_slowest(self) -> bool:
        """Whether all ranks wait for each other in every step."""
        return self.plan.job is None or not self.plan.job.traits().stale

    def ranks(self, index: int) -> int:
        """How many ranks of the run share this host's machine."""
        return sum(self.host(other).slots for other in self.machine(index))

    def usual(self, of: Callable[[Hello], T]) -> T:
        """What most hosts have; where there is a tie, the first of them."""
        return Counter(of(self.hello(index)) for index in self.reached).most_common(1)[0][0]

    def names(self, has: Callable[[Hello], bool]) -> str:
        """The hosts of which that is true, some of them by name."""
        names = [self.host(index).name for index in self.reached if has(self.hello(index))]
        return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
