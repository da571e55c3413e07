"""Why a rank takes longer than the others: its data, its GPU, or the cores of its host. Pure."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from remote.format import number, seconds
from remote.run.state.host_state import HostState
from remote.run.state.rank_state import RankState

FEWER = 0.8
"""A rank has fewer cores than the others where it has at most this share of theirs."""
FULL = 0.9
"""The cores of a host are all in use above this share of them."""
FOREIGN = 0.25
"""Other programs matter above this share of the cores."""
SLOWER = 1.25
"""A step takes more CPU time than elsewhere where it takes this many times as much."""
LOWER = 0.9
"""A clock is lower than those of others where it has at most this share of theirs."""
LIMITS = {0x60: "heat", 0x84: "its power limit", 0x08: "its hardware", 0x02: "a setting"}
"""What holds the clock of a GPU down, by the bits of NVML, the most telling first."""


def why(rank: RankState, ranks: Sequence[RankState], hosts: Sequence[HostState]) -> str:
    """Why a rank takes longer than the others, in words; "" where nothing tells."""
    others = [one for one in ranks if one is not rank]
    late = rank.pace.mean("ready") - _typical(others, "ready")
    loads = rank.pace.mean("data")
    load = _typical(others, "data")
    if loads - load > late / 2:
        return f"it waits for its data: {seconds(loads)} s per step, others {seconds(load)} s"
    if rank.on_gpu:
        return _slow_clock(rank, others)
    return _few_cores(rank, others, hosts) or _busy(rank, ranks, hosts) or _slow_cores(rank, others)


def _slow_clock(rank: RankState, others: Sequence[RankState]) -> str:
    """That its GPU has a lower clock than theirs."""
    theirs = [one.gpu.clock for one in others if one.gpu and one.gpu.clock]
    if not rank.gpu or not rank.gpu.clock or not theirs:
        return ""
    own = rank.gpu.clock
    typical = statistics.median(theirs)
    if own > LOWER * typical:
        return ""
    why = next(
        (f" because of {name}" for bits, name in LIMITS.items() if rank.gpu.reasons & bits), ""
    )
    return f"its GPU runs at {own} MHz{why}, others at {typical:.0f} MHz"


def _few_cores(rank: RankState, others: Sequence[RankState], hosts: Sequence[HostState]) -> str:
    """That it has fewer cores than the others."""
    cores = {
        host.index: host.hello.cores
        / max(1, sum(one.host == host.index for one in (rank, *others)))
        for host in hosts
        if host.hello
    }
    theirs = [cores[one.host] for one in others if one.host in cores]
    if rank.host not in cores or not theirs:
        return ""
    own = cores[rank.host]
    typical = statistics.median(theirs)
    if own > FEWER * typical:
        return ""
    return f"it has {number(own)} {'core' if own == 1 else 'cores'}, others {number(typical)}"


def is_crowded(rank: RankState, ranks: Sequence[RankState], hosts: Sequence[HostState]) -> bool:
    """Whether it shares the cores of its machine with other ranks and with programs that fill them.
    A rank that has fewer cores than the others is late for that."""
    if rank.on_gpu or not _foreign(rank, ranks, hosts):
        return False
    others = [one for one in ranks if one is not rank]
    machine = _machine(hosts[rank.host], hosts)
    return any(one.host in machine for one in others) and not _few_cores(rank, others, hosts)


def _busy(rank: RankState, ranks: Sequence[RankState], hosts: Sequence[HostState]) -> str:
    """That other programs use the cores of its machine."""
    foreign = _foreign(rank, ranks, hosts)
    total = len(hosts[rank.host].cpu)
    return f"other programs use {foreign:.1f} of the {total} cores of its host" if foreign else ""


def _foreign(rank: RankState, ranks: Sequence[RankState], hosts: Sequence[HostState]) -> float:
    """The cores of its machine that other programs use, where all cores are in use; else 0."""
    host = hosts[rank.host]
    if not (host.hello and host.cpu):
        return 0.0
    machine = _machine(host, hosts)
    ours = sum(one.cpu for one in ranks if one.host in machine and not math.isnan(one.cpu))
    total = len(host.cpu)
    foreign = (sum(host.cpu) - ours) / 100
    is_full = sum(host.cpu) >= FULL * 100 * total
    return foreign if is_full and foreign >= FOREIGN * total else 0.0


def _machine(host: HostState, hosts: Sequence[HostState]) -> set[int]:
    """The hosts on its machine."""
    boot_id = host.hello.boot_id if host.hello else ""
    return {one.index for one in hosts if one.hello and one.hello.boot_id == boot_id}


def _slow_cores(rank: RankState, others: Sequence[RankState]) -> str:
    """That the same work takes more CPU time there."""
    own = rank.pace.mean("cpu_seconds")
    typical = _typical(others, "cpu_seconds")
    if not own > SLOWER * typical > 0:
        return ""
    spent = f"{seconds(own)} s of CPU time per step, others {seconds(typical)} s"
    return f"slower cores or more work: {spent}"


def _typical(ranks: Sequence[RankState], figure: str) -> float:
    """The median over ranks of a mean figure."""
    return statistics.median(rank.pace.mean(figure) for rank in ranks)
