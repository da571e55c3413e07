"""Whether a host has room for its ranks: which machine it is, its disk, memory, clock, cores and
GPUs."""

from __future__ import annotations

import math

from remote.doctor.check import FAILED, OK, WARNING, Facts, Found
from remote.format import count, duration, size
from remote.transport.failure import make_room

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


def address(facts: Facts, index: int) -> Found:
    """Which machine this is: one that several hosts of the file mean is most likely a mistake in
    it. Those of a lab, and containers, have interfaces of their own."""
    own = facts.host(index)
    hello = facts.hello(index)
    same = facts.sharing(index)
    if len(same) == 1 or facts.plan.is_local:
        return Found(OK, own.address)
    names = [facts.host(other).name for other in same]
    return Found(
        WARNING,
        f"the same machine ({count(hello.cores, 'core')}): such hosts do not make training faster",
        f"in {own.hosts_file} set the address of each to a machine of its own, or keep {names[0]} "
        "alone, with slots = "
        f"{sum(facts.host(other).slots for other in same)}",
    )


def disk(facts: Facts, index: int) -> Found:
    """Room in the work folder, for the journals and checkpoints of runs."""
    free = facts.hello(index).disk_free
    workdir = facts.host(index).workdir
    advice = make_room(workdir, facts.host(index).hosts_file)
    if not free:
        return Found(OK, "not known")
    if free < DISK_NEEDED:
        return Found(FAILED, f"only {size(free)} left in {workdir}", advice)
    if free < DISK_WANTED:
        return Found(
            WARNING,
            f"only {size(free)} left in {workdir}; journals take up to {size(DISK_WANTED)} per run",
            advice,
        )
    return Found(OK, size(free))


def memory(facts: Facts, index: int) -> Found:
    """Memory that is left for the ranks of this machine."""
    free = facts.hello(index).memory_free
    ranks = facts.ranks(index)
    hosts_file = facts.plan.hosts_file
    advice = f"end what else runs there, or give it fewer slots in {hosts_file}"
    what = f"{size(free)} free for {count(ranks, 'rank')}"
    if not free:
        return Found(OK, "not known")
    if free < MEMORY_NEEDED * ranks:
        return Found(FAILED, f"only {what}", advice)
    if free < MEMORY_WANTED * ranks:
        return Found(
            WARNING, f"only {what}; one with torch takes {size(MEMORY_WANTED)} and more", advice
        )

    def of_a_rank(other: int) -> float:
        return facts.hello(other).memory / _ranks_sharing(facts, other)

    usual = facts.median_if_behind(index, of_a_rank)
    if usual:
        return Found(
            WARNING,
            f"{size(of_a_rank(index))} of memory per rank, but {size(usual)} on "
            f"{facts.median_host}: a batch that fits there may not fit here",
            f"choose a batch size that fits it, or give it fewer slots in {hosts_file}",
        )
    return Found(OK, size(free))


def _ranks_sharing(facts: Facts, index: int) -> int:
    """How many ranks share what this host says that it has."""
    return sum(facts.host(other).slots for other in facts.sharing(index))


def clock(facts: Facts, index: int) -> Found:
    """How far the host's clock is from ours. The figures of a run are corrected by it, so it is no
    reason not to start."""
    off = facts.offsets[index]
    if not math.isfinite(off) or abs(off) <= CLOCK:
        return Found(OK, f"{round(off, 1) + 0.0:+.1f} s" if math.isfinite(off) else "not known")
    return Found(
        WARNING,
        f"its clock is {duration(abs(off))} {'ahead of' if off > 0 else 'behind'} this machine's",
        "keep the clocks of both in step: sudo timedatectl set-ntp true; times of this run are "
        "corrected by it",
    )


def cores(facts: Facts, index: int) -> Found:
    """Cores for the threads that the hosts file asks for. That hosts which are one machine share
    its cores is meant so."""
    own = facts.host(index)
    there = facts.hello(index).cores
    wanted = own.slots * max(1, own.threads)
    if own.address.startswith("127.") or wanted <= max(1.0, there):
        return _compared_cores(facts, index)
    each = f" of {own.threads} threads" if own.threads else ""
    return Found(
        WARNING,
        f"{count(own.slots, 'rank')}{each} on {count(there, 'core')}: they wait for each other",
        f"give it fewer {'threads or slots' if own.threads else 'slots'} in {own.hosts_file}",
    )


def _compared_cores(facts: Facts, index: int) -> Found:
    """Compare the cores that a rank has with those of the other hosts: the ranks with the fewest
    hold up all others, unless they compute on GPUs."""

    def of_a_rank(other: int) -> float:
        each = facts.hello(other).cores / _ranks_sharing(facts, other)
        threads = facts.host(other).threads
        return min(each, threads) if threads else each

    there = facts.hello(index).cores
    usual = facts.median_if_behind(index, of_a_rank)
    on_gpus = all(
        len(facts.hello(other).gpus) >= facts.host(other).slots for other in facts.reached
    )
    if not usual or on_gpus or not facts.waits_for_slowest:
        return Found(OK, f"{there:g}")
    advice = f"leave it out with --exclude {facts.host(index).name}"
    if facts.host(index).slots > 1:
        advice = f"give it fewer slots in {facts.plan.hosts_file}, or {advice}"
    return Found(
        WARNING,
        f"{of_a_rank(index):.3g} cores per rank, but {usual:.3g} on {facts.median_host}: every "
        "step waits for it",
        advice,
    )


def load(facts: Facts, index: int) -> Found:
    """Whether another run of this user, or other processes, keep the host busy; the agents of its
    other hosts, which are starting just now, aside. The hosts of one machine have one load: what
    the first of them has told."""
    machine = facts.machine(index)
    without = "" if facts.plan.is_local else ", or leave the host out with --exclude"
    hello = facts.hello(machine[0])
    runs = facts.hello(index).runs
    if runs:
        run, ranks = runs[0]
        name = f"{run} ({count(ranks, 'rank')})" if ranks else run
        more = f" and {len(runs) - 1} more" if len(runs) > 1 else ""
        return Found(
            WARNING,
            f"another run of yours trains there: {name}{more}",
            "they slow each other down: wait for its end, end it with rankboard stop "
            f"{run}{without}",
        )
    others = hello.load - (len(machine) - 1)
    if others <= max(1.0, BUSY * hello.cores):
        return Found(OK, f"{hello.load:.1f}")
    return Found(
        WARNING,
        f"about {count(round(others), 'other process', 'other processes')} on "
        f"{count(hello.cores, 'core')} slow every rank down",
        f"see top there and wait for their end{without}",
    )


def gpus(facts: Facts, index: int) -> Found:
    """GPUs, which are used only where every rank of the run has one of its own."""
    hello = facts.hello(index)
    slots = facts.host(index).slots
    having = [other for other in facts.reached if facts.hello(other).gpus]
    text = f"{len(hello.gpus)} x {hello.gpus[0].removeprefix('NVIDIA ')}" if hello.gpus else "none"
    if not having or len(hello.gpus) >= slots:
        return Found(OK, text)
    lack = (
        f"{len(hello.gpus)} GPUs for {slots} ranks"
        if hello.gpus
        else "no GPU (or no driver that shows one)"
    )
    theirs = facts.names(lambda one: bool(one.gpus))
    return Found(
        WARNING,
        lack if hello.gpus else f"{lack}, but there are some on {theirs}",
        f"then all ranks train on CPUs: set slots in {facts.plan.hosts_file} to the GPUs of each "
        "host, or "
        "--exclude those that have none",
    )
