"""What has to be equal, besides settings, if the times of runs are compared."""

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
    """The numbers of threads that a rank computes with, each once, ascending. Empty if they are not
    known, or a GPU computes."""
    shares_machine: bool = False
    """Some of its hosts are one machine, which has fewer cores than separate machines would."""


UNKNOWN = Conditions()


def find_conditions(state: RunState) -> Conditions:
    """Return the conditions of a run."""
    from remote.record.remarks import shared_machines

    return Conditions(_find_threads(state), bool(shared_machines(state)))


def join_conditions(all_conditions: Iterable[Conditions]) -> Conditions:
    """Return the conditions of several runs together."""
    thread_counts: set[int] = set()
    shares_machine = False
    for conditions in all_conditions:
        thread_counts.update(conditions.threads)
        shares_machine = shares_machine or conditions.shares_machine
    return Conditions(tuple(sorted(thread_counts)), shares_machine)


def _find_threads(state: RunState) -> tuple[int, ...]:
    """Return the numbers of threads, as ranks report them.

    Ranks of a script do not, but start with what the host gives them.
    """
    from remote.plan.place import threads_of_hosts

    host_facts = [host.hello for host in state.hosts]
    has_gpu = any(fact and fact.accelerator for fact in host_facts)
    # A GPU computes: how many threads feed it matters little.
    if any(rank.on_gpu for rank in state.ranks) or (has_gpu and not state.plan.job):
        return ()
    threads_of_host = threads_of_hosts(state.plan, host_facts)
    rank_threads = [
        rank.begun.threads if rank.begun else threads_of_host[rank.host] for rank in state.ranks
    ]
    # Of a host that was never heard there is only a text.
    return tuple(
        sorted(
            {
                num_threads
                for num_threads in rank_threads
                if isinstance(num_threads, int) and num_threads > 0
            }
        )
    )
