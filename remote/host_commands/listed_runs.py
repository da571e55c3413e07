"""Runs as they are found on hosts and on this machine, by persons who list or remove them."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from remote.cluster.hosts import Host
from remote.limits import LIMITS
from remote.run.diagnosis import agent_end
from remote.run.state.phases import Verdict
from training.agent.layout import ARCHIVES, RUNS
from training.wire.format import FORMAT
from training.wire.host_replies import CodeArchive, RunFolder

REFUSED = 2
"""Exit code of a rank that refuses its job."""
NOT_STARTED = "not started"
"""What a host says of a run of which it has started no rank."""
ORDER = ("unknown", "lost", "failed", "stopped", "finished", NOT_STARTED)
"""What became of a run is the first of these that any of its hosts tells."""
DEATHS = ("lost", "failed")
"""What hosts say of a run that did not end as it should, unless a person stopped it before."""


@dataclass(frozen=True)
class HostPart:
    """What one host knows of a run: `host` is its name in the hosts file, "" for this machine;
    `workdir` as the hosts file has it. `clock_ahead` is how many seconds its clock is ahead of this
    machine's, 0 as long as nothing speaks against that."""

    host: str
    workdir: str
    folder: RunFolder
    clock_ahead: float = 0.0

    @property
    def stopped_at(self) -> float:
        """When the host heard that a person stops the newest attempt there, by this machine's
        clock; infinite where it never did."""
        heard = self.folder.stop_heard
        return heard - self.clock_ahead if heard else math.inf

    def outcome(self, stopped_at: float) -> str:
        """Return what became of the run there. `stopped_at` is when a person stopped it: what dies
        later dies of that, and what seems to have died just before, as clocks of hosts are known to
        within a second."""
        phase = self.folder.phase
        if phase not in DEATHS:
            return phase
        died_at = (self.folder.failed or self.folder.last) - self.clock_ahead
        return "stopped" if died_at + LIMITS.clock_step >= stopped_at else phase

    @property
    def idle(self) -> float:
        """Seconds since its last record, 0 where the host's clock cannot be believed."""
        return max(0.0, self.folder.now - self.folder.last)

    @property
    def reason(self) -> str:
        """Why the run ended there, as far as is known; "" while it is live."""
        if self.folder.ended:
            return agent_end.describe_end(self.folder.ended)
        return "" if self.folder.live else "agent and guard were killed, or the host went down"

    @property
    def name(self) -> str:
        """The folder below the workdir."""
        return f"{RUNS}/{self.folder.run}/{self.folder.host}"


@dataclass(frozen=True)
class LocalRecord:
    """The directory of a run on this machine. `verdict` is "" where its launcher did not end it;
    `idle` is how many seconds ago it was written; `local`: the run was launched with --local.
    `format` is that of its plan. `ways` are the hosts as its plan, which this user has recorded,
    reaches them, and `hosts_file` is where they were from; of a run on this machine there are
    none. `step`, `steps`, `began` and `label` are as in `ListedRun`, `made_no_step` as in
    `Entry`."""

    run: str
    folder: Path
    hosts: tuple[str, ...]
    ranks: int
    local: bool
    verdict: str
    size: int
    idle: float
    format: int = FORMAT
    ways: tuple[Host, ...] = ()
    hosts_file: str = ""
    step: int = 0
    steps: int = 0
    began: float = 0.0
    label: str = ""
    made_no_step: bool = False


