"""The runs that hosts and this machine's runs directory know of, put together from what each host
tells of its part."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from remote.cluster.hosts import Host
from remote.errands.errands import ask, values
from remote.plan import serialize
from remote.record.files import is_folder
from remote.record.layout import EVENTS, NODE, PLAN, SUMMARY
from remote.record.read import RunFolderError, load_plan, verdict
from remote.run import agent_end
from remote.transport import Transport
from training.agent import here
from training.agent.layout import ARCHIVES, RUNS
from training.wire.answers import Archive, RunFolder
from training.wire.format import FORMAT

AGES, BYTES, COUNT = 1e11, 10**18, 10**6
"""Bounds of what a host may say: seconds of a time or an age, bytes and steps, and numbers of hosts
and ranks."""
REFUSED = 2
"""Exit code of a rank that refuses its job."""
ORDER = ("unknown", "lost", "failed", "stopped", "finished", "not started")
"""What became of a run is the first of these that any of its hosts tells."""


@dataclass(frozen=True)
class Part:
    """What one host tells of a run: `host` is its name in the hosts file, "" for this machine;
    `workdir` as it is asked for."""

    host: str
    workdir: str
    folder: RunFolder

    @property
    def idle(self) -> float:
        """Seconds since its last record, 0 where the host's clock cannot be believed."""
        return max(0.0, self.folder.now - self.folder.last)

    @property
    def reason(self) -> str:
        """Why the run ended there, as far as is known; "" while it is live."""
        if self.folder.ended:
            return agent_end.describe(self.folder.ended)
        return "" if self.folder.live else "agent and guard were killed, or the host went down"

    @property
    def name(self) -> str:
        """The folder below the workdir."""
        return f"{RUNS}/{self.folder.run}/{self.folder.host}"


@dataclass(frozen=True)
class Record:
    """A run's directory here. `verdict` "" where its session did not come to an end; `idle` seconds
    since it was written; `local`: the run's only host is this machine. `format` is that of
    its plan."""

    run: str
    folder: Path
    hosts: tuple[str, ...]
    ranks: int
    local: bool
    verdict: str
    size: int
    idle: float
    format: int = FORMAT


@dataclass(frozen=True)
class Run:
    """A run: the parts that hosts know of it, in the order of its hosts, and its record here; one
    of both at least."""

    name: str
    parts: tuple[Part, ...]
    record: Record | None = None

    @property
    def live(self) -> int:
        """On how many hosts it is live."""
        return sum(part.folder.live for part in self.parts)

    @property
    def hosts(self) -> int:
        """How many hosts it has, as far as is known."""
        planned = len(self.record.hosts) if self.record else 0
        return max([len(self.parts), planned, *(part.folder.hosts for part in self.parts)])

    @property
    def ranks(self) -> int:
        """How many ranks it has, as far as is known."""
        planned = self.record.ranks if self.record else 0
        found = sum(len(part.folder.ranks) for part in self.parts)
        return max([found, planned, *(part.folder.world_size for part in self.parts)])

    @property
    def phase(self) -> str:
        """What most of its live hosts do; where there is none, what became of it."""
        phases = [part.folder.phase for part in self.parts if part.folder.live]
        if phases:
            return max(phases, key=phases.count)
        ended = {part.folder.phase for part in self.parts}
        verdict = self.record.verdict if self.record else ""
        if ended == {"not started"} or verdict == "refused" or self._refused:
            return "not started"
        if (
            verdict
        ):  # of a rank that a person's stop has ended a host knows no more than its exit code
            return verdict
        return next((phase for phase in ORDER if phase in ended), "lost" if ended else "unknown")

    @property
    def _refused(self) -> bool:
        """Whether a rank refused the job before any made a step."""
        exits = [exited for part in self.parts for exited in part.folder.exits]
        return (
            not self.step
            and not self.steps
            and any(one.code == REFUSED and not one.stopped for one in exits)
        )

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why it ended, one of each kind."""
        return tuple(dict.fromkeys(part.reason for part in self.parts if part.reason))

    @property
    def format(self) -> int:
        """The format in which it is recorded. What is recorded in another one than FORMAT is not
        known."""
        formats = [part.folder.format for part in self.parts]
        formats += [self.record.format] if self.record else []
        return next((number for number in formats if number != FORMAT), FORMAT)

    @property
    def step(self) -> int:
        """The newest step of any rank."""
        return max((part.folder.step for part in self.parts), default=0)

    @property
    def steps(self) -> int:
        """How many steps it is to make, 0 where that is not known."""
        return max((part.folder.steps for part in self.parts), default=0)

    @property
    def began(self) -> float:
        """Time of its first record, 0 where there is none."""
        return min((part.folder.began for part in self.parts if part.folder.began), default=0.0)

    @property
    def idle(self) -> float:
        """Seconds since its last record, by the clock of the machine that wrote it; 0 where that is
        not known."""
        known = [part.idle for part in self.parts if part.folder.now]
        return min([*known, self.record.idle] if self.record else known, default=0.0)

    @property
    def size(self) -> int:
        """Bytes on the disks of its hosts and of this machine, whose record has the part that it
        keeps itself."""
        there = sum(part.folder.size for part in self.parts if part.host or not self.record)
        return there + (self.record.size if self.record else 0)


@dataclass(frozen=True)
class Code:
    """An archive of code in a host's workdir."""

    host: str
    archive: Archive

    @property
    def name(self) -> str:
        """The folder below the workdir."""
        return f"{ARCHIVES}/{self.archive.name}"


