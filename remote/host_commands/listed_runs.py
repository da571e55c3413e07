"""Runs as they are listed for a person who looks for them or removes them: what hosts and this
machine know of each."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from remote.cluster.hosts import Host
from remote.limits import LIMITS
from remote.run.diagnosis import agent_end
from remote.run.findings.stall import STALL_LIMITS
from remote.run.state.phases import LEFT, UNREADABLE, RankPhase, Verdict
from training.agent.layout import ARCHIVES, RUNS
from training.wire.format import FORMAT, READABLE
from training.wire.host_replies import CodeArchive, RunFolder

REFUSED = 2
"""Exit code of a rank that refuses its job."""
ORDER = ("lost", "failed", "stopped", "finished", Verdict.REFUSED.word)
"""The outcome of a run is the first of these that one of its hosts reports."""
DEATHS = ("lost", "failed")
"""Phases of a run that did not end as it should, unless a person had stopped it."""


@dataclass(frozen=True)
class HostPart:
    """What one host knows of a run."""

    host: str
    """Its name in the hosts file; "" for this machine."""
    workdir: str
    """As the hosts file has it."""
    folder: RunFolder
    clock_ahead: float = 0.0
    """Seconds by which its clock is ahead of this machine's; 0 if nothing speaks against that."""

    @property
    def stopped_at(self) -> float:
        """When the host heard that a person stops the newest attempt, by this machine's clock;
        infinite if it never did."""
        if not self.folder.stop_heard:
            return math.inf
        return self.folder.stop_heard - self.clock_ahead

    def outcome(self, stopped_at: float) -> str:
        """Return what became of the run there. `stopped_at` is when a person stopped it: a rank
        that dies later dies of that."""
        if self.folder.phase not in DEATHS:
            return self.folder.phase
        died_at = (self.folder.failed or self.folder.last) - self.clock_ahead
        # clocks of hosts are known to within a second only
        died_of_stop = died_at + LIMITS.clock_step >= stopped_at
        return "stopped" if died_of_stop else self.folder.phase

    @property
    def doing(self) -> str:
        """What its ranks do, if it is live; `stalled` by the rule of a launcher."""
        silent_seconds = self.folder.now - self.folder.moved
        limit = max(STALL_LIMITS.least, STALL_LIMITS.factor * self.folder.step_seconds)
        is_training = self.folder.phase == RankPhase.TRAINING and self.folder.moved > 0
        return "stalled" if is_training and silent_seconds >= limit else self.folder.phase

    @property
    def idle(self) -> float:
        """Seconds since its last record; 0 if the host's clock cannot be believed."""
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
    """The directory of a run on this machine."""

    run: str
    folder: Path
    hosts: tuple[str, ...]
    ranks: int
    local: bool
    """It was launched with --local."""
    verdict: str
    """"" if its launcher did not end it."""
    size: int
    idle: float
    """Seconds since it was last written."""
    format: int = FORMAT
    """The format of its plan."""
    ways: tuple[Host, ...] = ()
    """The hosts as its plan, which this user has recorded, reaches them; none if the run was on
    this machine."""
    step: int = 0
    steps: int = 0
    began: float = 0.0
    label: str = ""
    made_no_step: bool = False
    """See `remote.record.entry.Entry`."""
    trouble: str = ""
    """What is wrong with it, as the launcher says that records it now; "" if there is none."""


NO_RECORD = LocalRecord("", Path(), (), 0, local=False, verdict="", size=0, idle=0.0)


