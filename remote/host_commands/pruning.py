"""Find which folders of ended runs, and which code, may be removed, and remove them: on hosts and
on this machine.

`find_removable` only proposes. The caller asks a person before `remove_files`, and a host looks
again at each folder before it removes it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

from remote.cluster.hosts import Host
from remote.host_commands.inventory import RunInventory
from remote.host_commands.listed_runs import ListedRun
from remote.host_commands.run_on_hosts import HostAnswer, run_on_hosts
from remote.record.layout import NODE, PLAN
from remote.record.lock import launcher
from remote.record.marks import is_starred
from remote.record.read import is_settled
from remote.transport import Transport
from training.agent import local_api
from training.agent.layout import run_folder
from training.agent.local_api import LINUX, RemovalRefused
from training.wire.format import FORMAT
from training.wire.host_replies import STILL, Removed

REMOVING = 300.0
"""Seconds beyond its timeout that a host may need to remove folders."""


@dataclass(frozen=True)
class Removable:
    """A folder that may be removed."""

    run: str
    """"" for code."""
    state: str
    """What became of the run."""
    host: str
    """"" for this machine."""
    name: str
    """The folder below the host's workdir; on this machine the run's directory."""
    size: int
    """Bytes."""
    idle: float
    """Seconds since it was last written."""
    is_recorded_here: bool = True
    """The run is recorded here by this user."""


@dataclass(frozen=True)
class KeptRun:
    """A run that is kept, and why."""

    run: str
    why: str
    by_name: bool = False
    """A person can still remove it by its name."""
    is_elsewhere: bool = False
    """It is kept only because it is not recorded here."""


ELSEWHERE = "not recorded here (started from another folder, or by somebody else)"


def find_removable(
    inventory: RunInventory,
    least_age: float,
    newest_kept: int,
    named_runs: Collection[str] = (),
    *,
    takes_elsewhere: bool = False,
    without_step: bool = False,
) -> tuple[list[Removable], list[KeptRun]]:
    """Return what may be removed, and which runs are kept and why.

    Without `named_runs`: unused code, and the runs that ended at least `least_age` seconds ago,
    except for the `newest_kept` newest; those that are not recorded here only with
    `takes_elsewhere`. `without_step`: only runs that made no step, and no code. With `named_runs`:
    these runs alone, even if some of their hosts do not answer whether they still run.
    """
    if without_step:
        inventory = replace(
            inventory, runs=tuple(run for run in inventory.runs if run.made_no_step)
        )
    ended_runs, kept_runs = _ended_and_kept(inventory, named_runs)
    if named_runs:
        return _parts_of_runs(ended_runs), kept_runs
    if not takes_elsewhere:
        for run in ended_runs:
            if not run.record and run.idle >= least_age:
                kept_runs.append(KeptRun(run.name, ELSEWHERE, is_elsewhere=True))
        ended_runs = [run for run in ended_runs if run.record]
    newest_first = sorted(ended_runs, key=lambda run: (run.idle, run.name))
    old_runs = [run for run in newest_first[newest_kept:] if run.idle >= least_age]
    removable = _parts_of_runs(sorted(old_runs, key=lambda run: run.name))
    if not without_step:
        removable += _unused_code(inventory, least_age)
    return removable, kept_runs


def unreachable_hosts(run: ListedRun, inventory: RunInventory) -> tuple[str, ...]:
    """Return the hosts of a run that were not asked, or did not answer, and may have a part of
    it."""
    if not run.record or run.record.local:
        return ()
    return tuple(host for host in run.record.hosts if host not in inventory.answered)


def _ended_and_kept(
    inventory: RunInventory, named_runs: Collection[str]
) -> tuple[list[ListedRun], list[KeptRun]]:
    """Return the runs that have ended and may go, and those that are kept."""
    ended_runs: list[ListedRun] = []
    kept_runs = []
    for run in inventory.runs:
        if named_runs and run.name not in named_runs:
            continue
        use_reason = _use(run)
        doubt_reason = "" if named_runs else _doubt(run, inventory)
        if use_reason:
            # that a live run is not removed surprises only who named it
            if named_runs or not run.live:
                kept_runs.append(KeptRun(run.name, use_reason))
        # A person who names a run means it, star or not.
        elif not named_runs and run.record and is_starred(run.record.folder):
            kept_runs.append(KeptRun(run.name, "it has a star"))
        elif doubt_reason:
            kept_runs.append(KeptRun(run.name, doubt_reason, by_name=True))
        else:
            ended_runs.append(run)
    return ended_runs, kept_runs


def _use(run: ListedRun) -> str:
    """Say why a run is in use for certain; "" if it is not."""
    if run.live:
        return "it is live"
    record_holder = launcher(run.record.folder) if run.record else None
    return f"its launcher, {record_holder}, still records it" if record_holder else ""


def _doubt(run: ListedRun, inventory: RunInventory) -> str:
    """Say why a run that is not known to be live may be live all the same; "" if it cannot be."""
    if run.format != FORMAT:
        return "another version of rankboard recorded it"
    away_reason = "hosts that cannot be asked may still be training"
    if run.parts and run.hosts > len(run.parts) and inventory.problems:
        return away_reason
    record = run.record
    if not record or record.verdict not in ("", "lost"):
        return ""
    if record.verdict and is_settled(record.folder):
        return ""
    if unreachable_hosts(run, inventory):
        return away_reason
    is_fresh = record.idle < STILL and not run.parts and not record.verdict
    return "it may be starting or ending" if is_fresh else ""


def _parts_of_runs(runs: Iterable[ListedRun]) -> list[Removable]:
    return [part for run in runs for part in _parts_of_run(run)]


def _parts_of_run(run: ListedRun) -> Iterator[Removable]:
    record = run.record
    if record:
        yield Removable(record.run, run.state, "", record.run, record.size, record.idle)
    for part in run.parts:
        if part.host:
            yield Removable(
                run.name,
                run.state,
                part.host,
                part.name,
                part.folder.size,
                part.idle,
                is_recorded_here=record is not None,
            )


def _unused_code(inventory: RunInventory, least_age: float) -> list[Removable]:
    removable = []
    for host_code in inventory.code:
        archive = host_code.archive
        if not archive.used and archive.idle >= least_age:
            removable.append(
                Removable("", "code", host_code.host, host_code.name, archive.size, archive.idle)
            )
    return removable


# Removing -----------------------------------------------------------------------------------------


def remove_files(
    transport: Transport | None,
    hosts: Sequence[Host],
    runs_dir: Path,
    removable: Iterable[Removable],
) -> tuple[int, list[str]]:
    """Remove these, on all hosts at once. Return how many bytes are free again, and what is still
    there and why."""
    removable_by_host: dict[str, dict[str, Removable]] = defaultdict(dict)
    for removable_item in removable:
        removable_by_host[removable_item.host][removable_item.name] = removable_item
    local_records = removable_by_host.pop("", {})
    freed_bytes = 0
    still_there: list[str] = []
    if transport:
        asked_hosts = [host for host in hosts if host.name in removable_by_host]
        answers = run_on_hosts(
            transport,
            asked_hosts,
            "remove",
            lambda host: removable_by_host[host.name],
            extra_seconds=REMOVING,
        )
        for answer in answers:
            freed_bytes += _freed_bytes(answer, removable_by_host[answer.host.name], still_there)
    freed_bytes += _remove_records(runs_dir, local_records, still_there)
    return freed_bytes, still_there


def _freed_bytes(
    answer: HostAnswer, removable: Mapping[str, Removable], still_there: list[str]
) -> int:
    """Return how many bytes a host has freed; add what it has not removed, and why."""
    freed_bytes = 0
    for reply in answer.replies:
        if not isinstance(reply, Removed):
            continue
        if reply.kept:
            still_there.append(f"{answer.host.name}: {reply.name}: {reply.kept}")
        elif reply.name in removable:
            freed_bytes += removable[reply.name].size
    if answer.error:
        still_there.append(answer.error)
    return freed_bytes


def _remove_records(
    runs_dir: Path, records: Mapping[str, Removable], still_there: list[str]
) -> int:
    """Remove directories of runs on this machine, as `_freed_bytes` reports those of hosts."""
    freed_bytes = 0
    for run_name, record in records.items():
        try:
            _remove_record(runs_dir, run_name)
            freed_bytes += record.size
        except (RemovalRefused, OSError) as error:
            error_reason = getattr(error, "strerror", None) or error
            still_there.append(f"{runs_dir / run_name}: {error_reason}")
    # A removal first renames, which is quick and whole; what an interrupt left of others goes now
    # as well.
    local_api.finish_removals(str(runs_dir))
    return freed_bytes


def _remove_record(runs_dir: Path, run_name: str) -> None:
    """Remove the directory of a run, while nobody can start an agent in it. Raises:
    RemovalRefused, OSError."""
    run_directory = runs_dir / run_name
    if run_directory.is_symlink() or not (run_directory / PLAN).is_file():
        raise RemovalRefused("it is not a directory of a run, or a link")
    record_holder = launcher(run_directory)
    if record_holder:
        raise RemovalRefused(f"its launcher, {record_holder}, still records it")
    node_folder = str((run_directory / NODE).absolute())
    # They may still write into the folder, and would then be found by nobody.
    if LINUX and local_api.find_orphans([node_folder]):
        raise RemovalRefused("processes of it are left: rankboard ps --orphans")
    with ExitStack() as held_locks:
        # An agent takes the same lock at its start, so that none begins in a folder that is being
        # removed.
        for run, host in local_api.list_run_folders(node_folder):
            held_locks.enter_context(local_api.hold_lock(run_folder(node_folder, run, host)))
        local_api.begin_removal(str(run_directory), str(runs_dir))