@dataclass(frozen=True)
class Inventory:
    """All that is known, the newest run last. `problems`: what hosts could not tell, and why, one
    line each; `answered` are the names of those that told all."""

    runs: tuple[Run, ...] = ()
    code: tuple[Code, ...] = ()
    answered: frozenset[str] = frozenset()
    problems: tuple[str, ...] = ()


def take(transport: Transport | None, hosts: Sequence[Host], runs_dir: Path) -> Inventory:
    """Ask all hosts at once, each for as long as its timeout, and look into the runs directory."""
    answers = ask(transport, hosts, "runs") if transport else []
    parts = list(recorded(runs_dir))
    code = []
    for answer in answers:
        told = values(answer.objects)
        folders = [_plausible(one) for one in told if isinstance(one, RunFolder)]
        parts += [Part(answer.host.name, answer.host.workdir, one) for one in folders]
        code += [
            Code(answer.host.name, _plausible_code(one)) for one in told if isinstance(one, Archive)
        ]
    problems = tuple(answer.error for answer in answers if answer.error)
    kept = {record.run: record for record in records(runs_dir)}
    told_of = [replace(run, record=kept.pop(run.name, None)) for run in joined(parts)]
    runs = sorted(
        (*told_of, *(Run(name, (), record) for name, record in kept.items())),
        key=lambda run: run.name,
    )
    return Inventory(
        tuple(runs),
        tuple(code),
        frozenset(one.host.name for one in answers if not one.error),
        problems,
    )


def _plausible(told: RunFolder) -> RunFolder:
    """What a host tells, with 0, which stands for not known, in place of figures that cannot be."""
    if not all(0 <= moment <= AGES for moment in (told.began, told.last, told.now)):
        told = replace(told, began=0.0, last=0.0, now=0.0)
    size, step, steps = (
        _bounded(told.size, BYTES),
        _bounded(told.step, BYTES),
        _bounded(told.steps, BYTES),
    )
    hosts, world_size = _bounded(told.hosts, COUNT), _bounded(told.world_size, COUNT)
    return replace(told, size=size, step=step, steps=steps, hosts=hosts, world_size=world_size)


def _plausible_code(told: Archive) -> Archive:
    return replace(
        told, size=_bounded(told.size, BYTES), idle=told.idle if 0 <= told.idle <= AGES else 0.0
    )


def _bounded(number: int, most: int) -> int:
    return number if 0 <= number <= most else 0


def recorded(runs_dir: Path) -> Iterator[Part]:
    """The parts of runs of this machine, which keep what a host would beside their record."""
    for node in sorted(runs_dir.glob(f"*/{NODE}")):
        if is_folder(node) and not node.parent.is_symlink() and (node.parent / PLAN).is_file():
            workdir = str(node.absolute())
            for run, host in here.folders(workdir):
                with suppress(OSError):  # it is just being removed
                    yield Part("", workdir, _plausible(here.examine(workdir, run, host)))


def records(runs_dir: Path) -> Iterator[Record]:
    """The runs recorded here. What has no plan in it is no run, and a link is none."""
    for folder in sorted(runs_dir.glob("*")):
        if folder.name[0] == "." or folder.is_symlink() or not (folder / PLAN).is_file():
            continue
        try:
            plan = load_plan(folder)
            hosts, ranks, number = tuple(host.name for host in plan.hosts), plan.world_size, FORMAT
        except serialize.OtherFormat as error:
            hosts, ranks, number = (), 0, error.number
        except RunFolderError:
            hosts, ranks, number = (), 0, FORMAT
        local = (folder / NODE).is_dir()
        newest = max(
            path.stat().st_mtime
            for name in (PLAN, EVENTS, SUMMARY)
            if (path := folder / name).exists()
        )
        size = here.size(str(folder))
        idle = max(0.0, time.time() - newest)
        word = verdict(folder) if number == FORMAT else ""
        yield Record(folder.name, folder, hosts, ranks, local, word, size, idle, number)


def joined(parts: Iterable[Part]) -> tuple[Run, ...]:
    """The runs of the parts, by name, which begins with the time. What several hosts see in one
    shared folder counts once."""
    runs: dict[str, dict[int, Part]] = defaultdict(dict)
    for part in parts:
        known = runs[part.folder.run].get(part.folder.host)
        if known is None or (part.folder.live, part.folder.here) > (
            known.folder.live,
            known.folder.here,
        ):
            runs[part.folder.run][part.folder.host] = part
    return tuple(
        Run(name, tuple(found[index] for index in sorted(found)))
        for name, found in sorted(runs.items())
    )