@dataclass(frozen=True)
class ListedRun:
    """A run: what its hosts know of it, in their order, or its record on this machine, or both."""

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
        return max(len(self.parts), len(self._recorded.hosts), self._largest("hosts"))

    @property
    def ranks(self) -> int:
        """The number of ranks, as far as is known."""
        reported_ranks = sum(len(part.folder.ranks) for part in self.parts)
        return max(reported_ranks, self._recorded.ranks, self._largest("world_size"))

    @property
    def label(self) -> str:
        """The name that a person gave it: the one in the record here, if there is a record."""
        if self.record:
            return self.record.label
        labels = [part.folder.label for part in self.parts]
        return max(labels, key=labels.count, default="")

    @property
    def state(self) -> str:
        """What is wrong with it, or what most of its live hosts do. If none is live, what became of
        it, as its record here says, or else its hosts: one of `RUN_STATES`."""
        live_phases = [part.doing for part in self.parts if part.folder.live]
        if live_phases:
            return self._recorded.trouble or max(live_phases, key=live_phases.count)
        if self.format not in READABLE:
            return UNREADABLE
        # The record comes first: of a rank that a person stopped, a host knows the exit code alone.
        if self._recorded.verdict:
            return self._recorded.verdict
        if self._was_refused:
            return Verdict.REFUSED.word
        outcomes = self._outcomes()
        default_state = "lost" if outcomes else LEFT
        return next((state for state in ORDER if state in outcomes), default_state)

    @property
    def made_no_step(self) -> bool:
        """True if it has ended without a step, by its record or else by its hosts. A host that
        knows of a step is always right, as the launcher may have lost it."""
        if self.live or self._largest("step"):
            return False
        if self.record:
            return self.record.made_no_step
        has_exits = any(part.folder.exits for part in self.parts)
        was_stopped_early = self.state == Verdict.STOPPED.word and not has_exits
        return was_stopped_early or self.state == Verdict.REFUSED.word

    @property
    def _recorded(self) -> LocalRecord:
        """Return its record on this machine; an empty one if there is none."""
        return self.record or NO_RECORD

    def _outcomes(self) -> set[str]:
        """Return what became of the newest attempt on its hosts. A host that was left out of that
        attempt counts no more."""
        newest_attempt = self._largest("attempt")
        newest_parts = [part for part in self.parts if part.folder.attempt == newest_attempt]
        stopped_at = min((part.stopped_at for part in newest_parts), default=math.inf)
        return {part.outcome(stopped_at) for part in newest_parts}

    @property
    def _was_refused(self) -> bool:
        """True if a rank refused the job before any made a step."""
        # A program of the user may exit with the same code after it has trained.
        if self._largest("step") or self._largest("steps"):
            return False
        for part in self.parts:
            for rank_exit in part.folder.exits:
                if rank_exit.code == REFUSED and not rank_exit.stopped:
                    return True
        return False

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why it ended, each reason once."""
        return tuple(dict.fromkeys(part.reason for part in self.parts if part.reason))

    @property
    def format(self) -> int:
        """The format in which it is recorded. If it is another than FORMAT, nothing else is
        known."""
        known_formats = [*(part.folder.format for part in self.parts), self._recorded.format]
        return next(
            (format_number for format_number in known_formats if format_number != FORMAT), FORMAT
        )

    @property
    def step(self) -> int:
        """The newest step of any rank: as its hosts report it, else as it is recorded here."""
        return self._largest("step") or self._recorded.step

    @property
    def steps(self) -> int:
        """The number of steps of the whole run; 0 if it is not known."""
        return self._largest("steps") or self._recorded.steps

    @property
    def began(self) -> float:
        """The time of its first record; 0 if there is none."""
        start_times = [part.folder.began for part in self.parts if part.folder.began]
        return min(start_times, default=self._recorded.began)

    @property
    def idle(self) -> float:
        """Seconds since its last record, by the clock of the machine that wrote it; 0 if that is
        not known."""
        ages = [part.idle for part in self.parts if part.folder.now]
        if self.record:
            ages.append(self.record.idle)
        return min(ages, default=0.0)

    @property
    def size(self) -> int:
        """Bytes on the disks of its hosts and of this machine."""
        if not self.record:
            return sum(part.folder.size for part in self.parts)
        # with --local, the record contains the parts
        remote_size = sum(part.folder.size for part in self.parts if part.host)
        return remote_size + self.record.size

    def _largest(self, field_name: str) -> int:
        """Return the largest number that a host reports in this field of `RunFolder`, at least
        0."""
        return max((getattr(part.folder, field_name) for part in self.parts), default=0)


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
    """Return the runs of these parts by name, and so by time. A folder that several hosts share
    counts once."""
    # The same folder may be seen through several hosts, but only the machine that runs the agent
    # sees that it is live.
    parts_by_run: dict[str, dict[int, HostPart]] = defaultdict(dict)
    for part in parts:
        parts_by_host = parts_by_run[part.folder.run]
        known_part = parts_by_host.setdefault(part.folder.host, part)
        if (part.folder.live, part.folder.here) > (known_part.folder.live, known_part.folder.here):
            parts_by_host[part.folder.host] = part
    return tuple(
        ListedRun(run_name, tuple(part for _, part in sorted(parts_by_host.items())))
        for run_name, parts_by_host in sorted(parts_by_run.items())
    )
