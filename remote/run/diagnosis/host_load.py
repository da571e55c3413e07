"""Measures how much of what it may use a host does use. Pure."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Mapping
from statistics import fmean

from msgspec import Struct

from remote.run.state.host_state import Hosts, HostState
from remote.run.state.rank_state import Ranks


class Load(Struct, frozen=True):
    """`cpu` is the share of the `cores` that the host may use which is busy, `gpu` the mean share
    of the time in which the GPUs of its ranks are, `memory` in bytes; NaN and 0 where they are not
    known.

    Samples of a host are of its whole machine. Where it may use only a part of the cores (its quota
    or affinity), or shares the machine with other hosts of the run, they are those of its `own`
    ranks instead.
    """

    cpu: float
    cores: float
    memory: int
    own: bool
    """They are those of its ranks."""
    gpu: float = math.nan


def loads(hosts: Hosts, ranks: Ranks) -> list[Load]:
    """Return the loads of all hosts of a run, in order."""
    memory_of_hosts = Counter[int]()
    gpu_uses = defaultdict[int, list[float]](list)
    for rank in ranks:
        memory_of_hosts[rank.host] += rank.memory
        if rank.gpu and not math.isnan(rank.gpu.use):
            gpu_uses[rank.host].append(rank.gpu.use / 100)
    # The boot ID is one for all containers and hosts of a lab on a machine.
    machines = Counter(host.hello.boot_id for host in hosts if host.hello)
    return [
        _load(
            host,
            memory_of_hosts[host.index],
            fmean(gpu_uses.get(host.index, (math.nan,))),
            machines,
        )
        for host in hosts
    ]


def _load(host: HostState, memory: int, gpu: float, machines: Mapping[str, int]) -> Load:
    sample = host.sample
    num_cores = len(sample.cpu)
    cores = host.hello.cores if host.hello else float(num_cores)
    is_shared = host.hello is not None and machines[host.hello.boot_id] > 1
    if is_shared or cores < num_cores:
        return Load(host.cpu_share, cores, memory, own=True, gpu=gpu)
    busy_share = sum(sample.cpu) / 100 / num_cores if num_cores else math.nan
    return Load(busy_share, cores, sample.memory_used, own=False, gpu=gpu)
