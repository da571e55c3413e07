"""Checks whether a host has room for its ranks: which machine it is, its disk, memory, clock, cores
and GPUs."""

from __future__ import annotations

import math

from remote.doctor.host_facts import FAILED, OK, WARNING, CheckedHost, HostFinding
from remote.doctor.step_estimate import cores_of_rank, estimate_exclusion
from remote.doctor.wording import name_busiest
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
BUSY = 0.5
"""The share of a host's cores that others may keep busy. Agents name the processes above it."""
CLOCK = 1.0
"""Seconds that a clock may be off; less is the way there and back."""


def check_address(checked: CheckedHost) -> HostFinding | str:
    """Warn if several hosts of the file are one machine, which is most likely a mistake in it.
    Those of a lab, and containers, have interfaces of their own."""
    if len(checked.sharing) == 1 or checked.plan.is_local:
        return checked.host.address
    core_text = count(checked.hello.cores, "core")
    return HostFinding(
        WARNING,
        f"the same machine ({core_text}): such hosts do not make training faster",
        f"in {checked.host.hosts_file} set the address of each to a machine of its own, or keep "
        f"{checked.sharing[0].host.name} alone, with slots = {checked.ranks_sharing}",
    )


def check_disk(checked: CheckedHost) -> HostFinding | str:
    """Check the room in the work folder, for the journals and checkpoints of runs."""
    free_bytes = checked.hello.disk_free
    host = checked.host
    advice = advise_room(host.workdir, host.hosts_file)
    if not free_bytes:
        return "not known"
    free_text = f"{size(free_bytes)} free"
    room_left = f"only {size(free_bytes)} left in {host.workdir}"
    if free_bytes < DISK_NEEDED:
        return HostFinding(FAILED, room_left, advice, value=free_text)
    if free_bytes < DISK_WANTED:
        problem_text = f"{room_left}; journals take up to {size(DISK_WANTED)} per run"
        return HostFinding(WARNING, problem_text, advice, value=free_text)
    return free_text


def check_memory(checked: CheckedHost) -> HostFinding | str:
    """Check the memory that is left for the ranks of this machine."""
    free_bytes = checked.hello.memory_free
    # Hosts that are one machine share its memory, whatever interfaces they have.
    rank_count = sum(other_host.host.slots for other_host in checked.same_machine)
    hosts_file = checked.plan.hosts_file
    advice = f"end what else runs there, or give it fewer slots in {hosts_file}"
    problem_text = f"only {size(free_bytes)} free for {count(rank_count, 'rank')}"
    if not free_bytes:
        return "not known"
    free_text = f"{size(free_bytes)} free"
    if free_bytes < MEMORY_NEEDED * rank_count:
        return HostFinding(FAILED, problem_text, advice, value=free_text)
    if free_bytes < MEMORY_WANTED * rank_count:
        needed_text = f"one with torch takes {size(MEMORY_WANTED)} and more"
        warning_text = f"{problem_text}; {needed_text}"
        return HostFinding(WARNING, warning_text, advice, value=free_text)

    usual_memory = checked.median_if_behind(_memory_of_rank)
    if not usual_memory:
        return free_text
    return HostFinding(
        WARNING,
        f"{size(_memory_of_rank(checked))} of memory per rank, but {size(usual_memory)} on "
        f"{checked.median_host}: a batch that fits there may not fit here",
        f"choose a batch size that fits it, or give it fewer slots in {hosts_file}",
        value=free_text,
    )


def _memory_of_rank(checked: CheckedHost) -> float:
    return checked.hello.memory / checked.ranks_sharing


def check_clock(checked: CheckedHost) -> HostFinding | str:
    """Check how far the host's clock is from ours. The times of a run are corrected by it, so it is
    no reason not to start."""
    offset = checked.offset
    if not math.isfinite(offset):
        return "not known"
    if abs(offset) <= CLOCK:
        return f"{round(offset, 1) + 0.0:+.1f} s"  # adding 0.0 makes 0.0 of -0.0
    direction = "ahead of" if offset > 0 else "behind"
    return HostFinding(
        WARNING,
        f"its clock is {duration(abs(offset))} {direction} this machine's",
        "keep the clocks of both in step: sudo timedatectl set-ntp true; times of this run are "
        "corrected by it",
        value=f"{offset:+.1f} s",
    )


def check_cores(checked: CheckedHost) -> HostFinding | str:
    """Check the cores for the threads that the hosts file asks for. That hosts which are one
    machine share its cores is meant so."""
    host = checked.host
    core_count = checked.hello.cores
    thread_count = host.slots * max(1, host.threads)
    # With --local, more ranks than cores are usual: a trial on a laptop.
    if host.address.startswith("127.") or thread_count <= max(1.0, core_count):
        return _compare_cores(checked)
    threads_text = f" of {host.threads} threads" if host.threads else ""
    fewer_what = "threads or slots" if host.threads else "slots"
    return HostFinding(
        WARNING,
        f"{count(host.slots, 'rank')}{threads_text} on {count(core_count, 'core')}: they wait for "
        "each other",
        f"give it fewer {fewer_what} in {host.hosts_file}",
        value=f"{core_count:g}",
    )


