"""What is known of a run: its hosts, its ranks, and what became of it."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from operator import attrgetter

from remote.events import CheckFinished, RemarkMade
from remote.limits import LIMITS, Limits
from remote.plan.plan import Plan
from remote.plan.step_argument import find_step_argument
from remote.run.diagnosis.detector import Detector
from remote.run.diagnosis.divergence import DivergenceDetector
from remote.run.diagnosis.forecast import Forecast
from remote.run.diagnosis.stall_causes import as_death
from remote.run.diagnosis.straggler import StragglerDetector
from remote.run.diagnosis.verdict import Judge
from remote.run.output.run_log import RunLog
from remote.run.series.curves import Curves
from remote.run.series.marks import Marks
from remote.run.series.step_times import NAN, Means, join_means
from remote.run.state.epoch_tally import EpochTally
from remote.run.state.host_state import HostState
from remote.run.state.launcher_state import LauncherState
from remote.run.state.once_per_state import once_per_state
from remote.run.state.phases import RunPhase, Verdict
from remote.run.state.progress import Restart, TrainingProgress
from remote.run.state.rank_state import RankState
from remote.run.state.script_metrics import RunMetrics
from remote.run.state.script_rank import ScriptRank
from remote.run.state.types import Cause, Stall
from training.wire.events import SESSION, Event, Record
from training.wire.host_events import (
    Exited,
    GpuSample,
    OutputText,
    Raised,
    RankSample,
    Spawned,
    Stack,
)

_serves = attrgetter("serves")
_step = attrgetter("step")
PROCESS_EVENTS = frozenset((Spawned, OutputText, RankSample, GpuSample, Stack, Raised, Exited))
"""Events whose `rank` is that of a process which rankboard has started, where these are others than
the ranks. A worker has samples and stacks of its own."""

AGE_TOLERANCE = 60.0
"""Seconds by which the age of the run that a host reports may differ from what follows from the
times of records: no host can spoil it by more."""


class RunState:
    """A run as its records report it. Only `apply_record` changes it, and `hold`.

    All times are by the session's clock.
    """

    def __init__(self, plan: Plan, limits: Limits = LIMITS) -> None:
        self.plan = plan
        self.version = 0
        """The number of records that it has taken in."""
        self.phase = RunPhase.STARTING
        self.verdict: Verdict | None = None
        """How it has ended; None while the run lives. Its `cause` may be known before."""
        self.started = 0.0
        """When it began: the time of the first record, or what hosts report of its age."""
        self.now = 0.0
        """The time of the newest record."""
        self.ended = 0.0
        """When it was over; 0 until its launcher has closed."""
        self.first_record_at = 0.0
        """The earliest time of a record."""
        self.saw_start = False
        """The launcher that began the run has recorded it here."""
        self.is_held = False
        """The time stands still at `now`, as in a replay, or if nobody records the run."""
        self.seq = 0
        """The number of the newest record of a launcher."""
        self.hosts = [HostState(index, host.name) for index, host in enumerate(plan.hosts)]
        make_rank = RankState if plan.job else ScriptRank
        self.ranks = [make_rank(slot.rank, slot.local_rank, slot.host) for slot in plan.slots]
        """The ranks of this attempt, by number: those that train."""
        self.processes = self.ranks
        """The ranks that rankboard has started. They are other ones than `ranks` where a script
        starts workers itself, see `remote.run.workers`."""
        self.former_workers: list[RankState] = []
        """The workers of the attempt before."""
        self.all_ranks = [*self.ranks]
        """Those as well that are not part of this attempt, as they were last."""
        self.launcher = LauncherState(plan.policy, hosts=tuple(range(len(plan.hosts))))
        """How far launchers have come with it."""
        step_argument = find_step_argument(plan.script.words) if plan.script else None
        self.progress = TrainingProgress(argument_steps=step_argument.steps if step_argument else 0)
        """How far its training has come."""
        self.judge = Judge(plan, limits, self.hosts, self.ranks)
        self.stragglers = StragglerDetector(
            self.hosts, self.ranks, waits_for_slowest=self.waits_for_slowest
        )
        """Knows which ranks hold it up."""
        self.divergence = DivergenceDetector(self.ranks)
        """Knows whether its loss has risen far above the first one."""
        self.detectors: tuple[Detector, ...] = (self.stragglers, self.divergence)
        """All that have to remember steps: they are told of each step and each restart."""
        self.forecast = Forecast()
        """Knows when it ends."""
        self.log = RunLog(limits, is_job=plan.job is not None)
        self.epoch_tally = EpochTally()
        self.marks = Marks()
        """What happened on the way."""
        self.curves = Curves(len(self.ranks), len(self.hosts))
        """Its series over steps and time."""
        self.metrics = RunMetrics()
        """Values that a script reports by name."""
        self.checks: dict[tuple[int, str], CheckFinished] = {}
        """The latest results of checks, by host (or SESSION) and name."""
        self.stalls: list[Stall] = []
        """The times in which ranks made no steps."""
        self.announced_stalls: dict[str, float] = {}
        """The texts of stalls that the log has, each with the time of its line."""
        self.rendezvous = ""
        """The address and port where ranks meet; "" before it is reserved."""

    # What became of it

    @property
    def attempt(self) -> int:
        """Return the number of the attempt, from 0."""
        return self.launcher.attempt

    @property
    def cause(self) -> Cause | None:
        """Why the run failed, by the evidence so far; it may be set before the verdict."""
        return self.judge.cause

    @property
    def stop_reason(self) -> str:
        """Why the launcher, or an agent by itself, began to stop all ranks; "" if none did."""
        return self.judge.stop_reason

    @property
    def refused(self) -> bool:
        """Return True if the run failed of what no restart can mend."""
        return self.judge.is_refused(diverged=self.progress.diverged is not None)

    @property
    def doing(self) -> str:
        """Return its phase in a word, or that it has come to a halt in it.

        Without a step, nobody knows whether a script trains.
        """
        if self.stall and self.phase in (RunPhase.STARTING, RunPhase.TRAINING):
            return "stalled"
        is_silent = self.phase is RunPhase.TRAINING and self.plan.job is None and not self.step
        return "running" if is_silent else self.phase.value

    @property
    def has_begun(self) -> bool:
        """Return True if the ranks have begun to train, now or before a restart."""
        return self.progress.begun is not None or any(rank.step for rank in self.ranks)

    @property
    def is_under_way(self) -> bool:
        """Return True if the ranks have begun to train, or have been started again."""
        return bool(self.has_begun or self.attempt)

    @property
    def is_settled(self) -> bool:
        """Return True if it has ended, and no host may still have ranks of it."""
        return self.verdict is not None and not self.unconfirmed

    @property
    def unconfirmed(self) -> list[HostState]:
        """Return the hosts of an ended run that have not reported the end of their ranks."""
        if self.verdict not in (Verdict.LOST, Verdict.STOPPED, Verdict.FAILED):
            return []
        # A launcher that has returned may never have heard a host, so nothing is known of that one.
        may_have_ranks = self.launcher.returned or any(host.launched for host in self.hosts)
        return [host for host in self.hosts if (host.hello or may_have_ranks) and not host.ended]

    @property
    def stall(self) -> Stall | None:
        """Return the stall that holds the run up at this moment."""
        newest_stall = self.stalls[-1] if self.stalls else None
        return newest_stall if newest_stall and not newest_stall.over else None

    # How far it is, and how fast

    @property
    def step(self) -> int:
        """Return the smallest step count over the ranks that train.

        In a script, only ranks that report steps count; it is 0 if none does.
        """
        # Asked several times at each tick: `map` looks at a thousand ranks in a third of the time.
        if self.plan.job and not any(map(_serves, self.ranks)):
            return min(map(_step, self.ranks), default=0)
        return min([rank.step for rank in self.ranks if rank.makes_steps], default=0)

    @property
    def elapsed(self) -> float:
        """Return the seconds from the first record to the newest, or to the end."""
        return max(0.0, (self.ended or self.now) - self.started)

    @property
    def training_seconds(self) -> float:
        """Return the seconds of all steps of the slowest rank; evaluations do not count."""
        return max((rank.timing.total for rank in self.ranks), default=0.0)

    @property
    def trains_apart(self) -> bool:
        """Return True if each rank trains a model of its own, as the ranks exchange nothing."""
        ranks = self.script_ranks
        return len(ranks) > 1 and all(rank.is_isolated for rank in ranks)

    @property
    @once_per_state
    def means(self) -> Means:
        """Return the means over all iterations but the first, which warms up."""
        return self.join_means("warm")

    def join_means(self, part: str) -> Means:
        """Return the means of all ranks over a part of their iterations, as in `StepTotals`."""
        means_of_ranks = (getattr(rank.timing, part) for rank in self.ranks)
        return join_means(means_of_ranks, are_apart=self.trains_apart)

    def eta(self, now: float) -> float:
        """Return the seconds that are left at the time `now`; NaN if that is not known."""
        return self.forecast.left(now) if self._comes_to_an_end else NAN

    def eta_between(self, now: float) -> tuple[float, float]:
        """Return the least and the most of that; they are equal unless the pace varies much."""
        return self.forecast.between(now) if self._comes_to_an_end else (NAN, NAN)

    @property
    def _comes_to_an_end(self) -> bool:
        """Return True if the run makes steps, of which the last one is known."""
        stands_still = self.phase is RunPhase.ENDED or self.stall is not None
        return self.progress.steps > 0 and not stands_still

    @cached_property
    def waits_for_slowest(self) -> bool:
        """Return True if all ranks wait for each other, so that one can hold up all."""
        return self.plan.job is None or not self.plan.job.traits().stale

    # Its hosts and ranks

    def host_name(self, index: int) -> str:
        """Return the name of this host; "" for the session."""
        host = self.host(index)
        return host.name if host else ""

    def host(self, index: int) -> HostState | None:
        """Return this host, or None if there is none of this number."""
        return self.hosts[index] if 0 <= index < len(self.hosts) else None

    def rank(self, number: int) -> RankState | None:
        """Return this rank, or None if it is not part of this attempt."""
        return self.ranks[number] if 0 <= number < len(self.ranks) else None

    def rank_of(self, number: int, host: HostState) -> RankState | None:
        """Return this rank, or None if it is not one of the host's."""
        rank = self.rank(number)
        return rank if rank and rank.host == host.index else None

    @property
    def script_ranks(self) -> list[ScriptRank]:
        """Return the ranks of a script; none of a job."""
        if self.plan.job:  # this is asked for every batch of records, and there may be 1,000 ranks
            return []
        return [rank for rank in self.ranks if isinstance(rank, ScriptRank)]

    @property
    def exchanging_ranks(self) -> list[ScriptRank]:
        """Return the ranks of which only collectives are seen."""
        return [rank for rank in self.script_ranks if rank.only_exchanges]

    @property
    def has_workers(self) -> bool:
        """Return True if the ranks are workers that the processes of the run have started."""
        return self.ranks is not self.processes

    def trains(self, rank: RankState) -> bool:
        """Return True if this is one of the ranks, not a process that has started some of them."""
        return self.rank(rank.rank) is rank

    def process_of(self, number: int, host: HostState) -> RankState | None:
        """Return the rank of this number that rankboard started, or None if it is not one of the
        host's."""
        process = self.processes[number] if 0 <= number < len(self.processes) else None
        return process if process and process.host == host.index else None

    def source_of(self, event: Event, host: HostState) -> RankState | None:
        """Return the rank, or the process, of the host that an event is of; None if there is none.

        Agents report of processes, unless they say otherwise; all else is of ranks.
        """
        number = getattr(event, "rank", -1)
        if type(event) in PROCESS_EVENTS and not getattr(event, "worker", False):
            return self.process_of(number, host)
        return self.rank_of(number, host)

    def are_hosts(self, numbers: tuple[int, ...]) -> bool:
        """Return True if these are hosts of the run, each once and in order."""
        is_in_order = sorted({*numbers}) == list(numbers)
        return bool(numbers) and is_in_order and all(map(self.host, numbers))

    def are_ranks(self, numbers: tuple[int, ...]) -> bool:
        """Return True if these are ranks of the attempt."""
        return bool(numbers) and all(map(self.rank, numbers))

    # What changes it

    def hold(self, when: float) -> None:
        """Hold the time of a replay here, up to which nothing more has happened."""
        self.is_held = True
        self.now = max(self.now, when)

    def replace_rank(self, rank: RankState) -> None:
        """Replace a worker that is started again."""
        self.ranks[rank.rank] = rank

    def replace_ranks(self, ranks: list[RankState], when: float) -> None:
        """Replace the ranks by workers that the processes start themselves."""
        self.ranks = ranks
        self.curves.make_room(len(ranks))
        self.judge.workers = ranks
        for detector in self.detectors:
            detector.restart(ranks, when)

    def mark(self, letter: str, step: int, when: float) -> None:
        """Mark what has happened after this step, for charts."""
        self.marks.add(letter, step, when - self.started)

    def replace_stall(self, stall: Stall) -> None:
        """Replace the newest stall, of which more is known or which is over."""
        self.stalls[-1] = stall

    def note(self, host_name: str, text: str, when: float, *, is_minor: bool = False) -> None:
        """Add a remark about a host, or ("") the run to the log; see `RunLog.note`."""
        self.log.note(when, host_name, text, is_minor=is_minor)


