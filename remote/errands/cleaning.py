"""What ended runs have left: their processes, and their folders on hosts and here; and how it goes.

It only finds out and proposes. Who calls it asks a person first; a host looks again at each thing
before it ends or removes it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from remote.cluster.hosts import Host
from remote.errands.errands import ask, values
from remote.errands.inventory import Inventory, Run
from remote.record.layout import NODE, PLAN
from remote.record.lock import launcher
from remote.transport import Transport
from training.agent import here
from training.agent.here import LINUX, Refused
from training.agent.layout import run_folder
from training.wire.answers import STILL, Live, Orphan, Removed, Signalled
from training.wire.format import FORMAT

ENDING, REMOVING = 15.0, 300.0
"""Seconds that a host may need to end processes, and to remove one folder."""


@dataclass(frozen=True)
class Leftover:
    """A process of an ended run on a host, "" for this machine."""

    host: str
    orphan: Orphan


@dataclass(frozen=True)
class Leftovers:
    """What was found. `spared` are the live runs with processes that have no agent on their host
    any more; `problems` are what hosts could not tell."""

    found: tuple[Leftover, ...] = ()
    spared: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()


def orphans(transport: Transport | None, hosts: Sequence[Host], runs_dir: Path) -> Leftovers:
    """The processes of runs that are live nowhere."""
    answers = ask(transport, hosts, "orphans") if transport else []
    found: dict[tuple[str, int, int, int], Leftover] = {}  # hosts may be one machine
    live = set()
    for answer in answers:
        for one in values(answer.objects):
            if isinstance(one, Live):
                live.add(one.run)
            elif isinstance(one, Orphan):
                found.setdefault(
                    (one.run, one.host, one.pid, one.start), Leftover(answer.host.name, one)
                )
    for one in here.orphans(_workdirs(runs_dir)) if LINUX else ():
        found.setdefault((one.run, one.host, one.pid, one.start), Leftover("", one))
    spared = {left.orphan.run for left in found.values()} & live
    return Leftovers(
        tuple(left for left in found.values() if left.orphan.run not in spared),
        tuple(sorted(spared)),
        tuple(answer.error for answer in answers if answer.error),
    )


def end(
    transport: Transport | None, hosts: Sequence[Host], runs_dir: Path, found: Iterable[Leftover]
) -> tuple[list[Leftover], list[str]]:
    """End these processes, on all hosts at once. Returns those that are still there, and what hosts
    could not do."""
    by_host: dict[str, list[Leftover]] = defaultdict(list)
    for left in found:
        by_host[left.host].append(left)
    gone, problems = set(), []
    if own := by_host.pop("", []):
        ended = here.end(
            _workdirs(runs_dir), [(left.orphan.pid, left.orphan.start) for left in own]
        )
        gone |= {("", one.pid, one.start) for one in ended if one.gone}
    asked = [host for host in hosts if host.name in by_host]
    words = {
        host.name: [f"{left.orphan.pid}:{left.orphan.start}" for left in by_host[host.name]]
        for host in asked
    }
    for answer in (
        ask(transport, asked, "end", lambda host: words[host.name], ENDING) if transport else ()
    ):
        told = values(answer.objects)
        gone |= {
            (answer.host.name, one.pid, one.start)
            for one in told
            if isinstance(one, Signalled) and one.gone
        }
        problems += [answer.error] if answer.error else []
    every = [*own, *(left for some in by_host.values() for left in some)]
    return [
        left for left in every if (left.host, left.orphan.pid, left.orphan.start) not in gone
    ], problems


def _workdirs(runs_dir: Path) -> list[str]:
    """Where the agents of this machine's own runs kept what they know."""
    return [str(node.absolute()) for node in sorted(runs_dir.glob(f"*/{NODE}")) if node.is_dir()]


@dataclass(frozen=True)
class Removable:
    """Something that may go: `name` is a folder below the workdir of `host`, or for "" the run's
    directory here; `run` is "" for code, `phase` what became of the run. Sizes in bytes, `idle` in
    seconds."""

    run: str
    phase: str
    host: str
    name: str
    size: int
    idle: float


@dataclass(frozen=True)
class Kept:
    """A run that may not go, and why; `by_name`: it may, if somebody asks for it by its name."""

    run: str
    why: str
    by_name: bool = False


