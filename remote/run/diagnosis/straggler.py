"""Finds ranks that hold all others up, by the time until their last gradient is ready.

No wait for others is part of that time. Step times show nothing: all ranks that wait for each other
take equally long.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Sequence
from enum import StrEnum

from msgspec import Struct
from msgspec.structs import replace

from remote.format import ranks_text, step_time
from remote.run.diagnosis.common_steps import CommonSteps
from remote.run.diagnosis.detector import Report
from remote.run.diagnosis.straggler_cause import (
    SlowReason,
    explain_straggler,
    is_crowded,
    shares_cores,
)
from remote.run.state.host_state import Hosts
from remote.run.state.phases import FATES
from remote.run.state.rank_state import Ranks, RankState
from training.wire.rank_events import StepFinished
from training.wire.step_block import StepColumns


class StragglerRule(Struct, frozen=True):
    """When a rank is late, and when it is slow: late at several checks in a row."""

    least: int = 10
    """Steps that all ranks have to make before the first check."""
    every: int = 5
    """Steps from one check to the next."""
    ratio: float = 1.25
    """A rank is late if its median `ready` of the last steps is more than so many times the median
    of the others. The difference also has to be more than `share` of a step."""
    share: float = 0.10
    """See `ratio`."""
    checks: int = 5
    """A rank is slow once it was late at so many checks in a row, which span at least `seconds`. It
    no longer is once it was on time at as many."""
    seconds: float = 1.0
    """See `checks`."""
    shared_seconds: float = 5.0
    """The same of a rank that shares its cores with others: they take turns at being late, each for
    a second or two."""
    crowded: float = 0.4
    """What a check counts, instead of 1, while the rank's machine is crowded: on such a machine one
    rank is late for a while, then another."""


STRAGGLER_RULE = StragglerRule()
MOST_EPISODES = 100
MOST_HOSTS_NAMED = 3


class Grade(StrEnum):
    """How sure it is that a rank holds the others up."""

    SUSPECTED = "slow?"
    SLOW = "slow"


class Straggler(Struct, frozen=True):
    """A rank that the others wait for. Times in seconds."""

    rank: int
    host: int
    ready: float
    """The time until its last gradient is ready."""
    others: float
    """The median of that time of the other ranks."""
    step: float
    """The time of a whole step."""
    first_late_step: int = 0
    """The step of the first check at which it was late."""
    grade: Grade = Grade.SUSPECTED
    cause: SlowReason | None = None
    """Why it is slow; None if nothing tells."""

    @property
    def reason(self) -> str:
        """Return why it is slow, in words; "" if nothing tells."""
        return self.cause.text if self.cause else ""

    @property
    def factor(self) -> float:
        """Return how many times as long as the others it takes."""
        return self.ready / self.others

    @property
    def is_slow(self) -> bool:
        """Return True if it is sure."""
        return self.grade is Grade.SLOW

    @property
    def mark(self) -> str:
        """Return its mark in a table, "SLOW 7.0x"; "slow?" of one that is only suspected."""
        if not self.is_slow:
            return self.grade.value
        # It takes some checks until one that has caught up is cleared.
        return f"SLOW {self.factor:.1f}x" if self.factor > 1 else "SLOW"


class Episode(Struct, frozen=True):
    """A time in which a rank was slow."""

    straggler: Straggler
    since: float
    over: float = 0.0
    """When it no longer was; 0 before."""


class StragglerDetector:
    """Finds stragglers while a run trains. A `Detector`.

    It checks all ranks after every few steps, as soon as the last rank has reported them.
    """

    def __init__(self, hosts: Hosts, ranks: Ranks, *, waits_for_slowest: bool) -> None:
        """`waits_for_slowest`: ranks wait for each other. Else none of them holds up others."""
        self.by_rank: dict[int, Straggler] = {}
        """Those of the last check."""
        self.episodes: list[Episode] = []
        """Of all attempts, in order."""
        self._hosts = hosts
        self._ranks = ranks
        self._waits_for_slowest = waits_for_slowest
        self._rule = STRAGGLER_RULE
        self._steps = CommonSteps(ranks)
        self._late_checks = defaultdict[int, float](float)
        self._calm_checks = Counter[int]()

    @property
    def slow(self) -> list[Straggler]:
        """Those that hold the others up now, the slowest first; with the times of now."""
        current_stragglers = [self.current(number) for number in self.by_rank]
        slow_ranks = [each for each in current_stragglers if each and each.is_slow]
        return sorted(slow_ranks, key=lambda straggler: -straggler.ready)

    def current(self, number: int) -> Straggler | None:
        """Return the straggler of this rank, with the times of now; None if it is none.

        Those of the last check would differ from what is shown of the ranks beside it. So would a
        rank that was late at the last check, and no longer is: it takes some checks to be cleared.
        """
        straggler = self.by_rank.get(number)
        if straggler is None:
            return None
        present = {rank.rank: rank for rank in self._ranks if rank.pace and rank.phase not in FATES}
        if number not in present or len(present) < 2:
            return straggler
        own_ready = present[number].pace.median("ready")
        ready_times = sorted(rank.pace.median("ready") for rank in present.values())
        others_median = _median_without(ready_times, own_ready)
        if not others_median > 0:
            return straggler
        step_seconds = present[number].pace.means.seconds
        current = replace(straggler, ready=own_ready, others=others_median, step=step_seconds)
        return current if _is_late(current, self._rule) else None

    def take_report(self, report: Report, rank: RankState, when: float) -> list[str]:
        """See `Detector.take_report`."""
        if not isinstance(report, StepFinished) or not math.isfinite(report.seconds):
            return []
        checks = self._find_due_checks((rank.step,), rank)
        self._steps.append(rank, (rank.step,), (report.ready,), (report.seconds,))
        return [remark for step in checks for remark in self._check_ranks(step, when)]

    def find_checks(self, steps: StepColumns, rank: RankState) -> Sequence[int]:
        """See `Detector.find_checks`."""
        return self._find_due_checks(steps.step, rank)

    def take_steps(
        self, steps: StepColumns, rank: RankState, times: Sequence[float]
    ) -> list[tuple[float, str]]:
        """See `Detector.take_steps`."""
        checks = self._find_due_checks(steps.step, rank)
        self._steps.append(rank, steps.step, steps.ready, steps.seconds)
        # One at the most: it is the last of these steps.
        return [
            (times[-1], remark) for step in checks for remark in self._check_ranks(step, times[-1])
        ]

    def _find_due_checks(self, steps: Sequence[int], rank: RankState) -> list[int]:
        """Return after which of these steps, which follow one another, all ranks are checked."""
        if not self._waits_for_slowest:
            return []
        every = self._rule.every
        next_check = -(-steps[0] // every) * every
        return self._steps.find_new(range(next_check, steps[-1] + 1, every), rank)

    def restart(self, ranks: Ranks, when: float) -> None:
        """See `Detector.restart`."""
        self._ranks = ranks
        self._steps = CommonSteps(ranks)
        self.by_rank.clear()
        self._late_checks.clear()
        self._calm_checks.clear()
        self._close(when)

    def _check_ranks(self, step: int, when: float) -> list[str]:
        """Check the ranks after a step that all have reported. Return remarks for the log."""
        self._steps.begin_check(step)
        compared_ranks = self._steps.compared_ranks
        fewest_steps = min(self._steps.count(rank, step) for rank in compared_ranks)
        if fewest_steps < self._rule.least or len(compared_ranks) < 2:
            return []
        late_ranks = self._find_late(compared_ranks, step)
        slow_before = self._find_sure()
        for rank in compared_ranks:
            if rank.rank in late_ranks or rank.rank in self.by_rank:  # few of perhaps 1,000
                self._record_check(rank, late_ranks.get(rank.rank), compared_ranks, step)
        return self._update_episodes(slow_before, when)

    def _find_late(self, ranks: Ranks, step: int) -> dict[int, Straggler]:
        """Return the ranks that are late at a step, by number."""
        ready_times = {rank.rank: self._steps.median_ready(rank, step) for rank in ranks}
        sorted_times = sorted(ready_times.values())
        # Without the greatest, the median is the least of all: few ranks need their own.
        least_median = _median_without(sorted_times, sorted_times[-1])
        late_ranks = {}
        for rank in ranks:
            own_ready = ready_times[rank.rank]
            if not own_ready > self._rule.ratio * least_median:
                continue
            others_median = _median_without(sorted_times, own_ready)
            step_seconds = self._steps.mean_seconds(rank, step)
            candidate = Straggler(rank.rank, rank.host, own_ready, others_median, step_seconds)
            if _is_late(candidate, self._rule):
                late_ranks[rank.rank] = candidate
        return late_ranks

    def _find_sure(self) -> set[int]:
        return {straggler.rank for straggler in self.by_rank.values() if straggler.is_slow}

    def _update_episodes(self, slow_before: set[int], when: float) -> list[str]:
        """Open and close episodes. Return remarks for the log."""
        slow_ranks = self._find_sure()
        new_stragglers = [self.by_rank[number] for number in slow_ranks - slow_before]
        new_stragglers.sort(key=lambda straggler: -straggler.ready)
        recovered_ranks = slow_before - slow_ranks
        self._close(when, recovered_ranks)
        self.episodes += [Episode(straggler, when) for straggler in new_stragglers]
        self.episodes = self.episodes[-MOST_EPISODES:]
        remarks = [describe_stragglers(new_stragglers, self._hosts)] if new_stragglers else []
        if recovered_ranks:
            verb = "holds" if len(recovered_ranks) == 1 else "hold"
            remarks.append(f"{ranks_text(sorted(recovered_ranks))} no longer {verb} up the others")
        return remarks

    def _close(self, when: float, ranks: set[int] | None = None) -> None:
        """Close the episodes of these ranks; of all, if none are given."""
        for episode_index, episode in enumerate(self.episodes):
            if not episode.over and (ranks is None or episode.straggler.rank in ranks):
                self.episodes[episode_index] = replace(episode, over=when)

    def _record_check(
        self,
        rank: RankState,
        late: Straggler | None,
        training: Ranks,
        step: int,
    ) -> None:
        """Take in that a rank was late at a check, or (None) was not."""
        rank_number = rank.rank
        earlier_straggler = self.by_rank.get(rank_number)
        was_slow = earlier_straggler is not None and earlier_straggler.is_slow
        if late is None:
            # One check in time is enough to start anew; it takes several to be cleared.
            self._late_checks.pop(rank_number, None)
            self._calm_checks[rank_number] += 1
            if earlier_straggler and not (
                was_slow and self._calm_checks[rank_number] < self._rule.checks
            ):
                del self.by_rank[rank_number]
            return
        self._calm_checks.pop(rank_number, None)
        weight = self._rule.crowded if is_crowded(rank, training, self._hosts) else 1.0
        self._late_checks[rank_number] += weight
        first_late_step = earlier_straggler.first_late_step if earlier_straggler else step
        late = replace(late, first_late_step=first_late_step)
        late_seconds = (step - late.first_late_step) * late.step
        is_shared = shares_cores(rank, training, self._hosts)
        least_seconds = self._rule.shared_seconds if is_shared else self._rule.seconds
        is_often_late = self._late_checks[rank_number] >= self._rule.checks
        is_sure = is_often_late and late_seconds >= least_seconds
        if was_slow or is_sure:
            cause = explain_straggler(rank, training, self._hosts)
            late = replace(late, grade=Grade.SLOW, cause=cause)
        self.by_rank[rank_number] = late


def _is_late(candidate: Straggler, rule: StragglerRule) -> bool:
    """Return True if a rank is busy for clearly longer than the others are."""
    difference = candidate.ready - candidate.others
    return (
        candidate.ready > rule.ratio * candidate.others > 0
        and difference > rule.share * candidate.step
    )


def _median_without(sorted_values: Sequence[float], value: float) -> float:
    """Return the median of at least two sorted values without one that is this."""
    value_place = bisect_left(sorted_values, value)
    remaining = len(sorted_values) - 1
    low_index = (remaining - 1) // 2
    high_index = remaining // 2
    # Behind the value that is left out, all others have moved down by one.
    low_index += low_index >= value_place
    high_index += high_index >= value_place
    return (sorted_values[low_index] + sorted_values[high_index]) / 2


def name_stragglers(slow: Sequence[Straggler], hosts: Hosts, *, is_past: bool = False) -> str:
    """Return who holds all others up: "all ranks wait for rank 2 on node3". `is_past`: did so."""
    names_of_ranks = ranks_text([straggler.rank for straggler in slow])
    host_names = [hosts[straggler.host].name for straggler in slow[:MOST_HOSTS_NAMED]]
    hosts_text = " and ".join(dict.fromkeys(host_names))
    verb = "waited" if is_past else "wait"
    return f"all ranks {verb} for {names_of_ranks} on {hosts_text}"


def explain_slowness(straggler: Straggler) -> str:
    """Return why a rank is slow, and by how much: "it has 0.5 cores, others 4; busy 80 of 100 ms
    per step, others 20 ms"."""
    times_text = _describe_times(straggler)
    return f"{straggler.reason}; {times_text}" if straggler.reason else times_text


def _describe_times(straggler: Straggler) -> str:
    step_text = step_time(straggler.step)
    ready_text = step_time(straggler.ready).removesuffix(step_text.partition(" ")[2]).rstrip()
    return f"busy {ready_text} of {step_text} per step, others {step_time(straggler.others)}"


def describe_stragglers(slow: Sequence[Straggler], hosts: Hosts) -> str:
    """Return who holds all others up, by how much, and why, in a sentence.

    Of several, the times and the reason are those of the slowest.
    """
    slowest = max(slow, key=lambda straggler: straggler.ready)
    whose_text = f"rank {slowest.rank} is " if len(slow) > 1 else ""
    sentence = f"{name_stragglers(slow, hosts)}: {whose_text}{_describe_times(slowest)}"
    return f"{sentence}; {slowest.reason}" if slowest.reason else sentence