def take_age(run: RunState, when: float, age: float) -> None:
    """Take in how old a host says that the run is (0: unknown), if nobody here saw its start."""
    if age and not run.saw_start:
        run.started = min(run.started, max(when - age, run.first_record_at - AGE_TOLERANCE))


def judge_rank(run: RunState, rank: RankState) -> None:
    """Judge the exit of a rank, if it has one."""
    take_stall(run)
    has_stepped = run.progress.begun is not None
    run.judge.judge_rank(rank, has_stepped=has_stepped, has_begun=run.has_begun)


def take_stall(run: RunState) -> None:
    """Have the judge know which rank all others wait for, before any of them has ended.

    A rank whose collective times out breaks because of the rank that it waited for.
    """
    stall = run.stall
    if stall and stall.culprits and run.judge.stall is None:
        run.judge.stall = as_death(stall, run.ranks, run.hosts, stall.text, stall.since)


def restart(
    run: RunState, attempt: int, hosts: tuple[int, ...], reason: str, when: float, *, started: bool
) -> None:
    """Begin another attempt on these hosts; curves and timings go on.

    Curves and marks of steps that are made again stay until a rank reports after which step the
    ranks go on: that is the rewind, see `remote.run.host_records`.
    `reason` is "" if it is not known. `started`: the ranks have been told to start.
    """
    reason_text = f": {reason}" if reason else ""
    run.note("", f"restarted, attempt {attempt + 1}{reason_text}", when)
    run.phase = RunPhase.STARTING
    run.verdict = None
    run.launcher.restart(attempt, hosts, when, started=started)
    run.progress.restarts.append(Restart(when - run.started, reason=reason))
    run.progress.begun = None
    run.forecast = Forecast()
    plan_of_attempt = replace(run.plan, hosts=tuple(run.plan.hosts[index] for index in hosts))
    ranks_before = run.all_ranks
    if run.has_workers:
        run.former_workers = run.ranks
    run.ranks = run.processes = [
        ranks_before[slot.rank].restart(slot.local_rank, hosts[slot.host], when)
        for slot in plan_of_attempt.slots
    ]
    run.all_ranks = [*run.ranks, *ranks_before[len(run.ranks) :]]
    for host in run.hosts:
        host.restart()
        host.left_out |= host.index not in hosts and host.ended is None
    if run.stall:
        run.replace_stall(replace(run.stall, over=when))
    run.judge.restart(run.ranks)
    run.curves.are_apart = False
    for detector in run.detectors:
        detector.restart(run.ranks, when)


def began_here(first: Record) -> bool:
    """Return True if a record that begins with this one is of the launcher that began the run.

    That one says first what a disconnect means for the run, see `remote.session.controller`.
    """
    return isinstance(first.event, RemarkMade) and first.event.host == SESSION
