"""What became of a run: `RunState`, and `apply`, which takes it from one record to the next.

Reads no clock and does no I/O, so that replaying the records of an old run comes to the same state
as watching it live.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import replace

from remote.doctor.doctor import WARNING, is_told, refusal
from remote.limits import LIMITS, Limits
from remote.plan.plan import OnNan, OnStall, Plan, Script
from remote.run import agent_end, stall, verdict
from remote.run import cause as causes
from remote.run.cause import Cause, Death, Evidence
from remote.run.last_words import last_words
from remote.run.ranks import (
    FATES,
    LAST_WORDS,
    Diverged,
    HostPhase,
    HostState,
    LogLine,
    RankPhase,
    RankState,
    Restart,
    RunPhase,
    Verdict,
)
from remote.run.series import NAN, Series, Timing
from remote.run.stall import Stall
from remote.sanitise import fit, shortened
from training.job import Job
from training.wire import events
from training.wire.events import Event, Hello, Record

__all__ = [
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
    "Timing",
    "Verdict",
]

LOG_LINES = 20_000
"""Lines of the run that stay in memory; the run directory has all."""
SAMPLE_EVERY = 1.0
"""Seconds between two samples of a host: it died about this long after its last record."""
USAGE = 2
"""The exit code by which our own ranks refuse a job, its data or its checkpoint; a user's script
may mean anything by it."""
REACHING_AGAIN = (HostPhase.CONNECTING, HostPhase.DEPLOYING, HostPhase.STARTING)
"""Phases of a host that has told its facts and to which another connection is being made."""
DURING = {
    RankPhase.LOADING: "loading its data",
    RankPhase.RENDEZVOUS: "reaching the rendezvous",
    RankPhase.JOINING: "joining the others",
}
"""What a rank was at that ended before its first step."""


class RunState:
    """A run as its records tell it. Only `apply` writes it; all times are by the session's clock.

    `started` is the first record's time, `now` the newest's, `ended` 0 until the session has
    closed. `verdict` is None while the run lives; `cause` what the evidence so far says. `log` has
    the last lines, `log_count` how many there were; `notes` the narration among them; `checks` the
    latest word of each check, by host (or SESSION) and name. `begun` is the first rank's word on
    the size of the work, None before. `rendezvous` is the address and port where ranks meet, ""
    before it is reserved. `stop_reason` is why the session, or an agent by itself, began to stop
    all ranks, "" where none did. `evaluations` are rank 0's, the last one with its confusion
    matrix; `drift` is the first comparison that found the ranks' models to differ, and
    `largest_drift` the one that found them to differ most; `diverged` is the first loss that was no
    finite number; `stalls` are the times in which ranks made no steps, `restarts` tell when the run
    was started again. `detached`: its launcher has left it.
    """

    def __init__(self, plan: Plan, limits: Limits = LIMITS) -> None:
        self.plan, self._limits = plan, limits
        self.phase = RunPhase.STARTING
        self.started = self.now = self.ended = 0.0
        self.attempt = 0
        self.hosts = [HostState(index, host.name) for index, host in enumerate(plan.hosts)]
        self.ranks = [RankState(slot.rank, slot.local_rank, slot.host) for slot in plan.slots]
        self.log: deque[LogLine] = deque(maxlen=LOG_LINES)
        self.log_count = 0
        self.notes: deque[LogLine] = deque(maxlen=1_000)
        self.checks: dict[tuple[int, str], events.Checked] = {}
        self.verdict: Verdict | None = None
        self.cause: Cause | None = None
        self.begun: events.Started | None = None
        self.rendezvous = ""
        self.stop_reason = ""
        self.evaluations: list[events.Evaluated] = []
        self.drift: events.Drifted | None = None
        self.largest_drift: events.Drifted | None = None
        self.diverged: Diverged | None = None
        self.restarts: list[Restart] = []
        self.detached = False
        self.stalls: list[Stall] = []
        self._refusal: Death | None = None
        self._stopping = float("inf")  # when
        self._by_person = False
        self._person_stop = float("inf")  # when the first host heard of a person's stop
        self._kept: deque[tuple[int, int]] = (
            deque()
        )  # of what `log` holds: the number after a part of it, and its bytes
        self._kept_size = 0

    @property
    def total_steps(self) -> int:
        """Steps of the whole run; 0 before it is known."""
        return self.begun.steps if self.begun else 0

    @property
    def has_begun(self) -> bool:
        """Whether the ranks have begun to train, now or before a restart."""
        return self.begun is not None or any(rank.step for rank in self.ranks)

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
    def epochs(self) -> int:
        """Epochs of the whole run, one begun counted whole; 0 before it is known."""
        return (
            -(-self.begun.steps // self.begun.steps_per_epoch)
            if self.begun and self.begun.steps_per_epoch > 0
            else 0
        )

    @property
    def elapsed(self) -> float:
        """Seconds from the first record to the newest, or to the end."""
        return max(0.0, (self.ended or self.now) - self.started)

    @property
    def eta(self) -> float:
        """Seconds left by the pace of the rank that is furthest behind; NaN where that is not
        known."""
        training = [rank for rank in self.ranks if rank.step and rank.phase not in FATES]
        if not training or not self.total_steps:
            return NAN
        last = min(training, key=lambda rank: rank.step)
        return max(0, self.total_steps - last.step) * last.pace

    def host_name(self, index: int) -> str:
        """The name of host number `index`; "" for the session."""
        return self.hosts[index].name if 0 <= index < len(self.hosts) else ""

    def apply(self, record: Record) -> None:
        """Take in the next record, expanded (see `training.wire.events.expand`). A record that fits
        nothing changes nothing."""
        record = fit(record)
        host = self._host(record.host)
        when = max(record.time - host.offset, host.began) if host else record.time
        # A host's clock is known just after its Hello.
        if isinstance(record.event, Hello):
            if host:
                self._met(host, record)
            return
        self.now = max(self.now, when)
        self.started = min(
            self.started or when, when
        )  # who comes back to a run speaks before its hosts tell of its start
        if host is None:
            self._session_said(record, when)
            return
        if host.missed or (host.heard and when - host.heard > stall.FRESH):
            host.back, host.missed = (
                self.now,
                False,
            )  # its agent may have told it long before it could be heard
        host.heard = max(host.heard, when)
        if host.phase is HostPhase.SILENT or (
            host.hello and host.phase in REACHING_AGAIN
        ):  # also while another way is sought
            host.enter(HostPhase.READY, when)
        rank = self._rank(getattr(record.event, "rank", -1), host)
        if isinstance(record.event, events.Text):
            self._text(record.event, host, rank, when)
        elif rank is None:
            self._host_said(record, host, when)
        elif record.attempt >= self.attempt:
            self.attempt = record.attempt
            self._rank_said(record.event, rank, when)

    def _met(self, host: HostState, hello: Record) -> None:
        """Take in the facts of a host."""
        if isinstance(hello.event, Hello):
            host.hello, host.began = hello.event, hello.time - host.offset

    def _host(self, index: int) -> HostState | None:
        return self.hosts[index] if 0 <= index < len(self.hosts) else None

    def _rank(self, index: int, host: HostState) -> RankState | None:
        """The rank, where it is one of the host's."""
        rank = self.ranks[index] if 0 <= index < len(self.ranks) else None
        return rank if rank and rank.host == host.index else None

    # What ranks and their agent say of them -------------------------------------------------------

    def _rank_said(self, event: Event, rank: RankState, when: float) -> None:
        match event:
            case events.Step():
                rank.stepped(event)
                if not self.diverged and not math.isfinite(event.loss):
                    self._diverge(Diverged(rank.rank, event.step, event.loss), rank, when)
                rank.stepped_at, rank.stalled = when, False
                self._look_at_stall(when)
            case events.Stack():
                rank.stack, rank.stack_time = event, when
                if self.stall:
                    self.stalls[-1] = stall.explained(self, self.stall)
            case events.RankSample():
                rank.cpu, rank.memory = event.cpu, event.memory
                rank.cpu_series.append(when - self.started, event.cpu)
            case events.Entered():
                self._enter(rank, RankPhase(event.phase), when)
            case events.Started():
                rank.begun, rank.pid = event, event.pid
                if not self.begun:
                    self.begun = event
                    if (
                        self.diverged and event.resumed < self.diverged.step
                    ):  # the steps from there on are made anew
                        self.diverged = None
                    self.restarts[-1:] = [
                        replace(restart, step=event.resumed) for restart in self.restarts[-1:]
                    ]
                self._enter(rank, RankPhase.TRAINING, when)
            case events.Evaluated():
                rank.tested(event)
                self._evaluated(event)
            case events.Epoch():
                rank.ended(event)
            case events.Drifted():
                self._drifted(event, when)
            case events.Saved():
                rank.keep(event)
                if rank.local_rank == 0:
                    self.hosts[rank.host].saved_step = event.step
            case events.Finished():
                rank.finished = True
                self._look_at_stall(when)
            case events.Spawned():
                rank.pid = event.pid
                if isinstance(self.plan.work, Script):  # it says nothing of phases
                    self._enter(rank, RankPhase.TRAINING, when)
            case events.Exited():
                rank.exited, rank.exited_from = event, rank.phase
                rank.exit = event.signal or f"exit code {event.code}"
                rank.exit += ", out of memory" if event.out_of_memory else ""
                rank.since = when
                self._judge(rank)

    def _evaluated(self, event: events.Evaluated) -> None:
        if event.rank == 0:
            while (
                self.evaluations and self.evaluations[-1].epoch >= event.epoch
            ):  # these epochs began anew
                self.evaluations.pop()
            if self.evaluations:  # of confusion matrices, which may be large, only the last is kept
                self.evaluations[-1] = replace(self.evaluations[-1], confusion=())
            counts = event.confusion
            whole = any(map(any, counts)) and all(len(row) == len(counts) for row in counts)
            self.evaluations.append(event if whole else replace(event, confusion=()))

    def _diverge(self, found: Diverged, rank: RankState, when: float) -> None:
        """Take in that the loss is no finite number any more, which every later step of all ranks
        may follow."""
        self.diverged = found
        if self.plan.policy.on_nan is OnNan.STOP:
            what, advice = f"loss is {found.what}", "lower --lr"
            host = self.hosts[rank.host].name
            self._refusal = self._refusal or Death(
                host, rank.rank, when, Evidence.OWN, what, found.step, advice=advice
            )
            self._settle()
        else:
            self._note(
                "",
                f"{found.text}; training continues. Lower --lr, or stop such runs with --on-nan "
                "stop",
                when,
            )

    def _drifted(self, event: events.Drifted, when: float) -> None:
        if not self.drift:
            self.drift = event
            self._note(
                "", f"drift: after step {event.step} the ranks' models differ {event.extent}", when
            )
        self.largest_drift = max(
            self.largest_drift or event, event, key=lambda drifted: drifted.difference
        )

    def _stalled(self, said: events.Stalled, when: float) -> Stall:
        """Take in that these ranks, and perhaps some that were said to before, have come to a
        halt."""
        for index in said.ranks:
            if 0 <= index < len(self.ranks):
                self.ranks[index].stalled = True
        if self.stall:
            self.stalls.pop()
        self.stalls.append(stall.explained(self, stall.begin(self, said, when)))
        return self.stalls[-1]

    def _look_at_stall(self, when: float) -> None:
        """Whether all ranks have gone on."""
        if self.stall and not any(rank.stalled and not rank.finished for rank in self.ranks):
            self.stalls[-1] = replace(self.stall, over=when)
            self._note(
                "", f"the ranks go on, after a stall of {when - self.stalls[-1].since:.0f} s", when
            )

    def _enter(self, rank: RankState, phase: RankPhase, when: float) -> None:
        if rank.phase in FATES:
            return
        rank.enter(phase, when)
        self._look_at_stall(when)
        if phase is RankPhase.TRAINING and self.phase is RunPhase.STARTING:
            self.phase = RunPhase.TRAINING

    def _text(
        self, text: events.Text, host: HostState, rank: RankState | None, when: float
    ) -> None:
        lines, size = shortened(text.text, self._limits.shown)
        if text.stream == "stderr":
            (rank or host).tail.extend(lines[-LAST_WORDS:])
        skipped = max(0, len(lines) - LOG_LINES)
        first = self.log_count + skipped
        number = rank.rank if rank else -1
        self.log.extend(
            LogLine(first + index, when, host.name, number, text.stream, line)
            for index, line in enumerate(lines[skipped:])
        )
        self.log_count += len(lines)
        self._bound_log(size)
        if (
            rank and rank.exited and text.stream == "stderr"
        ):  # words that came after the exit may change what it means
            self._judge(rank)

    def _bound_log(self, size: int) -> None:
        """Forget the oldest lines beyond the bytes that the log may take; `size`: of what was added
        last."""
        self._kept.append((self.log_count, size))
        self._kept_size += size
        while len(self._kept) > 1 and (
            self._kept_size > self._limits.log or self._kept[0][0] <= self.log[0].number
        ):
            end, size = self._kept.popleft()
            self._kept_size -= size
            while self.log[0].number < end:
                self.log.popleft()

    # What agents say of their hosts ---------------------------------------------------------------

    def _host_said(self, record: Record, host: HostState, when: float) -> None:
        match record.event:
            case events.HostSample() as sample:
                host.cpu, host.memory_used, host.memory_total = (
                    sample.cpu,
                    sample.memory_used,
                    sample.memory_total,
                )
                host.sent, host.received = sample.sent, sample.received
            case events.Launched(ranks, hosts):
                if record.attempt > self.attempt and self._are_hosts(hosts):
                    self._restart(
                        record.attempt,
                        hosts,
                        f"so {host.name} tells, where its launcher was heard",
                        when,
                    )
                self.attempt = max(self.attempt, record.attempt)
                for rank in (self._rank(index, host) for index in ranks):
                    if rank:
                        self._enter(rank, RankPhase.IMPORTING, when)
            case events.Reserved(_, _, error) if error:
                self._note(host.name, error, when)
            case events.Reserved(address, port) if host is next(
                (one for one in self.hosts if not one.gone), None
            ):
                self.rendezvous = f"{address}:{port}"
            case events.Dropped(first, last):
                host.dropped = True
                self._note(
                    host.name,
                    f"records {first} to {last} were dropped: the journal on the host was full",
                    when,
                )
            case events.StopHeard(by_person=True) if (
                record.attempt == self.attempt or self.phase is RunPhase.STARTING
            ):
                self._heard_stop(when)
            case events.Ended() as ended:
                host.end, host.reason = ended, agent_end.describe(ended)
                if host.phase is not HostPhase.LOST:
                    host.enter(HostPhase.ENDED, when)
                if ended.died:
                    folder = host.hello.folder if host.hello else ""
                    what, advice = causes.ended(ended, host.name, folder)
                    self._host_died(host, what, when, advice=advice)
                elif ended.reason in agent_end.STOPPED:
                    self.stop_reason = self.stop_reason or agent_end.why(ended)
                    if host.parted:  # others still had theirs
                        self._host_died(
                            host,
                            "the connection to it was lost for too long, so it stopped its ranks",
                            when,
                        )

    def _heard_stop(self, when: float) -> None:
        """A person has stopped the run, perhaps over another launcher. What dies from then on is no
        cause."""
        self._person_stop = min(self._person_stop, when)
        self._by_person = self._by_person or causes.first(self._deaths()) is None
        self.stop_reason = self.stop_reason or "stopped from elsewhere"
        self._settle()

    def _host_died(
        self,
        host: HostState,
        what: str,
        when: float,
        *,
        refused: bool = False,
        advice: str = "",
    ) -> None:
        host.gone = True
        # What dies after we began to stop all is no cause.
        evidence = Evidence.KILLED if when < self._stopping else Evidence.NONE
        tail = last_words(tuple(host.tail), causes.TAIL)
        advice = self.plan.named(advice)
        host.death = host.death or Death(
            host.name, -1, when, evidence, what, tail=tail, refused=refused, advice=advice
        )
        self._settle()

    # What the session says ------------------------------------------------------------------------

    def _session_said(self, record: Record, when: float) -> None:
        host = self._host(getattr(record.event, "on", events.SESSION))
        name = host.name if host else ""
        match record.event:
            case events.Reaching(_, phase) if host:
                host.enter(HostPhase(phase), when)
            case events.Clock(_, offset) if host:
                if not host.heard:  # but for its Hello, which came before its clock was known
                    host.began += host.offset - offset
                host.offset = offset
            case events.Said(_, text):
                self._note(name, text, when)
            case events.Checked() as check:
                self.checks[check.on, check.check] = check
                if check.outcome == WARNING and is_told(check):
                    told = replace(check, text=f"{check.check}: {check.text}")
                    self._note("", refusal([one.name for one in self.hosts], told), when)
            case events.Silent(_, seconds) if host:
                host.missed = True
                host.enter(HostPhase.SILENT, when)
                self._note(name, f"silent for {seconds:.0f} s", when)
            case events.Parted(_, reason) if host:
                host.parted = True
                self._note(name, f"{reason}; connecting again", when)
            case events.Detached():
                self.detached = True
                policy = self.plan.policy
                stops = policy.on_stall is not OnStall.REPORT or policy.on_nan is OnNan.STOP
                waits = policy.max_restarts or stops
                more = "; stalls and failures wait for the next rankboard attach" if waits else ""
                self._note("", f"detached: the run goes on without its launcher{more}", when)
            case events.Restarted(hosts, reason) if self._are_hosts(hosts):
                self._restart(record.attempt, hosts, reason, when)
            case events.Stalled() as said if said.ranks and all(
                0 <= rank < len(self.ranks) for rank in said.ranks
            ):
                self._note("", f"stalled: {self._stalled(said, when).text}", when)
            case events.Lost(_, reason, reached, unfit) if host:
                host.enter(HostPhase.LOST, when)
                host.reason = reason
                self._note(name, reason, when)
                died = host.heard + SAMPLE_EVERY if reached and host.heard else when
                unfit = unfit and not (self.has_begun or self.attempt)
                what = f"host lost: {reason.removeprefix(f'{name}: ')}" if reached else reason
                self._host_died(host, what, died, refused=unfit)
            case events.Refused(_, reason):
                if host:
                    host.reason = reason
                self._note(name, reason, when)
                self._refusal = self._refusal or Death(
                    name,
                    -1,
                    when,
                    Evidence.KILLED,
                    reason,
                    refused=not (self.has_begun or self.attempt),
                )
                self._settle()
            case events.Stopping(reason, by_person):
                self._note("", reason, when)
                self._stop(reason, by_person, when)
            case events.Closed():
                self.phase, self.ended = RunPhase.ENDED, self.now
                self._settle()
                self.verdict = verdict.verdict(self.ranks, self._cause(), self._by_person)
                if self.verdict is Verdict.FAILED and not self.cause:
                    self._refusal = Death(
                        "", -1, 0.0, Evidence.OWN, self._unexplained()
                    )  # no stop came before it
                    self._settle()
                if (
                    self.verdict is Verdict.FINISHED
                ):  # an agent that was lost after its ranks had done all is no cause
                    self.cause = None

    def _stop(self, reason: str, by_person: bool, when: float) -> None:
        self.stop_reason = self.stop_reason or reason
        if self.phase is not RunPhase.ENDED:
            self.phase = RunPhase.STOPPING
        self._stopping = min(self._stopping, when)
        unexplained = causes.first(self._deaths()) is None
        self._by_person = self._by_person or (by_person and unexplained)
        if unexplained and not by_person:
            self._refusal = stall.death(self, reason, when) or Death(
                "", -1, when, Evidence.ORDER, reason
            )

    def _are_hosts(self, numbers: Sequence[int]) -> bool:
        return (
            bool(numbers) and sorted({*numbers}) == list(numbers) and all(map(self._host, numbers))
        )

    def _restart(self, attempt: int, hosts: tuple[int, ...], reason: str, when: float) -> None:
        """All ranks begin again on these hosts. Curves and timings go on; what the attempt before
        died of counts no more."""
        self._note("", f"started again, attempt {attempt + 1}: {reason}", when)
        self.attempt, self.phase = attempt, RunPhase.STARTING
        self.restarts.append(Restart(when - self.started))
        slots = replace(self.plan, hosts=tuple(self.plan.hosts[index] for index in hosts)).slots
        self.ranks = [
            self.ranks[slot.rank].again(slot.local_rank, hosts[slot.host], when) for slot in slots
        ]
        for host in self.hosts:
            host.death = None
        if self.stall:
            self.stalls[-1] = replace(self.stall, over=when)
        self.begun = self.cause = self._refusal = None
        self.stop_reason, self._stopping, self._person_stop = "", float("inf"), float("inf")

    def _note(self, host: str, text: str, when: float) -> None:
        lines, size = shortened(
            text.removeprefix(f"{host}: ") if host else text, self._limits.shown
        )
        for line in lines:
            note = LogLine(self.log_count, when, host, -1, "note", line)
            self.log_count += 1
            self.log.append(note)
            self.notes.append(note)
        self._bound_log(size)

    # What it comes to -----------------------------------------------------------------------------

    def _judge(self, rank: RankState) -> None:
        if rank.exited is None:
            return
        host = self.hosts[rank.host]
        complete = rank.finished or host.dropped or isinstance(self.plan.work, Script)
        words = rank.tail or host.tail
        evidence, what = causes.judge(rank.exited, words, complete=complete)
        ours = isinstance(self.plan.work, Job) and not rank.exited.stopped
        unfit = ours and rank.exited.code == USAGE and not self.begun
        evidence = Evidence.OWN if unfit else evidence  # also of a download that timed out
        refused = unfit and not self.has_begun
        during = DURING.get(rank.exited_from, "") if ours and not rank.recent else ""
        advice = self.plan.named(causes.advice(rank.exited, words, host.name))
        last = last_words(tuple(words), causes.TAIL)
        rank.death = Death(
            host.name,
            rank.rank,
            rank.since,
            evidence,
            what,
            rank.step,
            last,
            refused,
            during,
            advice,
        )
        self._settle()

    def _deaths(self) -> list[Death]:
        """All ends, the refusal's first, but for those after a person's stop. A rank whose
        communication broke may seem to have died before that: clocks of hosts are known to within a
        second."""
        ends = [
            self._refusal,
            *(host.death for host in self.hosts),
            *(rank.death for rank in self.ranks),
        ]
        slack = {Evidence.ORDER: self._limits.clock_step}
        return [
            death
            for death in ends
            if death and death.time + slack.get(death.evidence, 0.0) < self._person_stop
        ]

    def _unexplained(self) -> str:
        """Why a run has failed of which nothing has died."""
        ends = [
            host
            for host in self.hosts
            if host.reason and not (host.end and host.end.reason in agent_end.QUIET)
        ]
        reasons = [f"{host.name}: {host.reason.removeprefix(f'{host.name}: ')}" for host in ends]
        return (
            next(iter(reasons), "") or self.stop_reason or "it ended before all ranks had finished"
        )

    def _cause(self) -> Death | None:
        """What the run failed of, as far as is known."""
        death = None if self._by_person else causes.first(self._deaths())
        if (
            death and death.evidence is Evidence.ORDER and self._is_left
        ):  # which broke communication
            return None
        return death

    @property
    def refused(self) -> bool:
        """Whether the run failed of what no restart can mend: its job, a host that is not fit for
        it, or --on-nan stop."""
        death = self._cause()
        diverged = self.diverged is not None and self.plan.policy.on_nan is OnNan.STOP
        return diverged or (death is not None and death.refused)

    @property
    def _is_left(self) -> bool:
        """Whether agents have stopped their ranks by themselves, each as it found its operator
        gone."""
        ends = [host.end for host in self.hosts if host.end and not host.gone]
        return any(end.reason in agent_end.STOPPED for end in ends)

    def _settle(self) -> None:
        """Pick the cause anew, and with it every ended rank's fate."""
        death = self._cause()
        for rank in self.ranks:
            over = self.phase is RunPhase.ENDED
            rank.phase = (
                verdict.fate(rank, self.hosts[rank.host], death, over, self._by_person)
                or rank.phase
            )
        self.cause = None
        if death:
            death = causes.joined(
                death, [host.death for host in self.hosts if host.death and not host.hello]
            )
            victims = tuple(
                rank.rank
                for rank in self.ranks
                if rank.phase is RankPhase.VICTIM
                or (rank.phase is RankPhase.LOST and self.hosts[rank.host].name == death.host)
            )
            at = death.step, death.tail, victims, death.during, death.advice
            self.cause = Cause(death.host, death.rank, death.what, *at)
