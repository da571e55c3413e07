"""The workers of a rank: processes that its program has started, and that have joined a process
group of their own. Their watch says so in the pipe of the rank, see `training.watch.report`.

If that group is not larger than the run, its process is no worker: it stands in for the rank."""

from __future__ import annotations

import os
import selectors
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from training.agent.host import processes
from training.agent.host.proc_files import read_stat, state_letter
from training.agent.host.stacks import StackSubject, can_report
from training.wire.events import PREFIX, WORKER, Event
from training.wire.host_events import OutputText, WorkerExited, WorkerJoined
from training.wire.jsonl import load

MOST = 1024
"""Workers of one rank."""
_MESSAGES = (
    f'{PREFIX}{WORKER}{{"joined"',
    f'{PREFIX}{WORKER}{{"left"',
    f'{PREFIX}{{"stands_in"',
)
"""How lines begin that are for the agent alone."""
_PARENT = 1
"""The field of `stat` that has the parent of a process."""
_EXIT_STATUS = 49
"""The field of `stat` that has the status of a process for which nobody has waited yet."""


@dataclass
class Worker:
    """A worker that lives. `handle` becomes readable once it is gone; -1 without such a thing.
    `error` is what it has said as it ended, None before."""

    rank: int
    pid: int
    handle: int = -1
    error: str | None = None


class Workers:
    """The workers below a rank, one of `process_count`, that live. `report_exit` is called once one
    is gone."""

    def __init__(
        self,
        process: int,
        process_count: int,
        selector: selectors.BaseSelector,
        report_event: Callable[[Event], None],
        report_exit: Callable[[Worker, int | None], None],
    ) -> None:
        self._process = process
        self._process_count = process_count
        self._world_size = 0
        self._selector = selector
        self._report_event = report_event
        self._report_exit = report_exit
        self._by_pid: dict[int, Worker] = {}
        self._stand_in_pid = 0

    @property
    def live(self) -> list[Worker]:
        """Return those that live."""
        return list(self._by_pid.values())

    @property
    def stand_in(self) -> int:
        """Return the process that trains in place of the rank's own; 0 if there is none."""
        is_gone = self._stand_in_pid == 0 or state_letter(self._stand_in_pid) in "ZX"
        return 0 if is_gone else self._stand_in_pid

    def take(self, output: OutputText, root_pid: int) -> OutputText | None:
        """Take in what is for the agent in a text of the watch. Return the rest of it."""
        if not any(begin in output.text for begin in _MESSAGES):
            return output
        lines = output.text.split("\n")
        for line in lines:
            if line.startswith(_MESSAGES):
                self._take_message(line.removeprefix(PREFIX).removeprefix(WORKER), root_pid)
        other_lines = [line for line in lines if not line.startswith(_MESSAGES)]
        text = "\n".join(other_lines)
        return OutputText(output.rank, output.stream, text) if other_lines else None

    def _take_message(self, line: str, root_pid: int) -> None:
        message = load(line) or {}
        pid = message.get("pid")
        if type(pid) is not int:
            return
        joined_rank = message.get("joined")
        world_size = message.get("world_size")
        if type(joined_rank) is int and type(world_size) is int:
            self._add(joined_rank, world_size, pid, root_pid)
        elif "stands_in" in message:
            if pid in processes.descendants(root_pid):
                self._stand_in_pid = pid
        elif pid in self._by_pid:
            self._by_pid[pid].error = str(message.get("error", ""))

    def _add(self, rank: int, world_size: int, pid: int, root_pid: int) -> None:
        is_ours = pid == root_pid or pid in processes.descendants(root_pid)
        fits = 0 <= rank < world_size <= MOST * self._process_count
        if not fits or not is_ours or len(self._by_pid) >= MOST:
            return
        if pid in self._by_pid:  # it has left a group, and joined another one
            self._forget(self._by_pid[pid])
        self._world_size = world_size
        worker = self._by_pid[pid] = Worker(rank, pid)
        # Not on every system. Else it is noticed at the next look.
        with suppress(OSError, AttributeError):
            worker.handle = os.pidfd_open(pid)
            self._selector.register(worker.handle, selectors.EVENT_READ, self.look)
        self._report_event(WorkerJoined(rank, self._process, world_size, pid))

    def list_subjects(self, root_pid: int) -> list[StackSubject]:
        """Return of whom stacks are asked for: the workers, and those that seem to become some."""
        pid_of_rank = {worker.rank: worker.pid for worker in self.live}
        pid_of_rank |= self._find_late(root_pid)
        return [StackSubject(rank, pid, is_worker=True) for rank, pid in pid_of_rank.items()]

    def _find_late(self, root_pid: int) -> dict[int, int]:
        """Return the pids of processes that have not joined the group yet, by the ranks that they
        seem to get there. It is empty where that cannot be told.

        Each program is taken to have as many workers, and to start them in the order of ranks.
        """
        joined_ranks = {worker.rank for worker in self.live}
        late_ranks = [
            rank
            for rank in range(self._world_size)
            if rank * self._process_count // self._world_size == self._process
            and rank not in joined_ranks
        ]
        siblings = self._list_siblings(root_pid) if late_ranks else []
        if len(siblings) != len(late_ranks):
            # Helpers, such as a manager, come first, and may be no Python programs.
            siblings = list(filter(can_report, siblings))[-len(late_ranks) :]
        is_clear = len(siblings) == len(late_ranks)
        return dict(zip(late_ranks, siblings, strict=True)) if is_clear else {}

    def _list_siblings(self, root_pid: int) -> list[int]:
        """Return the processes that were started by the same ones as workers, and are none."""
        parents: set[int] = set()
        for pid in self._by_pid:
            fields = read_stat(pid)
            if pid == root_pid:
                parents.add(pid)
            elif fields:
                parents.add(int(fields[_PARENT]))
        children = [pid for parent in parents for pid in processes.list_children(parent)]
        return [pid for pid in children if pid not in self._by_pid and state_letter(pid) != "Z"]

    def look(self) -> None:
        """Report the workers that are gone."""
        for worker in self.live:
            if state_letter(worker.pid) in "ZX":
                status = _read_exit_status(worker.pid)
                # It may have said more, which is taken in before it is forgotten.
                self._report_exit(worker, status)
                self._forget(worker)

    def close(self) -> None:
        """Forget all of them."""
        for worker in self.live:
            self._forget(worker)

    def _forget(self, worker: Worker) -> None:
        del self._by_pid[worker.pid]
        if worker.handle >= 0:
            self._selector.unregister(worker.handle)
            os.close(worker.handle)


def describe_exit(worker: Worker, status: int | None) -> WorkerExited:
    """Return the end of a worker, by its exit status if anybody has seen that, and by its own
    words."""
    code = 1 if worker.error else 0
    if status is not None:
        code = os.waitstatus_to_exitcode(status)
    return WorkerExited(
        worker.rank,
        code,
        processes.signal_name(code),
        known=status is not None or worker.error is not None,
        error=worker.error or "",
    )


def _read_exit_status(pid: int) -> int | None:
    """Return the wait status of a process for which nobody has waited yet; None if it is gone."""
    fields = read_stat(pid)
    is_zombie = len(fields) > _EXIT_STATUS and fields[0] == "Z"
    return int(fields[_EXIT_STATUS]) if is_zombie else None