@dataclass(frozen=True)
class ListedRun:
    """A run: the parts that hosts know, in the order of its hosts, and its record on this machine,
    or one of both."""

    name: str
    parts: tuple[HostPart, ...]
    record: LocalRecord | None = None

    @property
    def live(self) -> int:
        """The number of hosts on which it is live."""
        return sum(part.folder.live for part in self.parts)

    @property
    def hosts(self) -> int:
        """The number of hosts, as far as is known."""
        planned = len(self.record.hosts) if self.record else 0
        return max([len(self.parts), planned, *(part.folder.hosts for part in self.parts)])

    @property
    def ranks(self) -> int:
        """The number of ranks, as far as is known."""
        planned = self.record.ranks if self.record else 0
        found = sum(len(part.folder.ranks) for part in self.parts)
        return max([found, planned, *(part.folder.world_size for part in self.parts)])

    @property
    def label(self) -> str:
        """The name that a person gave it; the one that it has here, where it is recorded here."""
        if self.record:
            return self.record.label
        labels = [part.folder.label for part in self.parts]
        return max(labels, key=labels.count, default="")

    @property
    def state(self) -> str:
        """The word for it in lists for persons: what its record here says of its end, else what its
        hosts say."""
        if self.live:
            return self.phase
        verdict = self.record.verdict if self.record else ""
        return verdict or (Verdict.REFUSED.word if self._refused else self.phase)

    @property
    def made_no_step(self) -> bool:
        """Whether it has ended without a step, as its record says; where it has none here, as its
        hosts say. A host that knows of a step is always right: the launcher may have lost it."""
        if self.live or any(part.folder.step for part in self.parts):
            return False
        if self.record:
            return self.record.made_no_step
        return self.state in (Verdict.REFUSED.word, NOT_STARTED)

    @property
    def phase(self) -> str:
        """What most of its live hosts do; where there is none, what became of it. Programs read
        this word; `state` is the one for persons."""
        phases = [part.folder.phase for part in self.parts if part.folder.live]
        if phases:
            return max(phases, key=phases.count)
        ended = self._outcomes
        verdict = self.record.verdict if self.record else ""
        if ended == {NOT_STARTED} or verdict == Verdict.REFUSED.word or self._refused:
            return NOT_STARTED
        if verdict:  # of a rank that a person stopped, a host knows the exit code alone
            return verdict
        return next((phase for phase in ORDER if phase in ended), "lost" if ended else "unknown")

    @property
    def _outcomes(self) -> set[str]:
        """What became of the newest attempt on its hosts: those that were left out of it count no
        more."""
        newest = max((part.folder.attempt for part in self.parts), default=0)
        parts = [part for part in self.parts if part.folder.attempt == newest]
        stopped_at = min((part.stopped_at for part in parts), default=math.inf)
        return {part.outcome(stopped_at) for part in parts}

    @property
    def _refused(self) -> bool:
        """Whether a rank refused the job before any made a step."""
        exits = [exited for part in self.parts for exited in part.folder.exits]
        return not any(part.folder.step or part.folder.steps for part in self.parts) and any(
            one.code == REFUSED and not one.stopped for one in exits
        )

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why it ended, one of each kind."""
        return tuple(dict.fromkeys(part.reason for part in self.parts if part.reason))

    @property
    def format(self) -> int:
        """The format in which it is recorded. Nothing is known of a run in another format than
        FORMAT."""
        formats = [part.folder.format for part in self.parts]
        formats += [self.record.format] if self.record else []
        return next((number for number in formats if number != FORMAT), FORMAT)

    @property
    def step(self) -> int:
        """The newest step of any rank; where no host tells it, the newest that is recorded."""
        found = max((part.folder.step for part in self.parts), default=0)
        return found or (self.record.step if self.record else 0)

    @property
    def steps(self) -> int:
        """The number of steps of the whole run, 0 where it is not known."""
        found = max((part.folder.steps for part in self.parts), default=0)
        return found or (self.record.steps if self.record else 0)

    @property
    def began(self) -> float:
        """Time of its first record, 0 where there is none."""
        found = min((part.folder.began for part in self.parts if part.folder.began), default=0.0)
        return found or (self.record.began if self.record else 0.0)

    @property
    def idle(self) -> float:
        """Seconds since its last record, by the clock of the machine that wrote it; 0 where that is
        not known."""
        known = [part.idle for part in self.parts if part.folder.now]
        return min([*known, self.record.idle] if self.record else known, default=0.0)

    @property
    def size(self) -> int:
        """Bytes on the disks of its hosts and of this machine. With --local the record contains
        the parts."""
        there = sum(part.folder.size for part in self.parts if part.host or not self.record)
        return there + (self.record.size if self.record else 0)


@dataclass(frozen=True)
class HostCode:
    """An archive of code in a host's workdir."""

    host: str
    archive: CodeArchive

    @property
    def name(self) -> str:
        """The folder below the workdir."""
        return f"{ARCHIVES}/{self.archive.name}"


def join_parts(parts: Iterable[HostPart]) -> tuple[ListedRun, ...]:
    """The runs of the parts, by name, and so by time. A folder that several hosts share counts
    once."""
    runs: dict[str, dict[int, HostPart]] = defaultdict(dict)
    for part in parts:
        known = runs[part.folder.run].get(part.folder.host)
        if known is None or (part.folder.live, part.folder.here) > (
            known.folder.live,
            known.folder.here,
        ):
            runs[part.folder.run][part.folder.host] = part
    return tuple(
        ListedRun(name, tuple(found[index] for index in sorted(found)))
        for name, found in sorted(runs.items())
    )
