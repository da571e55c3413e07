"""Takes in the workers of scripts: processes that a program has started itself. They are the ranks
of the run from then on; the programs that rankboard started are `RunState.processes`."""

from __future__ import annotations

from remote.cluster.hosts import RANKS
from remote.format import count
from remote.run.run_state import RunState, take_stall
from remote.run.state.host_state import HostState
from remote.run.state.phases import START_PHASES, RankPhase
from remote.run.state.rank_state import RankState
from remote.run.state.types import Evidence
from training.wire.host_events import WorkerJoined


def take_join(run: RunState, joined: WorkerJoined, host: HostState, when: float) -> None:
    """Take in that a worker has joined a process group, unless that cannot be.

    A process group has each rank once: where the programs of several ranks have each a group of
    their own, only those of the first one are seen.
    """
    process = run.process_of(joined.process, host)
    fits = joined.rank < joined.world_size <= RANKS
    if run.plan.job or process is None or not fits:
        return
    if not run.has_workers or joined.world_size > len(run.ranks):
        _make_ranks(run, joined.world_size, when)
    worker = run.ranks[joined.rank]
    is_new = worker.process < 0
    if not is_new and worker.process != joined.process:
        return
    if worker.exited:  # its launcher has started it again
        worker = worker.restart(worker.local_rank, host.index, when)
        run.replace_rank(worker)
    worker.host = host.index
    worker.process = joined.process
    worker.pid = joined.pid or worker.pid
    worker.heard = when
    worker.enter(RankPhase.TRAINING, when)
    if process.phase in START_PHASES:  # it may be a worker itself, and has joined the others as one
        process.enter(RankPhase.TRAINING, when)


def _make_ranks(run: RunState, world_size: int, when: float) -> None:
    """Make the ranks of a process group of this size, none of which has joined it yet.

    Each is assumed below the process that would have it if all had as many.
    """
    processes = run.processes
    first_ranks = run.ranks if run.has_workers else run.former_workers or run.ranks
    new_ranks: list[RankState] = []
    for number in range(world_size):
        process = processes[number * len(processes) // world_size]
        local_rank = sum(rank.host == process.host for rank in new_ranks)
        if number >= len(first_ranks):
            new_ranks.append(type(process)(number, local_rank, process.host, since=when))
        elif run.has_workers:
            new_ranks.append(first_ranks[number])
        else:
            # What the program was seen to do before it had workers, or in another attempt, stays.
            new_ranks.append(first_ranks[number].restart(local_rank, process.host, when))
    if not run.has_workers:
        run.note("", f"the program has started {count(world_size, 'rank')} itself", when)
    run.replace_ranks(new_ranks, when)


def take_exit(run: RunState, worker: RankState, when: float) -> None:
    """Take in that a worker is gone: say so at once if it has failed by itself, as the process that
    started it may do nothing about it."""
    take_stall(run)
    run.judge.judge_worker(worker)
    # Those that only follow, as others broke the connection to them, are named at the end.
    if worker.death and worker.death.evidence < Evidence.WORDS:
        run.note("", worker.death.text(), when)
