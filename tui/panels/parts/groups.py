"""The lines of the table of ranks: a rank each, or of many ranks a host each, that opens. Pure."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from remote.plan.plan import Plan
from remote.run.state import RankState, RunState
from tui.panels.parts.order import Order, in_order, severity

GROUPED = 64
"""Ranks beyond which there is a line per host."""


@dataclass(frozen=True)
class Line:
    """A rank; or the ranks of a host, the one first that needs most to be seen. `of_host`: which is
    shown as a whole, -1 where the line is of a rank."""

    ranks: Sequence[RankState]
    of_host: int = -1

    @property
    def key(self) -> int:
        """What tells it from other lines: the number of the rank, or that of the host below 0."""
        return -1 - self.of_host if self.of_host >= 0 else self.ranks[0].rank


def is_grouped(plan: Plan) -> bool:
    """Whether there is a line per host: only where that makes fewer lines."""
    return plan.world_size > GROUPED and 1 < len(plan.hosts) < plan.world_size


def lines(run: RunState, order: Order, opened: Collection[int], room: int) -> list[Line]:
    """The lines in this order. Of the hosts that are `opened` the ranks follow, in order."""
    if not is_grouped(run.plan):
        return [Line((rank,)) for rank in in_order(run.ranks, run, order, room)]
    found = []
    for host in _hosts(run, order, room):
        found.append(host)
        if host.of_host in opened:
            found += [Line((rank,)) for rank in sorted(host.ranks, key=order.key)]
    return found


def _hosts(run: RunState, order: Order, room: int) -> list[Line]:
    """The hosts, each where its first rank would be."""
    by_host: dict[int, list[RankState]] = {}
    for rank in run.ranks:
        by_host.setdefault(rank.host, []).append(rank)
    found = []
    for host, ranks in by_host.items():
        ranks.sort(key=lambda rank: (severity(rank, run), order.key(rank)))
        found.append(Line(ranks, host))
    found.sort(key=lambda line: min(map(order.key, line.ranks)))
    if len(found) > room:
        found.sort(key=lambda line: severity(line.ranks[0], run))
    return found
