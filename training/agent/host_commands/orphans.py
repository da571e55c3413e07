"""Processes that ended runs have left on this host, and their end.

A guard leaves nothing behind, and says so by `AgentEnded`. When guard and agent are both killed,
the kernel ends preload and the ranks that either forked; a plain program's ranks live on, as may
whatever any rank has started. Of those are found, in this order:

- the agent, ranks and what could not be killed: who has a recorded pid and began before it was
  recorded is who was meant;
- members of such a rank's process group or session, also when the rank is gone, as nobody else gets
  its number until they are;
- whatever descends from these;
- last, what got away from all that: a process whose environment names the run and its folder, and
  what descends from it.

Never found are processes of another user, and those of a live run of any workdir.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any

from training.agent.host.system import LINUX
from training.agent.host_commands import process_table
from training.agent.host_commands.journal_summary import (
    find_important_records,
    own_boot_id,
    read_ends,
)
from training.agent.host_commands.process_table import HostProcess, ProcessTable
from training.agent.host_commands.run_folders import is_held, list_run_folders
from training.agent.journal import JournalReader, list_segments, read_format
from training.agent.layout import RUNS, run_folder
from training.agent.times import AgentTimes
from training.place import FOLDER
from training.wire.enums import EndReason
from training.wire.events import Record
from training.wire.format import READABLE
from training.wire.host_events import AgentEnded, Exited, Hello, Spawned
from training.wire.host_replies import LiveRun, Orphan, Signalled, codec

RUN = "RANKBOARD_RUN"
SLACK = 0.5
"""Seconds by which a process may seem to have begun after it was recorded: two clocks are read, one
after the other."""
EARLIEST = 300.0
"""Seconds that a process may have begun before it was recorded; more would be a clock that was
set."""

_ENVIRONMENT = "its environment names the run"
Found = dict[int, tuple[str, int, str]]
"""By pid: the run, the host's index, and by what the process is known to be the run's."""


def list_orphans(workdir: str) -> Iterator[dict[str, Any]]:
    """Run the host command `orphans WORKDIR`: yield the runs that are live there, and what ended
    ones have left."""
    if not LINUX:
        yield {"error": "to find processes of ended runs needs Linux"}
        return
    live_runs = {run for run, host in list_run_folders(workdir) if is_held(workdir, run, host)}
    yield from map(codec.object, map(LiveRun, sorted(live_runs)))
    yield from map(codec.object, find_orphans([workdir]))


def end(workdir: str, *process_words: str) -> Iterator[dict[str, Any]]:
    """Run the host command `end WORKDIR PID:START …`: TERM, grace, KILL to those of these processes
    that are still found there."""
    targets: list[tuple[int, int]] = []
    for process in process_words:
        pid, _, start_ticks = process.partition(":")
        targets.append((int(pid), int(start_ticks)))
    yield from map(codec.object, end_processes([workdir], targets))


def end_processes(
    workdirs: Sequence[str],
    targets: Sequence[tuple[int, int]],
    times: AgentTimes = AgentTimes(),  # noqa: B008
) -> Iterator[Signalled]:
    """End those of these processes, by pid and start, that are still found: TERM, grace, KILL.
    Yield what became of each."""
    orphans = {(orphan.pid, orphan.start) for orphan in find_orphans(workdirs)}
    remaining = [process for process in targets if process in orphans]
    for signal_number, wait_seconds in (
        (signal.SIGTERM, times.grace),
        (signal.SIGKILL, times.last),
    ):
        for process in remaining:
            process_table.send_signal(*process, signal_number)
        deadline = time.monotonic() + wait_seconds
        while True:
            remaining = [process for process in remaining if process_table.is_running(*process)]
            if not remaining or time.monotonic() >= deadline:
                break
            time.sleep(0.01)
    for pid, start in targets:
        yield Signalled(pid, start, not process_table.is_running(pid, start))


def find_orphans(workdirs: Sequence[str]) -> list[Orphan]:
    """Return the processes of ended runs of these workdirs."""
    processes = process_table.list_processes()
    # Whoever asks must not end itself, as when it runs in a shell that an old run has started.
    own_pids = process_table.ancestors(processes, os.getpid())
    spared_pids = process_table.live_run_pids(processes) | own_pids
    candidates = {
        pid: process
        for pid, process in processes.items()
        if process.is_own and pid not in spared_pids
    }
    owners: Found = {}
    for workdir in workdirs:
        for run, host in list_run_folders(workdir):
            if is_held(workdir, run, host):
                continue
            with suppress(OSError):  # it has just been removed
                evidence_by_pid = _find_recorded(run_folder(workdir, run, host), host, candidates)
                for pid, evidence in evidence_by_pid.items():
                    owners.setdefault(pid, (run, host, evidence))
    _add_descendants(owners, candidates)
    runs_folders = {os.path.realpath(f"{workdir}/{RUNS}") for workdir in workdirs}
    for pid in candidates.keys() - owners.keys():
        named_run = _run_in_environment(pid, runs_folders)
        if named_run:
            owners[pid] = (*named_run, _ENVIRONMENT)
    _add_descendants(owners, candidates)
    orphans = [_make_orphan(processes[pid], *owner) for pid, owner in owners.items()]
    return sorted(orphans, key=lambda orphan: (orphan.run, orphan.host, orphan.pid))


def _make_orphan(process: HostProcess, run: str, host: int, evidence: str) -> Orphan:
    command = process_table.command_line(process.pid)
    return Orphan(run, host, process.pid, process.start, process.began, evidence, command)


def _add_descendants(owners: Found, candidates: ProcessTable) -> None:
    for pid, root_pid in process_table.root_of_descendants(candidates, owners).items():
        if pid not in owners:
            run, host, evidence = owners[root_pid]
            if evidence != _ENVIRONMENT:
                evidence = f"below {evidence}"
            owners[pid] = (run, host, evidence)


def _find_recorded(folder: str, host: int, candidates: ProcessTable) -> dict[int, str]:
    """Return the processes that a journal leads to, and how."""
    if read_format(folder) not in READABLE or _ends_clean(folder, host):
        return {}
    other_pids: dict[int, tuple[str, float]] = {}
    rank_pids: dict[int, tuple[int, float]] = {}
    for record in _important_records(folder, host, 0):
        match record.event:
            case Hello(boot_id=boot_id) if boot_id != own_boot_id():
                return {}
            case Hello(pid=pid):
                other_pids[pid] = ("agent", record.time)
            case Spawned(rank, pid):
                rank_pids[rank] = (pid, record.time)
            case Exited(rank):  # from here on its number may be somebody else's
                rank_pids.pop(rank, None)
            case AgentEnded(left=pids) if not _is_abandoned(record):
                rank_pids.clear()
                other_pids |= dict.fromkeys(pids, ("could not be killed", record.time))
    evidence_by_pid = {
        pid: name
        for pid, (name, seen_at) in other_pids.items()
        if _is_same_process(candidates, pid, seen_at)
    }
    last_alive = _last_record_time(folder, host) if rank_pids else 0.0
    for rank, (pid, seen_at) in rank_pids.items():
        evidence_by_pid |= _find_rank_group(
            candidates, rank, pid, seen_at, max(seen_at, last_alive)
        )
    return evidence_by_pid


def _find_rank_group(
    candidates: ProcessTable, rank: int, pid: int, seen_at: float, last_alive: float
) -> dict[int, str]:
    """Return a rank that had this pid at `seen_at`, and until `last_alive` at least, with its
    process group and session."""
    members = [member for member in candidates.values() if pid in (member.group, member.session)]
    if pid in candidates:
        is_same = _is_same_process(candidates, pid, seen_at)
    else:  # the number may have been free, and these have it from somebody else
        is_same = any(_began_within(member, seen_at, last_alive) for member in members)
    if not is_same:
        return {}
    evidence_by_pid = {member.pid: f"group of rank {rank}" for member in members}
    if pid in evidence_by_pid:
        evidence_by_pid[pid] = f"rank {rank}"
    return evidence_by_pid


def _is_same_process(candidates: ProcessTable, pid: int, seen_at: float) -> bool:
    """Return True if who has this pid now had it at that time already."""
    return pid in candidates and _began_within(candidates[pid], seen_at, seen_at)


def _began_within(process: HostProcess, seen_at: float, last_alive: float) -> bool:
    return seen_at - EARLIEST <= process.began <= last_alive + SLACK


def _ends_clean(folder: str, host: int) -> bool:
    """Return True if the journal ends with the word that nothing is left."""
    segment_starts = list_segments(folder)
    if not segment_starts:
        return True
    last_event = None
    for record in _important_records(folder, host, segment_starts[-1] - 1):
        last_event = None if _is_abandoned(record) else record.event
    return isinstance(last_event, AgentEnded) and not last_event.left


def _is_abandoned(record: Record) -> bool:
    """Return True if it is the end of an agent whose guard was gone too, so that nobody killed its
    ranks."""
    return isinstance(record.event, AgentEnded) and record.event.reason is EndReason.ABANDONED


def _last_record_time(folder: str, host: int) -> float:
    """Return the time of the last record: until then the agent lived, and so knew of every rank
    that exited."""
    record_times = (record.time for record in read_ends(folder, host) if not _is_abandoned(record))
    return max(record_times, default=0.0)


def _important_records(folder: str, host: int, after: int) -> Iterator[Record]:
    for block in JournalReader(folder, host, after).blocks():
        yield from find_important_records(block)


def _run_in_environment(pid: int, runs_folders: set[str]) -> tuple[str, int] | None:
    """Return the ended, or removed, run of these folders of runs that a process's environment
    names."""
    variables = process_table.read_environment(pid)
    run = variables.get(RUN, "")
    folder = os.path.realpath(variables.get(FOLDER, ""))
    parent_folder, host = os.path.split(folder)
    runs_folder, folder_name = os.path.split(parent_folder)
    if not run or folder_name != run or not host.isdecimal() or runs_folder not in runs_folders:
        return None
    return None if is_held(os.path.dirname(runs_folder), run, int(host)) else (run, int(host))
