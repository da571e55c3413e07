"""Finds why a rank takes longer than the others: its data, its GPU, or the cores of its host.
Pure."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from enum import StrEnum
from typing import NamedTuple

from remote.format import step_time
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


class SlowKind(StrEnum):
    """What makes a rank slow."""

    DATA = "data"
    GPU_CLOCK = "GPU clock"
    FEW_CORES = "few cores"
    OTHER_PROGRAMS = "other programs"
    CPU_TIME = "CPU time"


class SlowReason(NamedTuple):
    """Why a rank is slow."""

    kind: SlowKind
    text: str
    """In words, with the figures that tell it."""


def explain_straggler(rank: RankState, ranks: Ranks, hosts: Hosts) -> SlowReason | None:
    """Return why a rank takes longer than the others; None if nothing tells."""
    other_ranks = [other for other in ranks if other is not rank]
    own_ready, typical_ready = _own_and_typical(rank, other_ranks, "ready")
    own_loading, typical_loading = _own_and_typical(rank, other_ranks, "data")
    # Data counts as the cause if it explains more than half of the difference.
    if own_loading - typical_loading > (own_ready - typical_ready) / 2:
        times_text = f"{step_time(own_loading)} per step, others {step_time(typical_loading)}"
        return SlowReason(SlowKind.DATA, f"it waits for its data: {times_text}")
    # Its gradients do not depend on the cores, so these explain nothing.
    if rank.on_gpu:
        return _explain_slow_clock(rank, other_ranks)
    return (
        _explain_few_cores(rank, other_ranks, hosts)
        or _explain_busy_host(rank, ranks, hosts)
        or _explain_slow_cores(rank, other_ranks)
    )


def shares_cores(rank: RankState, ranks: Ranks, hosts: Hosts) -> bool:
    """Return True if it computes on the same cores as other ranks.

    A rank that has fewer cores than the others is late because of that.
    """
    if rank.on_gpu:
        return False
    other_ranks = [other for other in ranks if other is not rank]
    machine_hosts = _hosts_of_machine(hosts[rank.host], hosts)
    shares_machine = any(other.host in machine_hosts for other in other_ranks)
    return shares_machine and not _explain_few_cores(rank, other_ranks, hosts)


def is_crowded(rank: RankState, ranks: Ranks, hosts: Hosts) -> bool:
    """Return True if it shares its cores with other ranks and with programs that fill them."""
    has_foreign_load = _count_foreign_cores(rank, ranks, hosts) > 0
    return has_foreign_load and shares_cores(rank, ranks, hosts)


def _explain_slow_clock(rank: RankState, others: Ranks) -> SlowReason | None:
    gpu = rank.gpu
    other_clocks = [other.gpu.clock for other in others if other.gpu and other.gpu.clock]
    if not gpu or not gpu.clock or not other_clocks:
        return None
    typical_clock = statistics.median(other_clocks)
    if gpu.clock > LOWER * typical_clock:
        return None
    reason_texts = (
        f" because of {name}" for bits, name in CLOCK_LIMITS.items() if gpu.reasons & bits
    )
    reason_text = next(reason_texts, "")
    text = f"its GPU runs at {gpu.clock} MHz{reason_text}, others at {typical_clock:.0f} MHz"
    return SlowReason(SlowKind.GPU_CLOCK, text)


def _explain_few_cores(rank: RankState, others: Ranks, hosts: Hosts) -> SlowReason | None:
    ranks_of_hosts = Counter(each.host for each in (rank, *others))
    cores_per_rank = {
        host.index: host.hello.cores / max(1, ranks_of_hosts[host.index])
        for host in hosts
        if host.hello
    }
    cores_of_others = [
        cores_per_rank[other.host] for other in others if other.host in cores_per_rank
    ]
    own_cores = cores_per_rank.get(rank.host)
    if own_cores is None or not cores_of_others:
        return None
    typical_cores = statistics.median(cores_of_others)
    if own_cores > FEWER * typical_cores:
        return None
    unit = "core" if own_cores == 1 else "cores"
    text = f"it has {own_cores:.3g} {unit}, others {typical_cores:.3g}"
    return SlowReason(SlowKind.FEW_CORES, text)


def _explain_busy_host(rank: RankState, ranks: Ranks, hosts: Hosts) -> SlowReason | None:
    foreign_cores = _count_foreign_cores(rank, ranks, hosts)
    num_cores = len(hosts[rank.host].sample.cpu)
    if not foreign_cores:
        return None
    text = f"other programs use {foreign_cores:.1f} of the {num_cores} cores of its host"
    return SlowReason(SlowKind.OTHER_PROGRAMS, text)


def _count_foreign_cores(rank: RankState, ranks: Ranks, hosts: Hosts) -> float:
    """Return the cores of its machine that other programs use, if all cores are in use; else 0."""
    host = hosts[rank.host]
    if not (host.hello and host.sample.cpu):
        return 0.0
    machine_hosts = _hosts_of_machine(host, hosts)
    rank_percent = sum(
        each.cpu for each in ranks if each.host in machine_hosts and not math.isnan(each.cpu)
    )
    num_cores = len(host.sample.cpu)
    used_percent = sum(host.sample.cpu)
    foreign_cores = (used_percent - rank_percent) / 100
    is_full = used_percent >= FULL * 100 * num_cores
    return foreign_cores if is_full and foreign_cores >= FOREIGN * num_cores else 0.0


def _hosts_of_machine(host: HostState, hosts: Hosts) -> set[int]:
    """Return the hosts that are on the same machine as this one."""
    boot_id = host.hello.boot_id if host.hello else ""
    return {other.index for other in hosts if other.hello and other.hello.boot_id == boot_id}


def _explain_slow_cores(rank: RankState, others: Ranks) -> SlowReason | None:
    """Return that the same work takes more CPU time there, if it does."""
    own_seconds, typical_seconds = _own_and_typical(rank, others, "cpu_seconds")
    if not own_seconds > SLOWER * typical_seconds > 0:
        return None
    times_text = (
        f"{step_time(own_seconds)} of CPU time per step, others {step_time(typical_seconds)}"
    )
    text = f"slower cores or more work: {times_text}"
    return SlowReason(SlowKind.CPU_TIME, text)


def _own_and_typical(rank: RankState, others: Ranks, figure: str) -> tuple[float, float]:
    """Return the mean of a figure of the rank, and the median of those of the others."""
    typical_value = statistics.median(other.pace.mean(figure) for other in others)
    return rank.pace.mean(figure), typical_value
