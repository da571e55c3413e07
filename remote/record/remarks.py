"""Find what a reader has to know who compares the figures of runs."""

from __future__ import annotations

from msgspec import Struct

from remote.format import count, listed, size
from remote.run.findings.isolation import describe_isolation
from remote.run.run_state import RunState
from remote.run.state.host_state import HostState


class Remark(Struct, frozen=True):
    """Something that a reader has to know who compares the figures of runs."""

    text: str
    is_warning: bool = True
    """Figures of the run may mislead."""


def find_remarks(state: RunState) -> list[Remark]:
    """Return all remarks on a run. Those on hosts come first."""
    remarks = list[Remark]()
    for hosts in shared_machines(state):
        host_names = listed([host.name for host in hosts], len(hosts))
        core_count = len(hosts[0].sample.cpu)
        remark_text = (
            f"{host_names} are the same machine ({core_count} cores): "
            "their times say nothing about separate machines"
        )
        remarks.append(Remark(remark_text))
    return remarks + find_training_remarks(state)


def find_training_remarks(state: RunState) -> list[Remark]:
    """Return the remarks on what checkpoints cost, on ranks that exchange nothing, and on models
    that drifted apart."""
    remarks = list[Remark]()
    slowest_rank = max(state.ranks, key=lambda rank: rank.saving_seconds, default=None)
    if slowest_rank and slowest_rank.saved:
        total_size = size(sum(rank.saved_bytes for rank in state.ranks))
        remark_text = (
            f"{count(slowest_rank.saved, 'checkpoint')} of {total_size} "
            f"took {slowest_rank.saving_seconds:.2f} s of the run's {state.elapsed:.2f} s; "
            f"the newest is of step {slowest_rank.saved_step}"
        )
        remarks.append(Remark(remark_text, is_warning=False))
    if state.trains_apart:
        remarks.append(Remark(describe_isolation(state)))
    first_drift = state.progress.drift
    largest_drift = state.progress.largest_drift
    if first_drift and largest_drift:
        remark_text = f"drift: from step {first_drift.step} on the ranks' models differed, at most "
        remarks.append(Remark(remark_text + largest_drift.extent))
    return remarks


def shared_machines(state: RunState) -> list[list[HostState]]:
    """Return the hosts that are one machine, for each machine that has fewer cores than its hosts
    count together. Those of a lab count only the cores that they may use."""
    hosts_by_machine = dict[str, list[HostState]]()
    for host in state.hosts:
        if host.hello and host.sample.cpu:
            # The id of a boot is the same in all containers of a machine, unlike its name and
            # addresses.
            hosts_by_machine.setdefault(host.hello.boot_id, []).append(host)
    shared_groups = list[list[HostState]]()
    for machine_hosts in hosts_by_machine.values():
        counted_cores = sum(host.hello.cores for host in machine_hosts if host.hello)
        if len(machine_hosts) > 1 and counted_cores > len(machine_hosts[0].sample.cpu):
            shared_groups.append(machine_hosts)
    return shared_groups
