"""Ranks that hold all others up, by the time until their last gradient is ready: no wait for others
is part of it. Step times tell nothing, as all ranks that wait for each other take equally long."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from remote.format import ranks_text, seconds
from remote.run.diagnosis.straggler_cause import is_crowded, why
from remote.run.state.host_state import HostState
from remote.run.state.phases import RankPhase
from remote.run.state.rank_state import RankState


@dataclass(frozen=True)
class Rule:
    """When a rank is late: where its median `ready` of the last steps is `ratio` times that of the
    others, and the difference is a `share` of a step. It is looked at every `every` steps, once all
    ranks have made `least`. A rank that was late at `checks` checks in a row, and over steps of so
    many `seconds`, is slow; one that was not at as many checks no longer is. A check while its
    machine is `crowded` counts only so much: then one rank is late for a while, then another."""

    least: int = 10
    every: int = 5
    ratio: float = 1.25
    share: float = 0.10
    checks: int = 5
    seconds: float = 1.0
    crowded: float = 0.4


RULE = Rule()
MOST = 100
"""Episodes that are kept."""
NAMES = 3
"""Hosts that a sentence names."""


class Grade(StrEnum):
    """How sure it is that a rank holds the others up."""

    SUSPECTED = "slow?"
    SLOW = "slow"


@dataclass(frozen=True)
class Straggler:
    """A rank that the others wait for. Times in seconds: `ready` until its last gradient, `others`
    the median of the other ranks, `step` a whole step. `since` is the step of the first check that
    found it late; `reason` is why, "" where nothing tells."""

    rank: int
    host: int
    since: int
    grade: Grade
    ready: float
    others: float
    step: float
    reason: str = ""

    @property
    def factor(self) -> float:
        """How many times as long as the others it takes."""
        return self.ready / self.others

    @property
    def is_slow(self) -> bool:
        """Whether it is sure."""
        return self.grade is Grade.SLOW

    @property
    def mark(self) -> str:
        """For a table: "slow?" or "SLOW 7.0x"."""
        return f"SLOW {self.factor:.1f}x" if self.is_slow else self.grade.value


@dataclass(frozen=True)
class Episode:
    """A rank was slow from the time `since` on; `over` is when it no longer was, 0 before."""

    straggler: Straggler
    since: float
    over: float = 0.0


class Watch:
    """Finds stragglers while a run trains. `found` are those of the last check, by rank; `episodes`
    are the times in which a rank was slow, of all attempts."""

    def __init__(self, rule: Rule = RULE) -> None:
        self.found: dict[int, Straggler] = {}
        self.episodes: list[Episode] = []
        self._rule = rule
        self._late_checks: dict[int, float] = {}
        self._calm_checks: dict[int, int] = {}

    @property
    def slow(self) -> list[Straggler]:
        """The sure ones, the slowest first."""
        slow = [one for one in self.found.values() if one.is_slow]
        return sorted(slow, key=lambda one: -one.ready)

    def is_due(self, step: int) -> bool:
        """Whether ranks are to be looked at after this step."""
        return step % self._rule.every == 0

    def restart(self, when: float) -> None:
        """The ranks begin again, perhaps elsewhere."""
        self.found.clear()
        self._late_checks.clear()
        self._calm_checks.clear()
        self._close(when)

    def look(
        self, ranks: Sequence[RankState], hosts: Sequence[HostState], step: int, when: float
    ) -> list[str]:
        """Look at the ranks after a step of the run. Returns what there is to say."""
        training = [rank for rank in ranks if rank.phase is RankPhase.TRAINING and rank.pace]
        if len(training) < 2 or min(len(one.pace) for one in training) < self._rule.least:
            return []
        late = {one.rank: one for one in _late(training, self._rule)}
        before = {one.rank for one in self.slow}
        for rank in training:
            if rank.rank in late or rank.rank in self.found:  # few of perhaps 1,000
                self._count(rank, late.get(rank.rank), step, training, hosts)
        return self._compare(before, hosts, when)

    def _compare(self, before: set[int], hosts: Sequence[HostState], when: float) -> list[str]:
        """Open and close episodes. Returns what there is to say."""
        slow = self.slow
        new = [one for one in slow if one.rank not in before]
        gone = before - {one.rank for one in slow}
        self._close(when, gone)
        self.episodes = [*self.episodes, *(Episode(one, when) for one in new)][-MOST:]
        said = [sentence(new, hosts)] if new else []
        if gone:
            verb = "holds" if len(gone) == 1 else "hold"
            said.append(f"{ranks_text(sorted(gone))} no longer {verb} up the others")
        return said

    def _close(self, when: float, ranks: set[int] | None = None) -> None:
        """Close the episodes of these ranks; of all, where none are given."""
        self.episodes = [
            replace(one, over=when)
            if not one.over and (ranks is None or one.straggler.rank in ranks)
            else one
            for one in self.episodes
        ]

    def _count(
        self,
        rank: RankState,
        late: _Late | None,
        step: int,
        training: Sequence[RankState],
        hosts: Sequence[HostState],
    ) -> None:
        """Take in whether a rank was late at a check."""
        index = rank.rank
        before = self.found.get(rank.rank)
        if late is None:
            self._late_checks.pop(index, None)
            self._calm_checks[index] = self._calm_checks.get(index, 0) + 1
            if before and not (before.is_slow and self._calm_checks[index] < self._rule.checks):
                del self.found[index]
            return
        self._calm_checks.pop(index, None)
        weight = self._rule.crowded if is_crowded(rank, training, hosts) else 1.0
        checks = self._late_checks[index] = self._late_checks.get(index, 0.0) + weight
        was_slow = before is not None and before.is_slow
        since = before.since if before else step
        lasts = (step - since) * late.step
        is_sure = checks >= self._rule.checks and lasts >= self._rule.seconds
        grade = Grade.SLOW if was_slow or is_sure else Grade.SUSPECTED
        reason = why(rank, training, hosts) if grade is Grade.SLOW else ""
        times = (late.ready, late.others, late.step)
        self.found[index] = Straggler(index, rank.host, since, grade, *times, reason)


@dataclass(frozen=True)
class _Late:
    rank: int
    ready: float
    others: float
    step: float


def _late(ranks: Sequence[RankState], rule: Rule) -> list[_Late]:
    """The ranks that are late now."""
    ready = {rank.rank: rank.pace.median("ready") for rank in ranks}
    in_order = sorted(ready.values())
    least = _median_without(in_order, in_order[-1])  # the median of the others is never less
    found = []
    for rank in ranks:
        own = ready[rank.rank]
        if not own > rule.ratio * least:
            continue
        others = _median_without(in_order, own)
        if not own > rule.ratio * others > 0:
            continue
        step = rank.pace.mean("seconds")
        if own - others > rule.share * step:
            found.append(_Late(rank.rank, own, others, step))
    return found


def _median_without(in_order: Sequence[float], value: float) -> float:
    """The median of at least two sorted values, without one that is this."""
    place = bisect_left(in_order, value)
    left = len(in_order) - 1
    low, high = (in_order[index + (index >= place)] for index in ((left - 1) // 2, left // 2))
    return (low + high) / 2


def sentence(slow: Sequence[Straggler], hosts: Sequence[HostState]) -> str:
    """Who holds all others up, by how much, and why: of the slowest, where there are several."""
    worst = max(slow, key=lambda one: one.ready)
    who = ranks_text([one.rank for one in slow])
    where = " and ".join(dict.fromkeys(hosts[one.host].name for one in slow[:NAMES]))
    whose = f"rank {worst.rank} takes " if len(slow) > 1 else ""
    text = (
        f"all ranks wait for {who} on {where}: {whose}{seconds(worst.ready)} of "
        f"{seconds(worst.step)} s per step, others {seconds(worst.others)} s"
    )
    return f"{text}; {worst.reason}" if worst.reason else text
