"""What has to be equal where the times of runs are compared, besides their settings."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # who reads a journal needs no state of a run
    from remote.run.run_state import RunState


@dataclass(frozen=True)
class Conditions:
    """How the ranks of a run, or of several, shared machines."""

    threads: tuple[int, ...] = ()
    """The numbers of threads that a rank computes with, each once, ascending. Empty where they are
    not known, or a GPU computes."""
    shares_machine: bool = False
    """Some of its hosts are one machine, which has fewer cores than separate machines would."""


UNKNOWN = Conditions()


def conditions(state: RunState) -> Conditions:
    """Return the conditions of a run."""
    from remote.record.summary import shared_machines

    return Conditions(_threads(state), bool(shared_machines(state)))


def joined(several: Iterable[Conditions]) -> Conditions:
    """Return the conditions of several runs."""
    known = list(several)
    threads = {number for one in known for number in one.threads}
    return Conditions(tuple(sorted(threads)), any(one.shares_machine for one in known))


def _threads(state: RunState) -> tuple[int, ...]:
    """The numbers of threads, as ranks tell them. Those of a user's own program do not, but start
    with what the host gives them."""
    from remote.plan.place import threads_of_hosts

    has_gpu = any(host.hello and host.hello.accelerator for host in state.hosts)
    if any(rank.on_gpu for rank in state.ranks) or (has_gpu and not state.plan.job):
        return ()
    of_hosts = threads_of_hosts(state.plan, [host.hello for host in state.hosts])
    found = set()
    for rank in state.ranks:
        number = rank.begun.threads if rank.begun else of_hosts[rank.host]
        if isinstance(number, int) and number > 0:
            found.add(number)
    return tuple(sorted(found))
