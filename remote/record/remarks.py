"""Find what a reader has to know who compares the figures of runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from remote.format import count, size
from remote.run.run_state import RunState
from remote.run.state.host_state import HostState


class RemarkKind(StrEnum):
    """What a remark on a run is about."""

    SHARED_MACHINE = "shared machine"
    """Hosts were one machine with fewer cores than they count together."""
    CHECKPOINT_COST = "checkpoint cost"
    """How long checkpoints took, and how large they are."""
    DRIFT = "drift"
    """The models of the ranks differed."""


@dataclass(frozen=True)
class Remark:
    """Something that a reader has to know who compares the figures of runs."""

    kind: RemarkKind
    text: str

    @property
    def is_warning(self) -> bool:
        """Return True if figures of the run may mislead."""
        return self.kind is not RemarkKind.CHECKPOINT_COST


def find_remarks(state: RunState) -> list[Remark]:
    """Return all remarks on a run."""
    return [*find_machine_remarks(state), *find_training_remarks(state)]


def find_machine_remarks(state: RunState) -> list[Remark]:
    """Return the remarks on hosts that shared cores. The user has read them when the run began."""
    remarks = list[Remark]()
    for hosts in shared_machines(state):
        cores = len(hosts[0].sample.cpu)
        text = (
            f"{_join_names(hosts)} are the same machine ({cores} cores): their times "
            "say nothing about separate machines"
        )
        remarks.append(Remark(RemarkKind.SHARED_MACHINE, text))
    return remarks


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
        remarks.append(Remark(RemarkKind.CHECKPOINT_COST, text))
    progress = state.progress
    if progress.drift and progress.largest_drift:
        text = (
            f"drift: from step {progress.drift.step} on the ranks' models differed, at most "
            f"{progress.largest_drift.extent}"
        )
        remarks.append(Remark(RemarkKind.DRIFT, text))
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


def _join_names(hosts: Sequence[HostState]) -> str:
    *first, last = (host.name for host in hosts)
    return f"{', '.join(first)} and {last}"