def removable(
    known: Inventory, older: float, keep: int, named: Collection[str] = ()
) -> tuple[list[Removable], list[Kept]]:
    """What may go, and which runs may not and why.

    That is the runs that ended `older` seconds ago or more, but for the `keep` newest, and code
    that is not used; or, where runs are `named`, just these, even if not all of their hosts can be
    asked whether they still run.
    """
    ended: list[Run] = []
    kept = []
    for run in known.runs:
        if named and run.name not in named:
            continue
        doubt = _doubt(run, known)
        if why := _use(run):
            kept += [Kept(run.name, why)] if named or not run.live else []
        elif doubt and not named:
            kept.append(doubt)
        else:
            ended.append(run)
    if named:
        return [one for run in ended for one in _of_run(run)], kept
    newest = sorted(ended, key=lambda run: (run.idle, run.name))
    going = sorted((run for run in newest[keep:] if run.idle >= older), key=lambda run: run.name)
    found = [one for run in going for one in _of_run(run)]
    found += [
        Removable("", "code", code.host, code.name, code.archive.size, code.archive.idle)
        for code in known.code
        if not code.archive.used and code.archive.idle >= older
    ]
    return found, kept


def unreachable(run: Run, known: Inventory) -> tuple[str, ...]:
    """The hosts of a run that were not asked, or did not answer, and may have a part of it."""
    if not run.record or run.record.local:
        return ()
    return tuple(host for host in run.record.hosts if host not in known.answered)


def _use(run: Run) -> str:
    """Why a run is in use for certain, or ""."""
    if run.live:
        return "it is live"
    if run.record and (holder := launcher(run.record.folder)):
        return f"its launcher, {holder}, is still at work on it"
    return ""


def _doubt(run: Run, known: Inventory) -> Kept | None:
    """Why a run that is not known to be live may be live all the same."""
    if run.format != FORMAT:
        return Kept(run.name, "another version of rankboard recorded it", by_name=True)
    away = "hosts that cannot be asked may still be training"
    if run.parts and run.hosts > len(run.parts) and known.problems:
        return Kept(run.name, away, by_name=True)
    record = run.record
    if not record or (record.verdict and record.verdict != "lost"):
        return None
    if unreachable(run, known):
        return Kept(run.name, away, by_name=True)
    just_now = record.idle < STILL and not run.parts and not record.verdict
    return Kept(run.name, "it may be starting or ending", by_name=True) if just_now else None


def _of_run(run: Run) -> Iterator[Removable]:
    if record := run.record:
        yield Removable(record.run, run.phase, "", record.run, record.size, record.idle)
    for part in run.parts:
        if part.host:
            yield Removable(run.name, run.phase, part.host, part.name, part.folder.size, part.idle)


def remove(
    transport: Transport | None, hosts: Sequence[Host], runs_dir: Path, going: Iterable[Removable]
) -> tuple[int, list[str]]:
    """Remove these, on all hosts at once. Returns how many bytes are free again, and what is still
    there and why."""
    names: dict[str, dict[str, Removable]] = defaultdict(dict)
    for one in going:
        names[one.host][one.name] = one
    freed, kept = 0, []
    asked = [host for host in hosts if host.name in names]
    for answer in (
        ask(transport, asked, "remove", lambda host: list(names[host.name]), REMOVING)
        if transport
        else ()
    ):
        for told in values(answer.objects):
            if isinstance(told, Removed) and told.kept:
                kept.append(f"{answer.host.name}: {told.name}: {told.kept}")
            elif isinstance(told, Removed) and told.name in names[answer.host.name]:
                freed += names[answer.host.name][told.name].size
        kept += [answer.error] if answer.error else []
    for name, one in names[""].items():
        try:
            _remove_record(runs_dir, name)
            freed += one.size
        except (Refused, OSError) as error:
            kept.append(f"{runs_dir / name}: {getattr(error, 'strerror', None) or error}")
    here.finish_removals(str(runs_dir))
    return freed, kept


def _remove_record(runs_dir: Path, name: str) -> None:
    """Remove a run's directory here, while nobody can begin an agent in it. Raises: Refused,
    OSError."""
    folder = runs_dir / name
    if folder.is_symlink() or not (folder / PLAN).is_file():
        raise Refused("no run's directory, or a link")
    if holder := launcher(folder):
        raise Refused(f"its launcher, {holder}, is still at work on it")
    node = str((folder / NODE).absolute())
    if LINUX and here.orphans([node]):
        raise Refused("processes of it are left: rankboard ps --orphans")
    with ExitStack() as locks:
        for run, host in here.folders(node):
            locks.enter_context(here.alone(run_folder(node, run, host)))
        here.begin_removal(str(folder), str(runs_dir))
