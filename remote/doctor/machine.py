"""Checks whether a host has room for its ranks: which machine it is, its disk, memory, clock, cores
and GPUs."""

from __future__ import annotations

import math

from remote.doctor.host_facts import FAILED, OK, WARNING, HostFacts, HostFinding
from remote.format import count, duration, size
from remote.transport.failure import advise_room

GIB = 2**30
DISK_NEEDED = 16 * 2**20
DISK_WANTED = GIB
"""Bytes in the work folder without which a run fails at once, and those that the journal of one may
take."""
MEMORY_NEEDED = 128 * 2**20
MEMORY_WANTED = 512 * 2**20
"""Bytes that a rank takes at the very least, and those of a small model with torch."""
CLOCK = 1.0
"""Seconds that a clock may be off; less is the way there and back."""
BUSY = 0.5
"""The share of a host's cores that others may keep busy."""


def check_address(facts: HostFacts, index: int) -> HostFinding:
    """Warn if several hosts of the file are one machine, which is most likely a mistake in it.
    Those of a lab, and containers, have interfaces of their own."""
    own = facts.host(index)
    same = [facts.host(other) for other in facts.sharing(index)]
    if len(same) == 1 or facts.plan.is_local:
        return HostFinding(OK, own.address)
    cores = count(facts.hello(index).cores, "core")
    slots = sum(host.slots for host in same)
    return HostFinding(
        WARNING,
        f"the same machine ({cores}): such hosts do not make training faster",
        f"in {own.hosts_file} set the address of each to a machine of its own, or keep "
        f"{same[0].name} alone, with slots = {slots}",
    )


def check_disk(facts: HostFacts, index: int) -> HostFinding:
    """Check the room in the work folder, for the journals and checkpoints of runs."""
    free = facts.hello(index).disk_free
    host = facts.host(index)
    advice = advise_room(host.workdir, host.hosts_file)
    if not free:
        return HostFinding(OK, "not known")
    left = f"only {size(free)} left in {host.workdir}"
    if free < DISK_NEEDED:
        return HostFinding(FAILED, left, advice)
    if free < DISK_WANTED:
        what = f"{left}; journals take up to {size(DISK_WANTED)} per run"
        return HostFinding(WARNING, what, advice)
    return HostFinding(OK, size(free))


def check_memory(facts: HostFacts, index: int) -> HostFinding:
    """Check the memory that is left for the ranks of this machine."""
    free = facts.hello(index).memory_free
    ranks = facts.ranks_on_machine(index)
    hosts_file = facts.plan.hosts_file
    advice = f"end what else runs there, or give it fewer slots in {hosts_file}"
    what = f"only {size(free)} free for {count(ranks, 'rank')}"
    if not free:
        return HostFinding(OK, "not known")
    if free < MEMORY_NEEDED * ranks:
        return HostFinding(FAILED, what, advice)
    if free < MEMORY_WANTED * ranks:
        needed = f"one with torch takes {size(MEMORY_WANTED)} and more"
        return HostFinding(WARNING, f"{what}; {needed}", advice)

    def memory_of_rank(other: int) -> float:
        return facts.hello(other).memory / _ranks_sharing(facts, other)

    usual = facts.median_if_behind(index, memory_of_rank)
    if not usual:
        return HostFinding(OK, size(free))
    return HostFinding(
        WARNING,
        f"{size(memory_of_rank(index))} of memory per rank, but {size(usual)} on "
        f"{facts.median_host}: a batch that fits there may not fit here",
        f"choose a batch size that fits it, or give it fewer slots in {hosts_file}",
    )


def _ranks_sharing(facts: HostFacts, index: int) -> int:
    """Return how many ranks share what this host reports that it has."""
    return sum(facts.host(other).slots for other in facts.sharing(index))


def check_clock(facts: HostFacts, index: int) -> HostFinding:
    """Check how far the host's clock is from ours. The times of a run are corrected by it, so it is
    no reason not to start."""
    offset = facts.offsets[index]
    if not math.isfinite(offset):
        return HostFinding(OK, "not known")
    if abs(offset) <= CLOCK:
        return HostFinding(OK, f"{round(offset, 1) + 0.0:+.1f} s")  # adding 0.0 makes 0.0 of -0.0
    where = "ahead of" if offset > 0 else "behind"
    return HostFinding(
        WARNING,
        f"its clock is {duration(abs(offset))} {where} this machine's",
        "keep the clocks of both in step: sudo timedatectl set-ntp true; times of this run are "
        "corrected by it",
    )


