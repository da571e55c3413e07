"""The lines of the table of ranks: a rank each, or of many ranks a host each, that opens. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from remote.plan.plan import Plan
from remote.run.run_state import RunState
from remote.run.state.rank_state import RankState
from tui.kit.rank_table import RankTableLine
from tui.run.components.rank_order import RankOrder, severity, sort_ranks

MAX_SINGLE_RANKS = 64
"""Ranks beyond which there is a line per host."""


def is_grouped(plan: Plan) -> bool:
    """Whether there is a line per host: only where that makes fewer lines."""
    return plan.world_size > MAX_SINGLE_RANKS and 1 < len(plan.hosts) < plan.world_size


def table_lines(
    run: RunState, order: RankOrder, opened: Collection[int], room: int
) -> list[RankTableLine]:
    """The lines in this order. Of the hosts that are `opened` the ranks follow, in order."""
    if run.has_workers:
        return list(_below_processes(run, order, room))
    if not is_grouped(run.plan):
        return [RankTableLine((rank,)) for rank in sort_ranks(run.ranks, run, order, room)]
    rank_lines = []
    for host_line in _hosts(run, order, room):
        rank_lines.append(host_line)
        if host_line.of_host in opened:
            rank_lines += [
                RankTableLine((rank,)) for rank in sorted(host_line.ranks, key=order.key)
            ]
    return rank_lines


def _below_processes(run: RunState, order: RankOrder, room: int) -> Iterator[RankTableLine]:
    """The processes that rankboard has started, each with the ranks below it that it has started
    itself, in their order."""
    lines_of_process: dict[int, list[RankTableLine]] = {}
    for rank in sort_ranks(run.ranks, run, order, room - len(run.processes)):
        lines_of_process.setdefault(rank.process, []).append(RankTableLine((rank,)))
    for process in run.processes:
        yield RankTableLine((process,), is_process=True)
        yield from lines_of_process.get(process.rank, ())
    # Nobody knows yet who starts these.
    yield from lines_of_process.get(-1, ())


def _hosts(run: RunState, order: RankOrder, room: int) -> list[RankTableLine]:
    """The hosts, each where its first rank would be."""
    ranks_of_hosts: dict[int, list[RankState]] = {}
    for rank in run.ranks:
        ranks_of_hosts.setdefault(rank.host, []).append(rank)
    host_lines = []
    for host, host_ranks in ranks_of_hosts.items():
        # The first rank stands for its host in the row.
        host_ranks.sort(key=lambda rank: (severity(rank, run), order.key(rank)))
        host_lines.append(RankTableLine(host_ranks, host))
    host_lines.sort(key=lambda line: min(map(order.key, line.ranks)))
    if order.marked_first or len(host_lines) > room:
        # Sorting is stable, so hosts of one severity stay in the order above.
        host_lines.sort(key=lambda line: severity(line.ranks[0], run))
    return host_lines
