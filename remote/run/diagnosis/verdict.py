"""What a run failed of, and what became of each rank and so of the run. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence

from remote.limits import Limits
from remote.plan.plan import OnNan, Plan
from remote.run.diagnosis import agent_end
from remote.run.diagnosis import cause as causes
from remote.run.output import missing_inputs as lack
from remote.run.output.last_words import last_words
from remote.run.state.host_state import HostState
from remote.run.state.phases import RankPhase, Verdict
from remote.run.state.rank_state import RankState
from remote.run.state.types import Cause, Death, Evidence

USAGE = 2
"""The exit code by which our own ranks refuse a job, its data or its checkpoint; a user's script
may mean anything by it."""
DURING = {
    RankPhase.LOADING: "loading its data",
    RankPhase.RENDEZVOUS: "reaching the rendezvous",
    RankPhase.JOINING: "joining the others",
}
"""What a rank was at that ended before its first step."""


def fate(
    rank: RankState, host: HostState, cause: Death | None, over: bool, by_person: bool
) -> RankPhase | None:
    """What became of a rank; None while it lives, or where it never did. `over`: the run has ended;
    `by_person`: a person stopped it."""
    if rank.exited is None or rank.death is None:
        if rank.phase is RankPhase.WAITING:
            return None
        if host.gone:
            return RankPhase.LOST
        return RankPhase.STOPPED if over else None
    if cause is rank.death:
        return RankPhase.FAILED
    if rank.exited.code == 0 and rank.death.evidence is Evidence.NONE and not rank.exited.stopped:
        return RankPhase.FINISHED
    if rank.exited.stopped and host.gone:
        return RankPhase.LOST
    if rank.exited.stopped or by_person:
        return RankPhase.STOPPED
    return RankPhase.VICTIM if rank.death.evidence is Evidence.ORDER else RankPhase.FAILED


def verdict(ranks: Sequence[RankState], cause: Death | None, by_person: bool) -> Verdict:
    """How a run has ended whose ranks have met their fates."""
    diverged = cause is not None and cause.rank >= 0  # the only cause by which no rank dies
    if all(rank.phase is RankPhase.FINISHED for rank in ranks) and not diverged:
        return Verdict.FINISHED
    if cause is None:
        stopped = by_person or any(rank.phase is RankPhase.STOPPED for rank in ranks)
        return Verdict.STOPPED if stopped else Verdict.FAILED
    if cause.refused:
        return Verdict.REFUSED
    return Verdict.LOST if cause.rank < 0 and cause.host else Verdict.FAILED


class Judge:
    """Finds what a run failed of, from the deaths of its hosts and ranks so far.

    `refusal` is why the launcher refused, stopped or failed the run, unless something died of it
    before. `stop_reason` is why all ranks are stopped, "" where they are not. `by_person`: a person
    stopped a run that had not failed.
    """

    def __init__(
        self, plan: Plan, limits: Limits, hosts: Sequence[HostState], ranks: Sequence[RankState]
    ) -> None:
        self.plan = plan
        self._limits = limits
        self.hosts = hosts
        self.ranks = ranks
        self.refusal: Death | None = None
        self.stop_reason = ""
        self.by_person = False
        self.over = False
        self.cause: Cause | None = None
        self._stopping_at = math.inf
        self._person_stop_at = math.inf

    def begin(self, ranks: Sequence[RankState]) -> None:
        """Another attempt begins: what the one before died of counts no more."""
        self.ranks = ranks
        self.refusal = None
        self.cause = None
        self.stop_reason = ""
        self._stopping_at = self._person_stop_at = math.inf

    def judge_rank(self, rank: RankState, *, has_stepped: bool, has_begun: bool) -> None:
        """Judge the exit of a rank, again where words came after it. `has_stepped`: the attempt has
        begun to train, `has_begun`: so has any."""
        if rank.exited is None:
            return
        host = self.hosts[rank.host]
        complete = rank.finished or host.dropped or not self.plan.job
        words: Sequence[str] = rank.tail or host.tail
        if rank.raised:  # as the program itself says it
            words = rank.raised.text.split("\n")
        evidence, what = causes.judge(rank.exited, words, complete=complete)
        is_ours = self.plan.job is not None and not rank.exited.stopped
        is_unfit = is_ours and rank.exited.code == USAGE and not has_stepped
        rank.death = Death(
            host.name,
            rank.rank,
            rank.since,
            Evidence.OWN if is_unfit else evidence,  # also of a download that timed out
            what,
            rank.step,
            last_words(tuple(words), causes.TAIL),
            refused=is_unfit and not has_begun,
            during=DURING.get(rank.exited_from, "") if is_ours and not rank.pace else "",
            advice=causes.advice(rank.exited, words, self.plan.hosts[host.index]),
            of_agent=not rank.tail,
            lack=None if self.plan.job or rank.exited.stopped else lack.find(words),
        )
        self.settle()

    def judge_host(
        self,
        host: HostState,
        what: str,
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
        tail = last_words(tuple(host.tail), causes.TAIL)
        host.death = host.death or Death(
            host.name,
            -1,
            when,
            evidence,
            what,
            tail=tail,
            refused=refused,
            advice=advice,
        )
        self.settle()

    def refuse(self, death: Death) -> None:
        """Take in the first reason not to go on with the run."""
        self.refusal = self.refusal or death
        self.settle()

    def hear_stop(self, when: float) -> None:
        """A person has stopped the run, perhaps over another launcher. What dies from then on is no
        cause."""
        self._person_stop_at = min(self._person_stop_at, when)
        self.by_person = self.by_person or causes.first(self._deaths()) is None
        self.stop_reason = self.stop_reason or "stopped from elsewhere"
        self.settle()

    def stop(self, reason: str, by_person: bool, when: float, stall: Death | None) -> None:
        """All ranks are stopped, perhaps because of this stall."""
        self.stop_reason = self.stop_reason or reason
        self._stopping_at = min(self._stopping_at, when)
        is_unexplained = causes.first(self._deaths()) is None
        self.by_person = self.by_person or (by_person and is_unexplained)
        if is_unexplained and not by_person:
            self.refusal = stall or Death("", -1, when, Evidence.ORDER, reason)

    def close(self) -> Verdict:
        """The run has ended: its verdict."""
        self.over = True
        self.settle()
        found = verdict(self.ranks, self.first_death(), self.by_person)
        if found is Verdict.FAILED and not self.cause:  # no stop came before it
            self.refusal = Death("", -1, 0.0, Evidence.OWN, self._unexplained())
            self.settle()
        if found is Verdict.FINISHED:  # an agent that was lost after its ranks is no cause
            self.cause = None
        return found

    def first_death(self) -> Death | None:
        """What the run failed of, as far as is known."""
        death = None if self.by_person else causes.first(self._deaths())
        if death and death.evidence is Evidence.ORDER and self._is_left:  # that broke communication
            return None
        return death

    def is_refused(self, *, diverged: bool) -> bool:
        """Whether the run failed of what no restart can mend: its job, a host that is not fit for
        it, or --on-nan stop."""
        death = self.first_death()
        halted = diverged and self.plan.policy.on_nan is OnNan.STOP
        return halted or (death is not None and death.refused)

    def settle(self) -> None:
        """Pick the cause anew, and with it the fate of every rank that has ended."""
        death = self.first_death()
        for rank in self.ranks:
            host = self.hosts[rank.host]
            rank.phase = fate(rank, host, death, self.over, self.by_person) or rank.phase
        self.cause = self._explain(death) if death else None

    def _explain(self, death: Death) -> Cause:
        deaths = [host.death for host in self.hosts if host.death and not host.hello]
        death = causes.joined(death, deaths)
        victims = tuple(rank.rank for rank in self.ranks if self._is_victim(rank, death))
        return Cause(
            death.host,
            death.rank,
            death.what,
            death.step,
            death.tail,
            victims,
            death.during,
            death.advice,
            death.of_agent,
            death.lack,
        )

    def _is_victim(self, rank: RankState, death: Death) -> bool:
        if rank.phase is RankPhase.LOST:
            return self.hosts[rank.host].name == death.host
        return rank.phase is RankPhase.VICTIM

    def _deaths(self) -> list[Death]:
        """All ends, the refusal's first, but for those after a person's stop. A rank whose
        communication broke may seem to have died before that: clocks of hosts are known to within a
        second."""
        ends = [
            self.refusal,
            *(host.death for host in self.hosts),
            *(rank.death for rank in self.ranks),
        ]
        slack = {Evidence.ORDER: self._limits.clock_step}
        return [
            death
            for death in ends
            if death and death.time + slack.get(death.evidence, 0.0) < self._person_stop_at
        ]

    def _unexplained(self) -> str:
        """Why a run has failed of which nothing has died."""
        for host in self.hosts:
            is_quiet = host.ended is not None and host.ended.reason in agent_end.QUIET
            if host.reason and not is_quiet:
                return f"{host.name}: {host.reason.removeprefix(f'{host.name}: ')}"
        return self.stop_reason or "it ended before all ranks had finished"

    @property
    def _is_left(self) -> bool:
        """Whether agents have stopped their ranks by themselves, each as its launcher was gone."""
        ends = [host.ended for host in self.hosts if host.ended and not host.gone]
        return any(end.reason in agent_end.STOPPED for end in ends)