def check_cores(facts: HostFacts, index: int) -> HostFinding:
    """Check the cores for the threads that the hosts file asks for. That hosts which are one
    machine share its cores is meant so."""
    own = facts.host(index)
    cores = facts.hello(index).cores
    threads = own.slots * max(1, own.threads)
    if own.address.startswith("127.") or threads <= max(1.0, cores):
        return _compare_cores(facts, index)
    each = f" of {own.threads} threads" if own.threads else ""
    fewer = "threads or slots" if own.threads else "slots"
    return HostFinding(
        WARNING,
        f"{count(own.slots, 'rank')}{each} on {count(cores, 'core')}: they wait for each other",
        f"give it fewer {fewer} in {own.hosts_file}",
    )


def _compare_cores(facts: HostFacts, index: int) -> HostFinding:
    """Compare the cores that a rank has with those of the other hosts: the ranks with the fewest
    hold up all others, unless they compute on GPUs."""

    def cores_of_rank(other: int) -> float:
        cores = facts.hello(other).cores / _ranks_sharing(facts, other)
        threads = facts.host(other).threads
        return min(cores, threads) if threads else cores

    host = facts.host(index)
    usual = facts.median_if_behind(index, cores_of_rank)
    if not usual or facts.has_gpu_per_rank or not facts.waits_for_slowest:
        return HostFinding(OK, f"{facts.hello(index).cores:g}")
    advice = f"leave it out with --exclude {host.name}"
    if host.slots > 1:
        advice = f"give it fewer slots in {host.hosts_file}, or {advice}"
    return HostFinding(
        WARNING,
        f"{cores_of_rank(index):.3g} cores per rank, but {usual:.3g} on {facts.median_host}: "
        "every step waits for it",
        advice,
    )


def check_load(facts: HostFacts, index: int) -> HostFinding:
    """Warn if another run of this user, or other processes, keep the host busy."""
    hello = facts.hello(index)
    or_without = "" if facts.plan.is_local else ", or leave the host out with --exclude"
    if hello.runs:
        run, ranks = hello.runs[0]
        name = f"{run} ({count(ranks, 'rank')})" if ranks else run
        more = f" and {len(hello.runs) - 1} more" if len(hello.runs) > 1 else ""
        return HostFinding(
            WARNING,
            f"another run of yours trains there: {name}{more}",
            "they slow each other down: wait for its end, end it with rankboard stop "
            f"{run}{or_without}",
        )
    # The hosts of one machine have one load: what the first of them has reported. The agents of
    # its other hosts, which are starting just now, are a part of it.
    machine = facts.on_same_machine(index)
    first = facts.hello(machine[0])
    others = first.load - (len(machine) - 1)
    if others <= max(1.0, BUSY * first.cores):
        return HostFinding(OK, f"{first.load:.1f}")
    processes = count(round(others), "other process", "other processes")
    return HostFinding(
        WARNING,
        f"about {processes} on {count(first.cores, 'core')} slow every rank down",
        f"see top there and wait for their end{or_without}",
    )


def check_gpus(facts: HostFacts, index: int) -> HostFinding:
    """Check the GPUs, which are used only if every rank of the run has one of its own."""
    gpus = facts.hello(index).gpus
    slots = facts.host(index).slots
    has_any = any(facts.hello(other).gpus for other in facts.reached)
    if not has_any or len(gpus) >= slots:
        return HostFinding(
            OK, f"{len(gpus)} x {gpus[0].removeprefix('NVIDIA ')}" if gpus else "none"
        )
    if gpus:
        lack = f"{len(gpus)} GPUs for {slots} ranks"
    else:
        having = facts.names(lambda hello: bool(hello.gpus))
        lack = f"no GPU (or no driver that shows one), but there are some on {having}"
    return HostFinding(
        WARNING,
        lack,
        f"then all ranks train on CPUs: set slots in {facts.plan.hosts_file} to the GPUs of each "
        "host, or --exclude those that have none",
    )
