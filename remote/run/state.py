"""What became of a run: `RunState`, and `apply`, which takes it from one record to the next.

Reads no clock and does no I/O, so that replaying the records of an old run comes to the same state
as watching it live.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from remote.doctor.doctor import WARNING, is_told, refusal
from remote.limits import LIMITS, Limits
from remote.plan.plan import OnNan, OnStall, Plan, Script
from remote.run import agent_end, stall
from remote.run.cause import Cause, Death, Evidence, ended
from remote.run.course import Course, Stage
from remote.run.host import LAST_WORDS, HostState
from remote.run.log import Log, LogLine
from remote.run.phases import (
    FATES,
    HostPhase,
    RankPhase,
    RunPhase,
    Verdict,
)
from remote.run.progress import Diverged, Progress, Restart
from remote.run.rank import RankState
from remote.run.series import NAN, Series, Timing
from remote.run.stall import Stall
from remote.run.verdict import Judge
from remote.sanitise import fit
from training.wire import events
from training.wire.events import SESSION, Event, Record

__all__ = [
    "FATES",
    "Cause",
    "Diverged",
    "HostPhase",
    "HostState",
    "LogLine",
    "RankPhase",
    "RankState",
    "Restart",
    "RunPhase",
    "RunState",
    "Series",
    "Stage",
    "Timing",
    "Verdict",
]

SAMPLE_EVERY = 1.0
"""Seconds between two samples of a host: it died about this long after its last record."""


class RunState:
    """A run as its records tell it. Only `apply` writes it; all times are by the session's clock.

    `started` is the first record's time, `now` the newest's, `ended` 0 until the launcher has
    closed. `verdict` is None while the run lives. `course` is how far launchers have come with it,
    `progress` how far its training has. `checks` are the latest results of checks, by host (or
    SESSION) and name. `rendezvous` is the address and port where ranks meet, "" before it is
    reserved. `stalls` are the times in which ranks made no steps. `seq` is the number of the newest
    record of a launcher.
    """

    def __init__(self, plan: Plan, limits: Limits = LIMITS) -> None:
        self.plan = plan
        self.phase = RunPhase.STARTING
        self.started = self.now = self.ended = 0.0
        self.hosts = [HostState(index, host.name) for index, host in enumerate(plan.hosts)]
        self.ranks = [RankState(slot.rank, slot.local_rank, slot.host) for slot in plan.slots]
        self.course = Course(plan.policy, hosts=tuple(range(len(plan.hosts))))
        self.progress = Progress()
        self.log = Log(limits)
        self.checks: dict[tuple[int, str], events.Checked] = {}
        self.stalls: list[Stall] = []
        self.rendezvous = ""
        self.verdict: Verdict | None = None
        self.seq = 0
        self._judge = Judge(plan, limits, self.hosts, self.ranks)

    @property
    def attempt(self) -> int:
        """The number of the attempt, from 0."""
        return self.course.attempt

    @property
    def cause(self) -> Cause | None:
        """What the run failed of, by the evidence so far."""
        return self._judge.cause

    @property
    def stop_reason(self) -> str:
        """Why the launcher, or an agent by itself, began to stop all ranks; "" where none did."""
        return self._judge.stop_reason

    @property
    def refused(self) -> bool:
        """Whether the run failed of what no restart can mend."""
        return self._judge.is_refused(diverged=self.progress.diverged is not None)

    @property
    def has_begun(self) -> bool:
        """Whether the ranks have begun to train, now or before a restart."""
        return self.progress.begun is not None or any(rank.step for rank in self.ranks)

    @property
    def step(self) -> int:
        """Steps that all ranks that train have made."""
        return min((rank.step for rank in self.ranks if not rank.serves), default=0)

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

    @property
    def eta(self) -> float:
        """Seconds left by the pace of the rank that is furthest behind; NaN where that is not
        known."""
        training = [rank for rank in self.ranks if rank.step and rank.phase not in FATES]
        if not training or not self.progress.steps:
            return NAN
        last = min(training, key=lambda rank: rank.step)
        return max(0, self.progress.steps - last.step) * last.pace

    def host_name(self, index: int) -> str:
        """The name of host number `index`; "" for the session."""
        return self.hosts[index].name if 0 <= index < len(self.hosts) else ""

    def apply(self, record: Record) -> None:
        """Take in the next record, expanded (see `training.wire.events.expand`). A record that fits
        nothing changes nothing."""
        record = fit(record)
        host = self._host(record.host)
        if host:
            host.seq = max(host.seq, record.seq)
            when = max(record.time - host.offset, host.began)
        else:
            self.seq = max(self.seq, record.seq)
            when = record.time
        if isinstance(record.event, events.Hello):
            if host:  # its clock is known just after this
                host.hello, host.began = record.event, record.time - host.offset
            return
        self.now = max(self.now, when)
        # A launcher that returns speaks before the hosts tell of the start.
        self.started = min(self.started or when, when)
        if host is None:
            self._apply_session(record, when)
            return
        host.hear(when, self.now, stall.FRESH)
        self._apply_host(record, host, when)

    def _host(self, index: int) -> HostState | None:
        return self.hosts[index] if 0 <= index < len(self.hosts) else None

    def _rank(self, index: int, host: HostState) -> RankState | None:
        """The rank, where it is one of the host's."""
        rank = self.ranks[index] if 0 <= index < len(self.ranks) else None
        return rank if rank and rank.host == host.index else None

    # What hosts say of themselves and of their ranks ----------------------------------------------

    def _apply_host(self, record: Record, host: HostState, when: float) -> None:
        rank = self._rank(getattr(record.event, "rank", -1), host)
        if isinstance(record.event, events.Text):
            self._print(record.event, host, rank, when)
        elif rank is None:
            self._apply_agent(record, host, when)
        elif record.attempt >= self.attempt:
            self.course.attempt = record.attempt
            self._apply_rank(record.event, host, rank, when)
        if isinstance(record.event, events.Exited) and record.attempt >= self.attempt:
            host.apply(record.event, record.attempt, self.attempt)

    def _print(
        self, text: events.Text, host: HostState, rank: RankState | None, when: float
    ) -> None:
        number = rank.rank if rank else -1
        lines = self.log.add(when, host.name, number, text.stream, text.text)
        if text.stream != "stderr":
            return
        (rank or host).tail.extend(lines[-LAST_WORDS:])
        if rank and rank.exited:  # words that came after the exit may change what it means
            self._judge_rank(rank)

    def _judge_rank(self, rank: RankState) -> None:
        has_stepped = self.progress.begun is not None
        self._judge.judge_rank(rank, has_stepped=has_stepped, has_begun=self.has_begun)

    def _apply_rank(self, event: Event, host: HostState, rank: RankState, when: float) -> None:
        rank.apply(event, when, when - self.started)
        match event:
            case events.Step():
                if not self.progress.diverged and not math.isfinite(event.loss):
                    self._diverge(Diverged(rank.rank, event.step, event.loss), host, when)
                self._look_at_stall(when)
            case events.Stack() if self.stall:
                self.stalls[-1] = stall.explained(self, self.stall)
            case events.Entered():
                self._enter(rank, RankPhase(event.phase), when)
            case events.Started():
                self.progress.start(event)
                self._enter(rank, RankPhase.TRAINING, when)
            case events.Evaluated() if rank.rank == 0:
                self.progress.evaluate(event)
            case events.Drifted() if self.progress.compare(event):
                what = f"after step {event.step} the ranks' models differ {event.extent}"
                self._note("", f"drift: {what}", when)
            case events.Saved() if rank.local_rank == 0:
                host.saved_step = event.step
            case events.Finished():
                self._look_at_stall(when)
            case events.Spawned() if isinstance(self.plan.work, Script):  # tells no phases
                self._enter(rank, RankPhase.TRAINING, when)
            case events.Exited():
                self._judge_rank(rank)

    def _enter(self, rank: RankState, phase: RankPhase, when: float) -> None:
        if not rank.go_on(phase, when):
            return
        self._look_at_stall(when)
        if phase is RankPhase.TRAINING and self.phase is RunPhase.STARTING:
            self.phase = RunPhase.TRAINING

    def _diverge(self, found: Diverged, host: HostState, when: float) -> None:
        """The loss is no finite number any more, which every later step of all ranks may follow."""
        self.progress.diverged = found
        if self.plan.policy.on_nan is OnNan.STOP:
            what, advice = f"loss is {found.what}", "lower --lr"
            death = Death(
                host.name, found.rank, when, Evidence.OWN, what, found.step, advice=advice
            )
            self._judge.refuse(death)
        else:
            advice = "Lower --lr, or stop such runs with --on-nan stop"
            self._note("", f"{found.text}; training continues. {advice}", when)

    def _look_at_stall(self, when: float) -> None:
        """Whether all ranks have gone on."""
        if self.stall and not any(rank.stalled and not rank.finished for rank in self.ranks):
            self.stalls[-1] = replace(self.stall, over=when)
            seconds = when - self.stalls[-1].since
            self._note("", f"the ranks go on, after a stall of {seconds:.0f} s", when)

    def _apply_agent(self, record: Record, host: HostState, when: float) -> None:
        """What an agent says of its host."""
        match record.event:
            case events.Launched(ranks, hosts):
                self._launch(record, host, hosts, when)
                for rank in (self._rank(index, host) for index in ranks):
                    if rank:
                        self._enter(rank, RankPhase.IMPORTING, when)
            case events.Reserved(_, _, error) if error:
                self._note(host.name, error, when)
            case events.Reserved(address, port) if host is self._master:
                self.rendezvous = f"{address}:{port}"
            case events.Dropped(first, last):
                host.dropped = True
                what = "were dropped: the journal on the host was full"
                self._note(host.name, f"records {first} to {last} {what}", when)
            case events.StopHeard(by_person=True) if self._is_current(record):
                self._judge.hear_stop(when)
                host.stop_heard = True
            case events.Ended():
                self._end_agent(record.event, host, when)
        host.apply(record.event, record.attempt, self.attempt)

    @property
    def _master(self) -> HostState | None:
        return next((host for host in self.hosts if not host.gone), None)

    def _is_current(self, record: Record) -> bool:
        return record.attempt == self.attempt or self.phase is RunPhase.STARTING

    def _launch(self, record: Record, host: HostState, hosts: tuple[int, ...], when: float) -> None:
        """Ranks are started on a host, perhaps by a launcher of which nothing is recorded here."""
        if record.attempt > self.attempt and self._are_hosts(hosts):
            why = f"so {host.name} tells, where its launcher was heard"
            self._restart(record.attempt, hosts, why, when, started=True)
        elif record.attempt >= self.attempt:
            self.course.launch(record.attempt)

    def _end_agent(self, event: events.Ended, host: HostState, when: float) -> None:
        host.reason = agent_end.describe(event)
        if host.phase is not HostPhase.LOST:
            host.enter(HostPhase.ENDED, when)
        if event.died:
            folder = host.hello.folder if host.hello else ""
            what, advice = ended(event, host.name, folder)
            self._judge.judge_host(host, what, when, advice=advice)
        elif event.reason in agent_end.STOPPED:
            self._judge.stop_reason = self._judge.stop_reason or agent_end.why(event)
            if host.parted:  # others still had theirs
                what = "the connection to it was lost for too long, so it stopped its ranks"
                self._judge.judge_host(host, what, when)

    # What launchers say ---------------------------------------------------------------------------

    def _apply_session(self, record: Record, when: float) -> None:
        event = record.event
        if isinstance(event, events.Preparing) and not self._are_hosts(event.hosts):
            return
        host = self._host(getattr(event, "on", SESSION))
        if host:
            self._apply_on_host(event, host, when)
        match event:
            case events.Said() if not host:
                self._note("", event.text, when)
            case events.StallExplained(text):
                self._note("", text, when)
                if self.stall:
                    self.stalls[-1] = replace(self.stall, explained=True)
            case events.Checked():
                self._check(event, when)
            case events.Detached():
                self._note("", self._detached_text, when)
            case events.Attached():
                self._attach()
            case events.Starting():
                self._start()
            case events.Restarted(hosts, reason) if self._are_hosts(hosts):
                self._restart(record.attempt, hosts, reason, when, started=False)
            case events.Stalled() if self._are_ranks(event.ranks):
                self._begin_stall(event, when)
            case events.Refused(on, reason):
                self._refuse(self.host_name(on), reason, when)
            case events.Stopping():
                self._stop(event, when)
            case events.Closed():
                self.phase, self.ended = RunPhase.ENDED, self.now
                self.verdict = self._judge.close()
        self.course.apply(event, when)

    def _apply_on_host(self, event: Event, host: HostState, when: float) -> None:
        """What a launcher says of a host."""
        match event:
            case events.Reaching(_, phase):
                host.enter(HostPhase(phase), when)
            case events.Clock(_, offset):
                if not host.heard:  # but for its Hello, which came before its clock was known
                    host.began += host.offset - offset
                host.offset = offset
            case events.Said(_, text):
                self._note(host.name, text, when)
            case events.Silent(_, seconds):
                host.missed = True
                host.enter(HostPhase.SILENT, when)
                self._note(host.name, f"silent for {seconds:.0f} s", when)
            case events.Parted(_, reason):
                host.parted = True
                self._note(host.name, f"{reason}; connecting again", when)
            case events.Refused(_, reason):
                host.reason = reason
            case events.Lost():
                self._lose(event, host, when)

    def _lose(self, event: events.Lost, host: HostState, when: float) -> None:
        host.enter(HostPhase.LOST, when)
        host.reason, host.lost = event.reason, True
        host.running.clear()
        self._note(host.name, event.reason, when)
        died, what = when, event.reason
        if event.reached:
            died = host.heard + SAMPLE_EVERY if host.heard else when
            what = f"host lost: {event.reason.removeprefix(f'{host.name}: ')}"
        unfit = event.unfit and not self._is_under_way
        self._judge.judge_host(host, what, died, refused=unfit)

    @property
    def _is_under_way(self) -> bool:
        return bool(self.has_begun or self.attempt)

    def _refuse(self, host: str, reason: str, when: float) -> None:
        self._note(host, reason, when)
        refused = not self._is_under_way
        self._judge.refuse(Death(host, -1, when, Evidence.KILLED, reason, refused=refused))

    def _check(self, check: events.Checked, when: float) -> None:
        self.checks[check.on, check.check] = check
        if check.outcome == WARNING and is_told(check):
            told = replace(check, text=f"{check.check}: {check.text}")
            self._note("", refusal([host.name for host in self.hosts], told), when)

    @property
    def _detached_text(self) -> str:
        policy = self.plan.policy
        stops = policy.on_stall is not OnStall.REPORT or policy.on_nan is OnNan.STOP
        waits = "stalls and failures wait for the next rankboard attach"
        more = f"; {waits}" if policy.max_restarts or stops else ""
        return f"detached: the run goes on without its launcher{more}"

    def _attach(self) -> None:
        """Another launcher has to find out for itself which hosts there are."""
        self.ended = 0.0
        for host in self.hosts:
            host.lost = False

    def _start(self) -> None:
        """The hosts of the attempt have been told to start its ranks."""
        for index in self.course.hosts:
            self.hosts[index].launched = True
        for rank in self.ranks:
            self.hosts[rank.host].running.add(rank.rank)

    def _begin_stall(self, event: events.Stalled, when: float) -> None:
        """These ranks, and perhaps some that were named before, have come to a halt."""
        for index in event.ranks:
            self.ranks[index].stalled = True
        if self.stall:
            self.stalls.pop()
        self.stalls.append(stall.explained(self, stall.begin(self, event, when)))
        self._note("", f"stalled: {self.stalls[-1].text}", when)

    def _are_ranks(self, numbers: Sequence[int]) -> bool:
        return bool(numbers) and all(0 <= rank < len(self.ranks) for rank in numbers)

    def _are_hosts(self, numbers: Sequence[int]) -> bool:
        return (
            bool(numbers) and sorted({*numbers}) == list(numbers) and all(map(self._host, numbers))
        )

    def _stop(self, event: events.Stopping, when: float) -> None:
        if event.reason != self.stop_reason:
            self._note("", event.reason, when)
        if self.phase is not RunPhase.ENDED:
            self.phase = RunPhase.STOPPING
        death = stall.death(self, event.reason, when)
        self._judge.stop(event.reason, event.by_person, when, death)

    def _restart(
        self, attempt: int, hosts: tuple[int, ...], reason: str, when: float, *, started: bool
    ) -> None:
        """All ranks begin again on these hosts. Curves and timings go on."""
        self._note("", f"started again, attempt {attempt + 1}: {reason}", when)
        self.phase = RunPhase.STARTING
        self.course.begin(attempt, hosts, when, started=started)
        self.progress.restarts.append(Restart(when - self.started))
        self.progress.begun = None
        slots = replace(self.plan, hosts=tuple(self.plan.hosts[index] for index in hosts)).slots
        self.ranks = [
            self.ranks[slot.rank].again(slot.local_rank, hosts[slot.host], when) for slot in slots
        ]
        for host in self.hosts:
            host.begin()
            host.left_out |= host.index not in hosts and host.ended is None
        if self.stall:
            self.stalls[-1] = replace(self.stall, over=when)
        self._judge.begin(self.ranks)

    def _note(self, host: str, text: str, when: float) -> None:
        self.log.note(when, host, text)
