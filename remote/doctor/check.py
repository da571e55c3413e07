"""What one host's facts mean for a plan, check by check. Pure: `software`, `machine` and `network`
hold the checks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

from remote.cluster.hosts import Host
from remote.plan.plan import Plan
from training.wire.events import Hello

OK, WARNING, FAILED = "ok", "warning", "failed"
T = TypeVar("T", bound=Hashable)


def listed(names: Sequence[str]) -> str:
    """The names in a sentence: "node0", "node0, node1 and node3"."""
    return " and ".join(filter(None, (", ".join(names[:-1]), *names[-1:])))


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
