"""Lists the runs that hosts and the runs directory of this machine know of."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from remote.cluster.hosts import Host
from remote.host_commands.listed_runs import HostCode, HostPart, ListedRun, LocalRecord, join_parts
from remote.host_commands.run_on_hosts import HostAnswer, run_on_hosts, typed_objects
from remote.limits import LIMITS
from remote.plan import serialize
from remote.plan.plan import is_label
from remote.record import entry, marks
from remote.record.events_file import RunFolderError
from remote.record.files import is_folder
from remote.record.layout import EVENTS, NODE, PLAN, SUMMARY
from remote.record.read import load_plan, verdict
from remote.record.trust import has_ways
from remote.transport import Transport
from remote.transport.registry import is_here
from training.agent import local_api
from training.wire.format import FORMAT
from training.wire.host_replies import CodeArchive, RunFolder

AGES = 1e11
BYTES = 10**18
COUNT = 10**6
"""Bounds of what a host may answer: seconds of a time or an age, bytes and steps, and numbers of
hosts and ranks."""
LATELY = 7 * 86_400.0
"""Seconds since a run was last recorded for which its hosts are asked of it: later they may be
gone, or others."""


@dataclass(frozen=True)
class RunInventory:
    """All that is known, the newest run last. `problems`: why hosts could not answer, one line
    each; `answered` are the names of those that did. `gone`: why hosts could not answer that were
    asked only of runs that were left; they may be gone for good."""

    runs: tuple[ListedRun, ...] = ()
    code: tuple[HostCode, ...] = ()
    answered: frozenset[str] = frozenset()
    problems: tuple[str, ...] = ()
    gone: tuple[str, ...] = ()


def take_inventory(
    transport: Transport | None,
    hosts: Sequence[Host],
    runs_dir: Path,
    names: Collection[str] | None = None,
    *,
    left: bool = False,
    figures: bool = False,
    only_live: bool = False,
) -> RunInventory:
    """Ask all hosts at once, each for as long as its timeout, and look into the runs directory:
    there at the runs with these `names` only, if some are given, as looking at all takes long.
    `left`: ask also the hosts of these runs whose end is not known, of these runs alone. `figures`:
    with the steps and the start of runs that are recorded here, see `find_records`. `only_live`:
    hosts tell
    live runs alone, and of those with these `names` also the ended ones, without their sizes,
    which costs them little."""
    kept = {record.run: record for record in find_records(runs_dir, names, figures=figures)}
    others = _hosts_of_left(kept.values(), hosts) if left else {}
    verb = "live" if only_live else "runs"
    words = sorted(names or ()) if only_live else []
    answers = run_on_hosts(transport, (*hosts, *others), verb, lambda _: words) if transport else []
    parts = list(find_local_parts(runs_dir, names))
    code = []
    problems = list[str]()
    gone = list[str]()
    for answer in answers:
        theirs = others.get(answer.host)
        told = typed_objects(answer.objects)
        folders = [_plausible(one) for one in told if isinstance(one, RunFolder)]
        clock_ahead = _clock_ahead(answer, folders)
        parts += [
            HostPart(answer.host.name, answer.host.workdir, one, clock_ahead)
            for one in folders
            if theirs is None or one.run in theirs
        ]
        if theirs is None:
            code += [
                HostCode(answer.host.name, _plausible_code(one))
                for one in told
                if isinstance(one, CodeArchive)
            ]
        if answer.error:
            (gone if theirs else problems).append(answer.error)
    told_of = [replace(run, record=kept.pop(run.name, None)) for run in join_parts(parts)]
    runs = sorted(
        (*told_of, *(ListedRun(name, (), record) for name, record in kept.items())),
        key=lambda run: run.name,
    )
    return RunInventory(
        tuple(runs),
        tuple(code),
        frozenset(one.host.name for one in answers if not one.error and one.host not in others),
        tuple(problems),
        tuple(gone),
    )


def _hosts_of_left(
    found: Iterable[LocalRecord], asked: Sequence[Host]
) -> dict[Host, dict[str, str]]:
    """The hosts of runs whose end is not known and that were recorded lately, without those that
    are asked anyway: with these runs, and the hosts file of each."""
    known = set(map(_way, asked))
    hosts = dict[tuple[str | int, ...], Host]()
    theirs: dict[Host, dict[str, str]] = defaultdict(dict)
    for record in found:
        if not record.verdict and record.idle < LATELY:
            for host in record.ways:
                if _way(host) not in known:
                    theirs[hosts.setdefault(_way(host), host)][record.run] = record.hosts_file
    return theirs


def _way(host: Host) -> tuple[str | int, ...]:
    """What hosts have in common whose answers are the same."""
    return (
        *(host.name, host.transport, host.user, host.address, host.port, host.jump),
        *(host.proxy_command, host.slurm_job, host.workdir),
    )


def _clock_ahead(answer: HostAnswer, folders: Sequence[RunFolder]) -> float:
    """Return how many seconds the clock of a host is ahead: by how much the moment at which it
    looked at its first folder lies outside of the time that its answer took. A host may look for
    long, so a moment within that time is no difference of clocks."""
    if not folders or not folders[0].now:
        return 0.0
    earliest = answer.moment - LIMITS.clock_step
    return folders[0].now - min(max(folders[0].now, earliest), answer.completed)


def _plausible(told: RunFolder) -> RunFolder:
    """The answer of a host, with 0 (not known) in place of impossible figures."""
    moments = (told.began, told.last, told.now, told.stop_heard, told.failed)
    if not all(0 <= moment <= AGES for moment in moments):
        told = replace(told, began=0.0, last=0.0, now=0.0, stop_heard=0.0, failed=0.0)
    size = _bounded(told.size, BYTES)
    step = _bounded(told.step, BYTES)
    steps = _bounded(told.steps, BYTES)
    hosts = _bounded(told.hosts, COUNT)
    world_size = _bounded(told.world_size, COUNT)
    attempt = _bounded(told.attempt, COUNT)
    label = told.label if is_label(told.label) else ""
    return replace(
        told,
        size=size,
        step=step,
        steps=steps,
        hosts=hosts,
        world_size=world_size,
        label=label,
        attempt=attempt,
    )


def _plausible_code(told: CodeArchive) -> CodeArchive:
    return replace(
        told, size=_bounded(told.size, BYTES), idle=told.idle if 0 <= told.idle <= AGES else 0.0
    )


def _bounded(number: int, most: int) -> int:
    return number if 0 <= number <= most else 0


def _folders(runs_dir: Path, names: Collection[str] | None) -> list[Path]:
    """The folders of the runs directory, or those with these names."""
    if names is None:
        return sorted(runs_dir.glob("*"))
    return [folder for name in sorted(names) if (folder := runs_dir / name).is_dir()]


def find_local_parts(runs_dir: Path, names: Collection[str] | None = None) -> Iterator[HostPart]:
    """The parts of runs of this machine, which keep what a host would beside their record."""
    for folder in _folders(runs_dir, names):
        node = folder / NODE
        if is_folder(node) and not node.parent.is_symlink() and (node.parent / PLAN).is_file():
            workdir = str(node.absolute())
            for run, host in local_api.list_run_folders(workdir):
                with suppress(OSError):  # it is just being removed
                    yield HostPart("", workdir, _plausible(local_api.examine(workdir, run, host)))


def find_records(
    runs_dir: Path, names: Collection[str] | None = None, *, figures: bool
) -> Iterator[LocalRecord]:
    """The runs recorded here. What has no plan in it is no run, and a link is none. `figures`:
    with their steps and their start, which takes longer."""
    for folder in _folders(runs_dir, names):
        if folder.name[0] == "." or folder.is_symlink() or not (folder / PLAN).is_file():
            continue
        local = (folder / NODE).is_dir()
        plan = None
        number = FORMAT
        try:
            plan = load_plan(folder)
        except serialize.OtherFormat as error:
            number = error.number
        except RunFolderError:
            pass
        ways = plan.hosts if plan and not local and has_ways(plan) else ()
        newest = max(
            path.stat().st_mtime
            for name in (PLAN, EVENTS, SUMMARY)
            if (path := folder / name).exists()
        )
        size = local_api.folder_size(str(folder))
        idle = max(0.0, time.time() - newest)
        found = entry.read_entry(folder) if figures else None
        yield LocalRecord(
            folder.name,
            folder,
            tuple(host.name for host in plan.hosts) if plan else (),
            plan.world_size if plan else 0,
            local,
            verdict(folder) if number == FORMAT else "",
            size,
            idle,
            number,
            () if is_here(ways) else ways,
            plan.hosts_file if plan else "",
            found.step if found else 0,
            found.steps if found else 0,
            (found.started if found else None) or 0.0,
            marks.name(folder),
            found.made_no_step if found else False,
        )
