"""Finds which folders of ended runs, and which code, may be removed, and removes them: on hosts and
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
from remote.host_commands.run_on_hosts import HostAnswer, run_on_hosts, typed_objects
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
    """Something that may be removed: `name` is a folder below the workdir of `host`, or for "" the
    run's directory here; `run` is "" for code, `state` what became of the run. Sizes in bytes,
    `idle` in seconds. `is_recorded_here`: so is the run, for this user to know."""

    run: str
    state: str
    host: str
    name: str
    size: int
    idle: float
    is_recorded_here: bool = True


@dataclass(frozen=True)
class KeptRun:
    """A run that is kept, and why; `by_name`: a person can still remove it by its name.
    `is_elsewhere`: only because it is not recorded here."""

    run: str
    why: str
    by_name: bool = False
    is_elsewhere: bool = False


ELSEWHERE = "not recorded here (started from another folder, or by somebody else)"


def find_removable(
    known: RunInventory,
    older: float,
    keep: int,
    named: Collection[str] = (),
    *,
    elsewhere: bool = False,
    without_step: bool = False,
) -> tuple[list[Removable], list[KeptRun]]:
    """What may be removed, and which runs are kept and why.

    Without `named`: unused code, and the runs that ended at least `older` seconds ago, except for
    the `keep` newest; those that are not recorded here only with `elsewhere`. `without_step`: only
    runs that made no step, and no code. With `named`: these runs alone, even if some of their hosts
    do not answer whether they still run.
    """
    if without_step:
        known = replace(known, runs=tuple(run for run in known.runs if run.made_no_step))
    ended, kept = _sorted_out(known, named)
    if named:
        return [one for run in ended for one in _of_run(run)], kept
    if not elsewhere:
        others = [run for run in ended if not run.record]
        ended = [run for run in ended if run.record]
        kept += [
            KeptRun(run.name, ELSEWHERE, is_elsewhere=True) for run in others if run.idle >= older
        ]
    newest = sorted(ended, key=lambda run: (run.idle, run.name))
    going = sorted((run for run in newest[keep:] if run.idle >= older), key=lambda run: run.name)
    found = [one for run in going for one in _of_run(run)]
    if without_step:
        return found, kept
    found += [
        Removable("", "code", code.host, code.name, code.archive.size, code.archive.idle)
        for code in known.code
        if not code.archive.used and code.archive.idle >= older
    ]
    return found, kept


def _sorted_out(
    known: RunInventory, named: Collection[str]
) -> tuple[list[ListedRun], list[KeptRun]]:
    """The runs that have ended, and those that are kept."""
    ended: list[ListedRun] = []
    kept = []
    for run in known.runs:
        if named and run.name not in named:
            continue
        doubt = _doubt(run, known)
        why = _use(run)
        if why:
            kept += [KeptRun(run.name, why)] if named or not run.live else []
        elif not named and run.record and is_starred(run.record.folder):
            kept.append(KeptRun(run.name, "it has a star"))
        elif doubt and not named:
            kept.append(doubt)
        else:
            ended.append(run)
    return ended, kept


def unreachable_hosts(run: ListedRun, known: RunInventory) -> tuple[str, ...]:
    """The hosts of a run that were not asked, or did not answer, and may have a part of it."""
    if not run.record or run.record.local:
        return ()
    return tuple(host for host in run.record.hosts if host not in known.answered)


def _use(run: ListedRun) -> str:
    """Why a run is in use for certain, or ""."""
    if run.live:
        return "it is live"
    if run.record and (holder := launcher(run.record.folder)):
        return f"its launcher, {holder}, still records it"
    return ""


def _doubt(run: ListedRun, known: RunInventory) -> KeptRun | None:
    """Why a run that is not known to be live may be live all the same."""
    if run.format != FORMAT:
        return KeptRun(run.name, "another version of rankboard recorded it", by_name=True)
    away = "hosts that cannot be asked may still be training"
    if run.parts and run.hosts > len(run.parts) and known.problems:
        return KeptRun(run.name, away, by_name=True)
    record = run.record
    if not record or (record.verdict and record.verdict != "lost"):
        return None
    if record.verdict and is_settled(record.folder):
        return None
    if unreachable_hosts(run, known):
        return KeptRun(run.name, away, by_name=True)
    just_now = record.idle < STILL and not run.parts and not record.verdict
    return KeptRun(run.name, "it may be starting or ending", by_name=True) if just_now else None


def _of_run(run: ListedRun) -> Iterator[Removable]:
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
                is_recorded_here=run.record is not None,
            )


def remove_files(
    transport: Transport | None, hosts: Sequence[Host], runs_dir: Path, going: Iterable[Removable]
) -> tuple[int, list[str]]:
    """Remove these, on all hosts at once. Returns how many bytes are free again, and what is still
    there and why."""
    names: dict[str, dict[str, Removable]] = defaultdict(dict)
    for one in going:
        names[one.host][one.name] = one
    own = names.pop("", {})
    freed = 0
    kept = list[str]()
    if transport:
        asked = [host for host in hosts if host.name in names]
        for answer in run_on_hosts(
            transport, asked, "remove", lambda host: list(names[host.name]), REMOVING
        ):
            more, still = _outcome(answer, names[answer.host.name])
            freed += more
            kept += still
    more, still = _remove_records(runs_dir, own)
    return freed + more, kept + still


def _outcome(answer: HostAnswer, names: Mapping[str, Removable]) -> tuple[int, list[str]]:
    """How many bytes a host has freed, and what it has kept and why."""
    freed = 0
    kept = []
    for one in typed_objects(answer.objects):
        if isinstance(one, Removed) and one.kept:
            kept.append(f"{answer.host.name}: {one.name}: {one.kept}")
        elif isinstance(one, Removed) and one.name in names:
            freed += names[one.name].size
    return freed, kept + ([answer.error] if answer.error else [])


def _remove_records(runs_dir: Path, names: Mapping[str, Removable]) -> tuple[int, list[str]]:
    """Remove directories of runs on this machine; see `remove_files`."""
    freed = 0
    kept = []
    for name, one in names.items():
        try:
            _remove_record(runs_dir, name)
            freed += one.size
        except (RemovalRefused, OSError) as error:
            kept.append(f"{runs_dir / name}: {getattr(error, 'strerror', None) or error}")
    local_api.finish_removals(str(runs_dir))
    return freed, kept


def _remove_record(runs_dir: Path, name: str) -> None:
    """Remove the directory of a run, while nobody can start an agent in it. Raises: Refused,
    OSError."""
    folder = runs_dir / name
    if folder.is_symlink() or not (folder / PLAN).is_file():
        raise RemovalRefused("it is not a directory of a run, or a link")
    holder = launcher(folder)
    if holder:
        raise RemovalRefused(f"its launcher, {holder}, still records it")
    node = str((folder / NODE).absolute())
    if LINUX and local_api.find_orphans([node]):
        raise RemovalRefused("processes of it are left: rankboard ps --orphans")
    with ExitStack() as locks:
        for run, host in local_api.list_run_folders(node):
            locks.enter_context(local_api.hold_lock(run_folder(node, run, host)))
        local_api.begin_removal(str(folder), str(runs_dir))
