"""Finds why a rank takes longer than the others: its data, its GPU, or the cores of its host.
Pure."""

from __future__ import annotations

import math
import statistics
from collections import Counter

from remote.format import number, seconds
from remote.run.state.host_state import Hosts, HostState
from remote.run.state.rank_state import Ranks, RankState

FEWER = 0.8
"""A rank has fewer cores than the others if it has at most this share of theirs."""
FULL = 0.9
"""The cores of a host are all in use above this share of them."""
FOREIGN = 0.25
"""Other programs matter above this share of the cores."""
SLOWER = 1.25
"""A step takes more CPU time than elsewhere if it takes this many times as much."""
LOWER = 0.9
"""A clock is lower than those of others if it has at most this share of theirs."""
CLOCK_LIMITS = {0x60: "heat", 0x84: "its power limit", 0x08: "its hardware", 0x02: "a setting"}
"""What holds the clock of a GPU down, by the bits of NVML, the most telling first."""


def explain_straggler(rank: RankState, ranks: Ranks, hosts: Hosts) -> str:
    """Return why a rank takes longer than the others, in words; "" if nothing tells."""
    others = [other for other in ranks if other is not rank]
    ready, typical = _own_and_typical(rank, others, "ready")
    own_loading, loading = _own_and_typical(rank, others, "data")
    if own_loading - loading > (ready - typical) / 2:
        spent = f"{seconds(own_loading)} s per step, others {seconds(loading)} s"
        return f"it waits for its data: {spent}"
    if rank.on_gpu:
        return _explain_slow_clock(rank, others)
    return (
        _explain_few_cores(rank, others, hosts)
        or _explain_busy_host(rank, ranks, hosts)
        or _explain_slow_cores(rank, others)
    )


def is_crowded(rank: RankState, ranks: Ranks, hosts: Hosts) -> bool:
    """Return True if it shares its cores with other ranks and with programs that fill them.

    A rank that has fewer cores than the others is late because of that.
    """
    if rank.on_gpu or not _count_foreign_cores(rank, ranks, hosts):
        return False
    others = [other for other in ranks if other is not rank]
    machine = _hosts_of_machine(hosts[rank.host], hosts)
    shares_machine = any(other.host in machine for other in others)
    return shares_machine and not _explain_few_cores(rank, others, hosts)


def _explain_slow_clock(rank: RankState, others: Ranks) -> str:
    gpu = rank.gpu
    clocks = [other.gpu.clock for other in others if other.gpu and other.gpu.clock]
    if not gpu or not gpu.clock or not clocks:
        return ""
    typical = statistics.median(clocks)
    if gpu.clock > LOWER * typical:
        return ""
    reasons = (f" because of {name}" for bits, name in CLOCK_LIMITS.items() if gpu.reasons & bits)
    return f"its GPU runs at {gpu.clock} MHz{next(reasons, '')}, others at {typical:.0f} MHz"


def _explain_few_cores(rank: RankState, others: Ranks, hosts: Hosts) -> str:
    ranks_of_hosts = Counter(each.host for each in (rank, *others))
    cores = {
        host.index: host.hello.cores / max(1, ranks_of_hosts[host.index])
        for host in hosts
        if host.hello
    }
    cores_of_others = [cores[other.host] for other in others if other.host in cores]
    own_cores = cores.get(rank.host)
    if own_cores is None or not cores_of_others:
        return ""
    typical = statistics.median(cores_of_others)
    if own_cores > FEWER * typical:
        return ""
    unit = "core" if own_cores == 1 else "cores"
    return f"it has {number(own_cores)} {unit}, others {number(typical)}"


def _explain_busy_host(rank: RankState, ranks: Ranks, hosts: Hosts) -> str:
    foreign = _count_foreign_cores(rank, ranks, hosts)
    total = len(hosts[rank.host].sample.cpu)
    return f"other programs use {foreign:.1f} of the {total} cores of its host" if foreign else ""


def _count_foreign_cores(rank: RankState, ranks: Ranks, hosts: Hosts) -> float:
    """Return the cores of its machine that other programs use, if all cores are in use; else 0."""
    host = hosts[rank.host]
    if not (host.hello and host.sample.cpu):
        return 0.0
    machine = _hosts_of_machine(host, hosts)
    of_ranks = sum(each.cpu for each in ranks if each.host in machine and not math.isnan(each.cpu))
    total = len(host.sample.cpu)
    in_use = sum(host.sample.cpu)
    foreign = (in_use - of_ranks) / 100
    is_full = in_use >= FULL * 100 * total
    return foreign if is_full and foreign >= FOREIGN * total else 0.0


def _hosts_of_machine(host: HostState, hosts: Hosts) -> set[int]:
    """Return the hosts that are on the same machine as this one."""
    boot_id = host.hello.boot_id if host.hello else ""
    return {other.index for other in hosts if other.hello and other.hello.boot_id == boot_id}


def _explain_slow_cores(rank: RankState, others: Ranks) -> str:
    """Return that the same work takes more CPU time there, if it does."""
    own_seconds, typical = _own_and_typical(rank, others, "cpu_seconds")
    if not own_seconds > SLOWER * typical > 0:
        return ""
    spent = f"{seconds(own_seconds)} s of CPU time per step, others {seconds(typical)} s"
    return f"slower cores or more work: {spent}"


def _own_and_typical(rank: RankState, others: Ranks, figure: str) -> tuple[float, float]:
    """Return the mean of a figure of the rank, and the median of those of the others."""
    typical = statistics.median(other.pace.mean(figure) for other in others)
    return rank.pace.mean(figure), typical
