"""Judges what a run failed of, what became of each rank, and so of the run. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from remote.format import ranks_text
from remote.limits import Limits
from remote.plan.plan import OnNan, Plan
from remote.run.diagnosis.agent_end import QUIET_ENDS, STOPPING_ENDS
from remote.run.diagnosis.cause import TAIL, advise_on_exit, find_first, join_deaths, judge_exit
from remote.run.output.last_words import last_words
from remote.run.output.missing_inputs import find_missing
from remote.run.state.host_state import Hosts, HostState, names_host, strip_host_name
from remote.run.state.phases import FATES, REPORTED_START, RankPhase, Verdict
from remote.run.state.rank_state import Ranks, RankState
from remote.run.state.types import Cause, Evidence
from training.wire.host_events import Exited

USAGE_EXIT_CODE = 2
"""With this code our own ranks refuse a job, its data or its checkpoint; a script may mean anything
by it."""
STOPPED_ELSEWHERE = "stopped from elsewhere"
"""The reason of a stop that a person asked another launcher for."""


def has_ended_quietly(host: HostState) -> bool:
    """Return True if the agent of a host has ended, and that is no failure."""
    return host.ended is not None and host.ended.reason in QUIET_ENDS


def may_hide_ends(host: HostState) -> bool:
    """Return True if a rank of an ended host may have ended in a record that is missing."""
    return host.dropped and has_ended_quietly(host)


def outcome_of_rank(
    rank: RankState, host: HostState, cause: Cause | None, *, is_over: bool, by_person: bool
) -> RankPhase | None:
    """Return what became of a rank; None while it lives, or if it never did.

    `is_over`: the run has ended. `by_person`: a person stopped it.
    """
    exited = rank.exited
    death = rank.death
    if exited is None or death is None:
        if is_over and may_hide_ends(host) and not by_person:
            return RankPhase.LOST
        if rank.phase is RankPhase.WAITING:
            return None
        if host.gone:
            return RankPhase.LOST
        return RankPhase.STOPPED if is_over else None
    if death is cause:
        return RankPhase.FAILED
    if exited.stopped:
        return RankPhase.LOST if host.gone else RankPhase.STOPPED
    if exited.code == 0 and death.evidence is Evidence.NONE:
        return RankPhase.FINISHED
    if by_person:
        return RankPhase.STOPPED
    return RankPhase.VICTIM if death.evidence is Evidence.ORDER else RankPhase.FAILED


def decide_verdict(ranks: Ranks, cause: Cause | None, by_person: bool) -> Verdict:
    """Return how a run has ended whose ranks all have their outcomes."""
    # A loss that is no number is the only cause that names a rank although no rank has died.
    has_diverged = cause is not None and cause.rank >= 0
    if all(rank.phase is RankPhase.FINISHED for rank in ranks) and not has_diverged:
        return Verdict.FINISHED
    if cause is None:
        is_stopped = by_person or any(rank.phase is RankPhase.STOPPED for rank in ranks)
        return Verdict.STOPPED if is_stopped else Verdict.FAILED
    if cause.refused:
        return Verdict.REFUSED
    return Verdict.LOST if cause.rank < 0 and cause.host else Verdict.FAILED


class Judge:
    """Finds what a run failed of, from the deaths of its hosts and ranks so far."""

    def __init__(self, plan: Plan, limits: Limits, hosts: Hosts, ranks: Ranks) -> None:
        self.plan = plan
        self._limits = limits
        self.hosts = hosts
        self.ranks = ranks
        """Those that rankboard has started."""
        self.workers: Ranks = ()
        """Those that these have started themselves."""
        self.refusal: Cause | None = None
        """Why the launcher refused, stopped or failed the run, unless something died before."""
        self.stall: Cause | None = None
        """The rank for which all others waited when the first of them ended, as a cause."""
        self.stop_reason = ""
        """Why all ranks are stopped; "" if they are not."""
        self.by_person = False
        """A person stopped a run that had not failed."""
        self.is_over = False
        self.cause: Cause | None = None
        self._stopping_at = math.inf
        self._person_stop_at = math.inf

    def restart(self, ranks: Ranks) -> None:
        """Take in that another attempt begins, of these ranks: forget what the one before died
        of."""
        self.ranks = ranks
        self.workers = ()
        self.refusal = None
        self.stall = None
        self.cause = None
        self.stop_reason = ""
        self._stopping_at = math.inf
        self._person_stop_at = math.inf

    def judge_rank(self, rank: RankState, *, has_stepped: bool, has_begun: bool) -> None:
        """Judge the exit of a rank, again if more of its output came after it.

        `has_stepped`: the attempt has begun to train. `has_begun`: an attempt has.
        """
        exited = rank.exited
        if exited is None:
            return
        host = self.hosts[rank.host]
        is_job = self.plan.job is not None
        # The record that says so may be among those that were dropped; a script reports none.
        is_complete = rank.finished or host.dropped or not is_job
        # A rank that could not be started has said nothing: its agent says why.
        stderr_lines: Sequence[str] = rank.tail or host.tail
        if rank.raised:  # the script itself says what it raised
            stderr_lines = rank.raised.text.split("\n")
        evidence, problem = judge_exit(exited, stderr_lines, complete=is_complete)
        # Its words may be missing, and have told that others broke its communication.
        if evidence is Evidence.OWN and host.dropped and not stderr_lines:
            evidence = Evidence.ORDER
        is_unfit = is_job and exited.code == USAGE_EXIT_CODE and not (exited.stopped or has_stepped)
        during = ""
        missing_input = None
        if is_unfit:  # its words may speak of a download that timed out, not of other ranks
            evidence = Evidence.OWN
        if is_job and not (exited.stopped or rank.pace):
            # Its traceback names what it was importing; these phases it does not.
            if rank.exited_from in REPORTED_START:
                during = rank.exited_from.activity
        elif not (is_job or exited.stopped):
            missing_input = find_missing(stderr_lines)
        death = self._describe_death(rank, exited, stderr_lines, evidence, problem)
        rank.death = replace(
            death,
            refused=is_unfit and not has_begun,
            during=during,
            of_agent=not rank.tail,
            lack=missing_input,
        )
        self.settle()

    def judge_worker(self, worker: RankState) -> None:
        """Judge the end of a worker, which is a cause once the process that started it is gone:
        that may have started it again."""
        exited = worker.exited
        if exited is None:
            return
        stderr_lines = worker.raised.text.split("\n") if worker.raised else []
        evidence, problem = judge_exit(exited, stderr_lines, complete=True)
        if not (worker.is_exit_known or exited.stopped):
            evidence, problem = Evidence.KILLED, "gone without a word, as if it was killed"
            if self._explains_ends(worker.process):
                problem = "gone without a word, after another rank had failed"
                evidence = Evidence.ORDER
        elif exited.signal == "SIGTERM" and not exited.stopped:  # as others of them had failed
            evidence, problem = Evidence.ORDER, "terminated by the process that started it"
        death = self._describe_death(worker, exited, stderr_lines, evidence, problem)
        worker.death = replace(death, pid=worker.pid)
        self.settle()

    def _describe_death(
        self,
        rank: RankState,
        exited: Exited,
        stderr_lines: Sequence[str],
        evidence: Evidence,
        problem: str,
    ) -> Cause:
        return Cause(
            self.hosts[rank.host].name,
            rank.rank,
            problem,
            rank.step,
            last_words(tuple(stderr_lines), TAIL),
            time=rank.since,
            evidence=evidence,
            advice=advise_on_exit(exited, stderr_lines, self.plan.hosts[rank.host]),
        )

    def judge_host(
        self,
        host: HostState,
        problem: str,
        when: float,
        *,
        evidence: Evidence = Evidence.KILLED,
        refused: bool = False,
        advice: str = "",
    ) -> None:
        """Take in that a host was lost, or its agent died."""
        host.gone = True
        if when >= self._stopping_at:  # what dies after we began to stop all is no cause
            evidence = Evidence.NONE
        # The first end counts: what follows, such as the guard's report, is of the same death.
        host.death = host.death or Cause(
            host.name,
            -1,
            problem,
            tail=last_words(tuple(host.tail), TAIL),
            time=when,
            evidence=evidence,
            refused=refused,
            advice=advice,
            names_hosts=names_host(problem, host.name),
        )
        self.settle()

    def refuse(self, death: Cause) -> None:
        """Take in a reason not to go on with the run. The first one counts."""
        self.refusal = self.refusal or death
        self.settle()

    def hear_stop(self, when: float) -> None:
        """Take in that a person has stopped the run, perhaps over another launcher.

        What dies from then on is no cause.
        """
        self._person_stop_at = min(self._person_stop_at, when)
        self.by_person = self.by_person or find_first(self._deaths()) is None
        self.stop_reason = self.stop_reason or STOPPED_ELSEWHERE
        self.settle()

    def stop(self, reason: str, by_person: bool, when: float, stall: Cause | None) -> None:
        """Take in that all ranks are stopped, perhaps because of this stall."""
        self.stop_reason = self.stop_reason or reason
        self._stopping_at = min(self._stopping_at, when)
        is_unexplained = find_first(self._deaths()) is None
        self.by_person = self.by_person or (by_person and is_unexplained)
        if is_unexplained and not by_person:
            self.refusal = stall or Cause("", -1, reason, time=when, evidence=Evidence.ORDER)

    def close(self) -> Verdict:
        """Take in that the run has ended. Return its verdict."""
        self.is_over = True
        self.refusal = self.refusal or self._find_unknown_end()
        self.settle()
        verdict = decide_verdict(self.ranks, self.first_death(), self.by_person)
        if verdict is Verdict.FAILED and not self.cause:  # no stop came before it
            self.refusal = Cause("", -1, self._describe_unexplained())
            self.settle()
        if verdict is Verdict.FINISHED:  # an agent that was lost after its ranks is no cause
            self.cause = None
        return verdict

    def first_death(self) -> Cause | None:
        """Return what the run failed of, as far as is known."""
        death = None if self.by_person else find_first(self._deaths())
        if death and death.evidence is Evidence.ORDER and self._has_lost_launcher:
            return None  # agents that stopped their ranks have broken the communication
        if death and death.evidence is Evidence.ORDER and self.stall:
            return self.stall
        return death

    def is_refused(self, *, diverged: bool) -> bool:
        """Return True if the run failed of what no restart can mend.

        That is its job, a host that is not fit for it, or `--on-nan stop`.
        """
        death = self.first_death()
        is_halted = diverged and self.plan.policy.on_nan is OnNan.STOP
        return is_halted or (death is not None and death.refused)

    def settle(self) -> None:
        """Pick the cause anew, and with it the outcome of every rank that has ended."""
        death = self.first_death()
        for rank in self.ranks:
            rank.phase = self._outcome(rank, death) or rank.phase
        for worker in self.workers:
            process = self.ranks[worker.process] if worker.process >= 0 else None
            if worker.exited is None and process and process.phase in FATES:
                # Nobody sees the end of one that is known by its lines alone.
                worker.phase = process.phase
            else:
                worker.phase = self._outcome(worker, death) or worker.phase
        self.cause = self._explain(death) if death else None

    def _outcome(self, rank: RankState, death: Cause | None) -> RankPhase | None:
        host = self.hosts[rank.host]
        return outcome_of_rank(rank, host, death, is_over=self.is_over, by_person=self.by_person)

    def _explain(self, death: Cause) -> Cause:
        unreached_deaths = [host.death for host in self.hosts if host.death and not host.hello]
        death = join_deaths(death, unreached_deaths)
        victim_ranks = tuple(
            rank.rank for rank in self.workers or self.ranks if self._is_victim(rank, death)
        )
        return replace(death, victims=victim_ranks)

    def _is_victim(self, rank: RankState, death: Cause) -> bool:
        if rank.phase is RankPhase.LOST:
            return self.hosts[rank.host].name == death.host
        return rank.phase is RankPhase.VICTIM

    def _deaths(self) -> list[Cause]:
        """Return all ends, the refusal's first, but for those after a person's stop.

        A rank whose communication broke may seem to have died before the stop: clocks of hosts are
        known to within a second.
        """
        deaths = [self.refusal]
        deaths += [host.death for host in self.hosts]
        deaths += [rank.death for rank in (*self.ranks, *filter(self._counts, self.workers))]
        clock_slack = {Evidence.ORDER: self._limits.clock_step}
        return [
            death
            for death in deaths
            if death and death.time + clock_slack.get(death.evidence, 0.0) < self._person_stop_at
        ]

    def _explains_ends(self, process: int) -> bool:
        """Return True if a worker of this process has failed by itself, as is known: what starts
        workers then ends the others."""
        return any(
            worker.death and worker.death.evidence < Evidence.WORDS and worker.is_exit_known
            for worker in self.workers
            if worker.process == process
        )

    def _counts(self, worker: RankState) -> bool:
        """Return True if the end of a worker may be a cause."""
        process = self.ranks[worker.process] if worker.process >= 0 else None
        if process is None or process.exited is None:
            return False
        if worker.is_exit_known:
            return True
        # One of which nothing is known explains why others failed, if nothing else does.
        evidence_of_others = {
            other.death.evidence for other in self.workers if other.death and other is not worker
        }
        have_failed = process.has_failed or Evidence.ORDER in evidence_of_others
        return have_failed and Evidence.OWN not in evidence_of_others

    def _find_unknown_end(self) -> Cause | None:
        """Return that nobody knows how some ranks ended, as records of their host are missing."""
        for host in self.hosts:
            unknown_ranks = [
                rank.rank for rank in self.ranks if rank.host == host.index and rank.exited is None
            ]
            if may_hide_ends(host) and unknown_ranks:
                problem = f"records are missing that say how {ranks_text(unknown_ranks)} ended"
                return Cause(host.name, -1, problem, time=host.since, evidence=Evidence.UNHEARD)
        return None

    def _describe_unexplained(self) -> str:
        """Return why a run has failed although nothing of it has died."""
        for host in self.hosts:
            if host.reason and not has_ended_quietly(host):
                return f"{host.name}: {strip_host_name(host.reason, host.name)}"
        return self.stop_reason or "it ended before all ranks had finished"

    @property
    def _has_lost_launcher(self) -> bool:
        """Return True if agents have stopped their ranks because their launcher was gone."""
        agent_ends = [host.ended for host in self.hosts if host.ended and not host.gone]
        return any(agent_end.reason in STOPPING_ENDS for agent_end in agent_ends)