def _compare_cores(checked: CheckedHost) -> HostFinding | str:
    """Compare the cores that a rank has with those of the other hosts: the ranks with the fewest
    hold up all others, unless they compute on GPUs."""
    host = checked.host
    usual_cores = checked.median_if_behind(cores_of_rank)
    if not usual_cores or checked.has_gpu_per_rank or not checked.waits_for_slowest:
        return f"{checked.hello.cores:g}"
    helps_to_exclude = _is_faster_without(checked)
    advices = [f"leave it out with --exclude {host.name}"] if helps_to_exclude else []
    if host.slots > 1:
        advices.insert(0, f"give it fewer slots in {host.hosts_file}")
    per_rank = " per rank" if any(other.ranks_sharing > 1 for other in checked.reached) else ""
    own_text = f"only {cores_of_rank(checked):.3g} cores{per_rank}"
    others = checked.name_others(cores_of_rank, usual_cores)
    return HostFinding(
        WARNING,
        f"{own_text}, {others} {usual_cores:.3g}: all ranks wait for it",
        ", or ".join(advices) or "it is of use all the same: without it, steps take no less time",
        value=f"{checked.hello.cores:g}",
        command=checked.exclude_command if helps_to_exclude else "",
        helps_to_exclude=helps_to_exclude,
    )


def _is_faster_without(checked: CheckedHost) -> bool:
    """Return True if steps take less time without a host whose ranks have few cores; the others
    then have more samples each."""
    facts = {other_host.index: other_host.hello for other_host in checked.reached}
    facts_by_host = [facts.get(index) for index in range(len(checked.plan.hosts))]
    estimate = estimate_exclusion(checked.plan, facts_by_host, [checked.host.name])
    return estimate is None or estimate.speedup > 1


def check_load(checked: CheckedHost) -> HostFinding | str:
    """Warn if another run of this user, or other processes, keep the host busy."""
    hello = checked.hello
    # Where all hosts are one machine, another one is no better.
    is_everywhere = len(checked.same_machine) == len(checked.reached)
    exclude_advice = ""
    if not checked.plan.is_local and not is_everywhere:
        exclude_advice = ", or leave the host out with --exclude"
    # Named first: a person can end it, and it is the likely reason for the load as well.
    if hello.runs:
        run_name, rank_count = hello.runs[0]
        run_text = f"{run_name} ({count(rank_count, 'rank')})" if rank_count else run_name
        hidden_text = f" and {len(hello.runs) - 1} more" if len(hello.runs) > 1 else ""
        return HostFinding(
            WARNING,
            f"another run of yours trains there: {run_text}{hidden_text}",
            "they slow each other down: wait for its end, end it with rankboard stop "
            f"{run_name}{exclude_advice}",
            value="another run of yours",
            command=f"rankboard stop {run_name}",
        )
    # The hosts of one machine have one load: what the first of them has reported. The agents of
    # its other hosts, which are starting just now, are a part of it.
    machine_hosts = checked.same_machine
    first_hello = machine_hosts[0].hello
    other_load = first_hello.load - (len(machine_hosts) - 1)
    if other_load <= max(1.0, BUSY * first_hello.cores):
        return f"{first_hello.load:.1f}"
    processes = count(round(other_load), "other process", "other processes")
    there = "" if checked.plan.is_local else " there"
    advice = f"run top{there} to see them, and wait for their end"
    if first_hello.busiest:
        advice = f"busy: {name_busiest(first_hello)}; wait for their end"
    return HostFinding(
        WARNING,
        f"about {processes} on {count(first_hello.cores, 'core')} slow every rank down",
        f"{advice}{exclude_advice}",
        value=f"{first_hello.load:.1f}",
    )


def check_gpus(checked: CheckedHost) -> HostFinding | str:
    """Check the GPUs, which are used only if every rank of the run has one of its own."""
    gpu_names = checked.hello.gpus
    slot_count = checked.host.slots
    has_any_gpu = any(other_host.hello.gpus for other_host in checked.reached)
    if not has_any_gpu or len(gpu_names) >= slot_count:
        return HostFinding(
            OK,
            f"{len(gpu_names)} x {gpu_names[0]}" if gpu_names else "none: trains on CPUs",
        )
    if gpu_names:
        missing_text = f"{len(gpu_names)} GPUs for {slot_count} ranks"
    else:
        hosts_with_gpus = checked.names(lambda hello: bool(hello.gpus))
        missing_text = (
            f"no GPU (or no driver that shows one), but there are some on {hosts_with_gpus}"
        )
    return HostFinding(
        WARNING,
        missing_text,
        f"then all ranks train on CPUs: set slots in {checked.plan.hosts_file} to the GPUs of each "
        "host, or --exclude those that have none",
        value=count(len(gpu_names), "GPU"),
    )
