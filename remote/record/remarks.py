"""Find what a reader has to know who compares the figures of runs."""

from __future__ import annotations

from dataclasses import dataclass

from remote.format import count, listed, size
from remote.run.run_state import RunState
from remote.run.state.host_state import HostState


@dataclass(frozen=True)
class Remark:
    """Something that a reader has to know who compares the figures of runs."""

    text: str
    is_warning: bool = True
    """Figures of the run may mislead."""


def find_remarks(state: RunState) -> list[Remark]:
    """Return all remarks on a run. Those on hosts come first."""
    remarks = list[Remark]()
    for hosts in shared_machines(state):
        names = listed([host.name for host in hosts], len(hosts))
        cores = len(hosts[0].sample.cpu)
        text = (
            f"{names} are the same machine ({cores} cores): their times say nothing about separate "
            "machines"
        )
        remarks.append(Remark(text))
    return remarks + find_training_remarks(state)


def find_training_remarks(state: RunState) -> list[Remark]:
    """Return the remarks on what checkpoints cost, and on models that drifted apart."""
    remarks = list[Remark]()
    slowest = max(state.ranks, key=lambda rank: rank.saving_seconds, default=None)
    if slowest and slowest.saved:
        total_size = size(sum(rank.saved_bytes for rank in state.ranks))
        text = (
            f"{count(slowest.saved, 'checkpoint')} of {total_size} "
            f"took {slowest.saving_seconds:.2f} s of the run's {state.elapsed:.2f} s; "
            f"the newest is of step {slowest.saved_step}"
        )
        remarks.append(Remark(text, is_warning=False))
    first = state.progress.drift
    largest = state.progress.largest_drift
    if first and largest:
        text = f"drift: from step {first.step} on the ranks' models differed, at most "
        remarks.append(Remark(text + largest.extent))
    return remarks


def shared_machines(state: RunState) -> list[list[HostState]]:
    """Return the hosts that are one machine, for each machine that has fewer cores than its hosts
    count together. Those of a lab count only the cores that they may use."""
    machines = dict[str, list[HostState]]()
    for host in state.hosts:
        if host.hello and host.sample.cpu:
            machines.setdefault(host.hello.boot_id, []).append(host)
    shared = list[list[HostState]]()
    for hosts in machines.values():
        counted_cores = sum(host.hello.cores for host in hosts if host.hello)
        if len(hosts) > 1 and counted_cores > len(hosts[0].sample.cpu):
            shared.append(hosts)
    return shared
