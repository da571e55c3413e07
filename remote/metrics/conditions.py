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


def join_conditions(several: Iterable[Conditions]) -> Conditions:
    """Return the conditions of several runs together."""
    threads: set[int] = set()
    shares_machine = False
    for conditions in several:
        threads.update(conditions.threads)
        shares_machine = shares_machine or conditions.shares_machine
    return Conditions(tuple(sorted(threads)), shares_machine)


def _find_threads(state: RunState) -> tuple[int, ...]:
    """Return the numbers of threads, as ranks report them.

    Ranks of a script do not, but start with what the host gives them.
    """
    from remote.plan.place import threads_of_hosts

    facts = [host.hello for host in state.hosts]
    has_gpu = any(fact and fact.accelerator for fact in facts)
    if any(rank.on_gpu for rank in state.ranks) or (has_gpu and not state.plan.job):
        return ()
    of_hosts = threads_of_hosts(state.plan, facts)
    threads = [rank.begun.threads if rank.begun else of_hosts[rank.host] for rank in state.ranks]
    # Of a host that was never heard there is only a text.
    return tuple(sorted({number for number in threads if isinstance(number, int) and number > 0}))
