"""What is known of a run: its hosts, its ranks, and what became of it."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property

from remote import events as launcher
from remote.limits import LIMITS, Limits
from remote.plan.plan import Plan
from remote.run.diagnosis.forecast import Forecast
from remote.run.diagnosis.straggler import Watch
from remote.run.diagnosis.verdict import Judge
from remote.run.output.run_log import Log
from remote.run.series.curves import Curves
from remote.run.series.marks import Marks
from remote.run.series.timing import NAN, Means, joined
from remote.run.state.host_state import HostState
from remote.run.state.launcher_state import Course
from remote.run.state.phases import FATES, RunPhase, Verdict
from remote.run.state.progress import Progress, Restart
from remote.run.state.rank_state import RankState
from remote.run.state.script_metrics import MOST, Metrics
from remote.run.state.script_rank import ScriptRank
from remote.run.state.types import Cause, Stall
from training.wire import events
from training.wire.events import SESSION, Record

BELIEVED = 60.0
"""Seconds by which the age of the run that a host tells may differ from what follows from the times
of records, and is believed: no host can spoil it by more."""


class RunState:
    """A run as its records tell it. All times are by the session's clock.

    `started` is the first record's time, `now` the newest's, `ended` 0 until the launcher has
    closed, then when it was over. `verdict` is None while the run lives. `course` is how far
    launchers have come with it, `progress` how far its training has, `watch` knows which ranks hold
    it up, `forecast` when it ends; `curves` are its series, `metrics` what a user's own program
    tells, `marks` what happened on the way. `checks` are the latest results of checks, by host (or
    SESSION) and name. `rendezvous` is the address and port where ranks meet, "" before it is
    reserved. `stalls` are the times in which ranks made no steps. `seq` is the number of the newest
    record of a launcher. `saw_start`: the launcher that began the run has recorded it here.
    `is_held`: the time stands still at `now`, as in a replay, or where nobody
    records the run.
    """

    def __init__(self, plan: Plan, limits: Limits = LIMITS) -> None:
        self.plan = plan
        self.phase = RunPhase.STARTING
        self.started = self.now = self.ended = 0.0
        self.hosts = [HostState(index, host.name) for index, host in enumerate(plan.hosts)]
        rank = RankState if plan.job else ScriptRank
        self.ranks = [rank(slot.rank, slot.local_rank, slot.host) for slot in plan.slots]
        self._all_ranks = [*self.ranks]
        """Also those that are not part of this attempt, as they were last."""
        self.course = Course(plan.policy, hosts=tuple(range(len(plan.hosts))))
        self.progress = Progress()
        self.watch, self.forecast = Watch(), Forecast()
        self.log = Log(limits, own=plan.job is not None)
        self.marks = Marks()
        self.curves = Curves(len(self.ranks), len(self.hosts))
        self.metrics = Metrics()
        self.checks: dict[tuple[int, str], launcher.Checked] = {}
        self.stalls: list[Stall] = []
        self.rendezvous = ""
        self.verdict: Verdict | None = None
        self.seq = 0
        self.first_record_at = 0.0  # the earliest record's time
        self.saw_start = self.is_held = False
        self.judge = Judge(plan, limits, self.hosts, self.ranks)

    @property
    def attempt(self) -> int:
        """The number of the attempt, from 0."""
        return self.course.attempt

    @property
    def cause(self) -> Cause | None:
        """What the run failed of, by the evidence so far."""
        return self.judge.cause

    @property
    def stop_reason(self) -> str:
        """Why the launcher, or an agent by itself, began to stop all ranks; "" where none did."""
        return self.judge.stop_reason

    @property
    def refused(self) -> bool:
        """Whether the run failed of what no restart can mend."""
        return self.judge.is_refused(diverged=self.progress.diverged is not None)

    @property
    def doing(self) -> str:
        """Its phase. Without a step, nobody knows whether a user's own program trains."""
        is_silent = self.phase is RunPhase.TRAINING and self.plan.job is None and not self.step
        return "running" if is_silent else self.phase.value

    @property
    def has_begun(self) -> bool:
        """Whether the ranks have begun to train, now or before a restart."""
        return self.progress.begun is not None or any(rank.step for rank in self.ranks)

    @property
    def is_settled(self) -> bool:
        """Whether it has ended, and nothing of it is left on hosts that is to be ended."""
        return self.verdict is not None and not self.unconfirmed

    @property
    def unconfirmed(self) -> list[HostState]:
        """The hosts that may still have ranks of a run that has ended: they have not told that they
        have ended theirs."""
        if self.verdict not in (Verdict.LOST, Verdict.STOPPED, Verdict.FAILED):
            return []
        # Of a host that a launcher which has returned never heard, nothing is known.
        begun = self.course.returned or any(host.launched for host in self.hosts)
        return [host for host in self.hosts if (host.hello or begun) and not host.ended]

    @property
    def step(self) -> int:
        """Steps that all ranks have made that make some; those of a user's own program: that tell
        some."""
        return min((rank.step for rank in self.ranks if rank.makes_steps), default=0)

    @property
    def training_seconds(self) -> float:
        """Seconds that the slowest rank's steps took: without start-up, evaluations and
        checkpoints."""
        return max((rank.timing.total for rank in self.ranks), default=0.0)

    @property
    def stall(self) -> Stall | None:
        """The stall that holds the run up at this moment."""
        return self.stalls[-1] if self.stalls and not self.stalls[-1].over else None

    @property
    def elapsed(self) -> float:
        """Seconds from the first record to the newest, or to the end."""
        return max(0.0, (self.ended or self.now) - self.started)

    def date(self, when: float, age: float) -> None:
        """Take in how old a host says that the run is (0: not known), where nobody here knows."""
        if age and not self.saw_start:
            self.started = min(self.started, max(when - age, self.first_record_at - BELIEVED))

    def hold(self, when: float) -> None:
        """Of a replay: nothing has happened until this time, at which it is held."""
        self.is_held = True
        self.now = max(self.now, when)

    def eta(self, now: float) -> float:
        """Seconds that are left at the time `now`; NaN where that is not known."""
        return NAN if self._stands_still else self.forecast.left(now)

    def eta_between(self, now: float) -> tuple[float, float]:
        """The least and the most of that; equal unless the pace varies much."""
        return (NAN, NAN) if self._stands_still else self.forecast.between(now)

    @property
    def _stands_still(self) -> bool:
        return self.phase is RunPhase.ENDED or self.stall is not None

    @property
    def step_seconds(self) -> float:
        """Mean seconds of the last steps of the slowest rank; NaN before the first."""
        return max((rank.pace.mean("seconds") for rank in self.ranks if rank.pace), default=NAN)

    @property
    def sync_share(self) -> float:
        """The mean over ranks of the share of the last steps that they were blocked on others; NaN
        before the first, and where a user's own program does not tell."""
        shares = [rank.pace.per_second("sync") for rank in self.ranks if rank.pace]
        return self._told(sum(shares) / len(shares)) if shares else NAN

    @property
    def throughput(self) -> float:
        """Samples per second of all ranks, by their last steps; NaN before the first, and where a
        user's own program does not tell."""
        return self._added("samples")

    @property
    def bytes_per_second(self) -> float:
        """Bytes that the sync method of all ranks passes to the network in a second, by their last
        steps; NaN before the first."""
        return self._added("bytes_sent")

    @property
    def means(self) -> Means:
        """Means over all iterations but the first, which warms up."""
        return joined(rank.timing.warm for rank in self.ranks)

    def _added(self, figure: str) -> float:
        rates = [rank.pace.per_second(figure) for rank in self.ranks if rank.pace]
        return self._told(sum(rates)) if rates else NAN

    def _told(self, value: float) -> float:
        """A figure of steps. Those of a user's own program have 0 where it is not known."""
        return value or NAN if self.plan.job is None else value

    @cached_property
    def waits_for_slowest(self) -> bool:
        """Whether all ranks wait for each other, so that one can hold up all."""
        return self.plan.job is None or not self.plan.job.traits().stale

    def foresee(self, rank: RankState) -> bool:
        """Where the first rank that trains has gone on, renew the forecast. Returns whether it was
        that one."""
        for first in self.ranks:
            if first.pace and first.phase not in FATES:
                break
        else:
            return False
        if rank is not first:
            return False
        self.forecast.update(rank, self.ranks, self.progress, self.plan)
        return True

    def stepped(self, rank: RankState, when: float) -> None:
        """A rank has made a step. At those of the first one that trains, look how fast all are."""
        if not self.foresee(rank):
            return
        if self.waits_for_slowest and self.watch.is_due(rank.step):
            for text in self.watch.look(self.ranks, self.hosts, rank.step, when):
                self.note("", text, when)

    def known(
        self, event: events.ScriptMetrics, rank: RankState, when: float
    ) -> events.ScriptMetrics:
        """Take in values of a rank. Returns those that are kept."""
        first = not self.metrics.beyond
        event = self.metrics.take(event, rank.step)
        if first and self.metrics.beyond:
            name = min(self.metrics.beyond)
            more = f"others, such as {name}, are counted but not kept"
            self.note("", f"the run has {MOST} metrics, the limit; {more}", when)
        return event

    def host_name(self, index: int) -> str:
        """The name of host number `index`; "" for the session."""
        return self.hosts[index].name if 0 <= index < len(self.hosts) else ""

    def host(self, index: int) -> HostState | None:
        """Host number `index`, where there is one."""
        return self.hosts[index] if 0 <= index < len(self.hosts) else None

    def rank(self, number: int) -> RankState | None:
        """Rank number `number`, where it is part of this attempt: one on fewer hosts has fewer."""
        return self.ranks[number] if 0 <= number < len(self.ranks) else None

    def rank_of(self, index: int, host: HostState) -> RankState | None:
        """Rank number `index`, where it is one of the host's."""
        rank = self.rank(index)
        return rank if rank and rank.host == host.index else None

    @property
    def is_under_way(self) -> bool:
        """Whether the ranks have begun to train, or have been started again."""
        return bool(self.has_begun or self.attempt)

    def are_hosts(self, numbers: tuple[int, ...]) -> bool:
        """Whether these are hosts of the run, each once and in order."""
        in_order = bool(numbers) and sorted({*numbers}) == list(numbers)
        return in_order and all(map(self.host, numbers))

    def are_ranks(self, numbers: tuple[int, ...]) -> bool:
        """Whether these are ranks of the run."""
        return bool(numbers) and all(map(self.rank, numbers))

    def note(self, host: str, text: str, when: float) -> None:
        """Add narration about a host, or ("") the run."""
        self.log.note(when, host, text)

    def judge_rank(self, rank: RankState) -> None:
        """Judge the exit of a rank, where it has one."""
        has_stepped = self.progress.begun is not None
        self.judge.judge_rank(rank, has_stepped=has_stepped, has_begun=self.has_begun)

    def restart(
        self, attempt: int, hosts: tuple[int, ...], reason: str, when: float, *, started: bool
    ) -> None:
        """All ranks begin again on these hosts. Curves and timings go on. `reason` is "" where it
        is not known."""
        why = f": {reason}" if reason else ""
        self.note("", f"restarted, attempt {attempt + 1}{why}", when)
        self.phase = RunPhase.STARTING
        self.verdict = None
        self.course.begin(attempt, hosts, when, started=started)
        self.progress.restarts.append(Restart(when - self.started, reason=reason))
        self.watch.restart(when)
        self.forecast = Forecast()
        self.progress.begun = None
        slots = replace(self.plan, hosts=tuple(self.plan.hosts[index] for index in hosts)).slots
        before = self._all_ranks
        self.ranks = [
            before[slot.rank].again(slot.local_rank, hosts[slot.host], when) for slot in slots
        ]
        self._all_ranks = [*self.ranks, *before[len(self.ranks) :]]
        for host in self.hosts:
            host.begin()
            host.left_out |= host.index not in hosts and host.ended is None
        if self.stall:
            self.stalls[-1] = replace(self.stall, over=when)
        self.judge.begin(self.ranks)


def began_here(first: Record) -> bool:
    """Return whether a record that begins with this one is of the launcher that began the run: it
    says first what a disconnect means for the run, see `remote.session.controller`."""
    return isinstance(first.event, launcher.Said) and first.event.on == SESSION
