"""Doubts on speed-ups: can more nodes be the reason that a run is faster than another?

Adding nodes divides the work: N nodes are at most N times as fast as one. Where more was measured,
or the ranks had other numbers of threads, the figure is in doubt, and nobody should use it. Pure.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from remote.format import count, listed
from remote.metrics.conditions import Conditions
from remote.plan.plan import Script
from training.job import Job, names_by_effect
from training.setting import Effect

if TYPE_CHECKING:  # importing numpy takes a while
    from remote.statistics.interval import Interval

EFFICIENT = 1.05
"""The efficiency up to which a speed-up may be what more nodes bring: no measurement is exact."""
CERTAIN = 1.01
"""The efficiency that the interval of a speed-up must not lie beyond as a whole."""


class DoubtKind(StrEnum):
    """What is wrong with a comparison."""

    TOO_FAST = "too fast"
    """More than so many times as many nodes or ranks can be."""
    OTHER_THREADS = "other threads"
    """The ranks had other numbers of threads."""


@dataclass(frozen=True)
class Side:
    """One of the two that are compared: a run, or the runs of a cell of a study."""

    name: str
    nodes: int
    ranks: int
    workers: int
    """The ranks that train; others only serve them."""
    conditions: Conditions
    batch: int = 0
    """The global batch size; 0 if it is not known."""

    @property
    def threads(self) -> tuple[int, ...]:
        """Return the numbers of threads of a rank, as far as they are known."""
        return self.conditions.threads


@dataclass(frozen=True)
class Doubt:
    """Why the times of two do not show what more nodes bring."""

    kind: DoubtKind
    more: Side
    """The side that has at least as many ranks that train as the other."""
    fewer: Side
    speed_up: float
    """How many times as fast `more` is."""
    low: float
    high: float
    """The bounds of the speed-up; NaN if they are not known."""
    differing: tuple[str, ...] = ()
    """The names of other settings that differ."""

    @property
    def most(self) -> float:
        """Return how many times as fast `more` can be at best."""
        return self.more.workers / self.fewer.workers

    @property
    def pair(self) -> frozenset[str]:
        """Return the names of the two sides."""
        return frozenset({self.more.name, self.fewer.name})


def find_doubt(
    side: Side,
    other: Side,
    ratio: Interval,
    differing: Sequence[str] = (),
    *,
    is_speed_up: bool = False,
) -> Doubt | None:
    """Return what makes a comparison doubtful, or None.

    `ratio` is the time of `side` divided by that of `other`. `differing` names settings that
    differ, besides the batch and where they run: they may well make one of the two faster than its
    nodes alone would. `is_speed_up`: the ratio is shown as what more nodes bring all the same.
    """
    more = side
    fewer = other
    speed_up = ratio.inverse()
    # More ranks that train, not more hosts: these are what divides the work.
    if more.workers < fewer.workers:
        more = other
        fewer = side
        speed_up = ratio
    if not math.isfinite(speed_up.value):
        return None
    is_of_nodes = is_speed_up or not differing
    if is_of_nodes and _is_too_fast(more, fewer, speed_up):
        kind = DoubtKind.TOO_FAST
    elif _has_other_threads(more, fewer):
        kind = DoubtKind.OTHER_THREADS
    else:
        return None
    return Doubt(kind, more, fewer, speed_up.value, speed_up.low, speed_up.high, tuple(differing))


def _is_too_fast(more: Side, fewer: Side, speed_up: Interval) -> bool:
    most_possible = more.workers / fewer.workers
    is_beyond = speed_up.value > EFFICIENT * most_possible or speed_up.low > CERTAIN * most_possible
    return most_possible > 1 and is_beyond


def _has_other_threads(more: Side, fewer: Side) -> bool:
    # Several ranks of a host share its cores, so fewer ranks there have more threads each.
    are_equally_packed = more.ranks * fewer.nodes == fewer.ranks * more.nodes
    return are_equally_packed and _threads_differ(more, fewer)


def _threads_differ(more: Side, fewer: Side) -> bool:
    are_known = bool(more.threads and fewer.threads)
    return are_known and more.threads != fewer.threads


def differing_work(work: Job | Script, other: Job | Script, *, is_alone: bool) -> tuple[str, ...]:
    """Return the names of settings that change how fast ranks are, and differ. `is_alone`: one of
    the two has a single rank, which has nothing to synchronise."""
    if isinstance(work, Script) or isinstance(other, Script):
        return () if work == other else ("arguments",)
    # A rank that is alone synchronises nothing, so that its method makes no difference.
    effects = (Effect.COMPUTATION,) if is_alone else (Effect.COMPUTATION, Effect.METHOD)
    compared_names = names_by_effect(*effects)
    return tuple(
        setting for setting in compared_names if getattr(work, setting) != getattr(other, setting)
    )


def objects(
    doubts: Sequence[Doubt], names: Mapping[str, str] = MappingProxyType({})
) -> list[dict[str, Any]]:
    """Return doubts as JSON-ready objects, with their words.

    `names` has other names for runs, to stand in the words.
    """
    doubt_objects = []
    for doubt in doubts:
        doubt_words = {
            "kind": doubt.kind.value,
            "most": doubt.most,
            "text": sentences([doubt], names)[0],
        }
        doubt_objects.append(asdict(doubt) | doubt_words)
    return doubt_objects


# In words -----------------------------------------------------------------------------------------


def sentences(
    doubts: Sequence[Doubt], names: Mapping[str, str] = MappingProxyType({})
) -> list[str]:
    """Return doubts in words, those that have the same reasons in one sentence.

    `names` has other names for runs.
    """
    similar_doubts = defaultdict[tuple[object, ...], list[Doubt]](list)
    # The greatest comes first, and stands for the others of its sentence.
    for doubt in sorted(doubts, key=lambda doubt: -doubt.speed_up):
        # Sides that differ only in the name of the faster one have the same reasons.
        reason_key = (doubt.kind, replace(doubt.more, name=""), doubt.fewer, doubt.differing)
        similar_doubts[reason_key].append(doubt)
    too_fast = []
    other_threads = []
    for doubt_group in similar_doubts.values():
        worst = doubt_group[0]
        faster_names = [names.get(doubt.more.name, doubt.more.name) for doubt in doubt_group]
        if worst.kind is DoubtKind.TOO_FAST:
            too_fast.append(_describe_too_fast(worst, faster_names))
        else:
            slower_name = names.get(worst.fewer.name, worst.fewer.name)
            other_threads.append(_describe_other_threads(worst, faster_names, slower_name))
    return list(dict.fromkeys(too_fast + other_threads))


def _describe_too_fast(worst: Doubt, faster: Sequence[str]) -> str:
    """Say that more was measured than so many nodes can bring."""
    unit, _, _ = _count_units(worst)
    impossible = f"more than {worst.most:.3g} is not possible by adding {unit}s"
    reasons = "; ".join((*_list_reasons(worst), *_describe_chance(worst)))
    closing = "Do not use this figure."
    if worst.differing:
        closing = f"This is not what more {unit}s bring."
    return f"{_describe_measured(worst, faster)}: {impossible}; {reasons}. {closing}"


def _describe_other_threads(worst: Doubt, faster: Sequence[str], slower: str) -> str:
    """Say that the ranks had other numbers of threads."""
    fewest_threads = min(*worst.more.threads, *worst.fewer.threads)
    advice = (
        f"Repeat the runs with threads = {fewest_threads} for each host in hosts.toml, or on this "
        "machine in a study, which does so by itself."
    )
    # Both have equally many ranks: this is a comparison of settings, not a speed-up.
    if worst.most == 1:
        more_threads = _format_threads(worst.more)
        fewer_threads = _format_range(worst.fewer.threads)
        threads_text = f"{listed(faster)} had {more_threads} per rank, {slower} {fewer_threads}"
        return f"{threads_text}: their times do not compare. {advice}"
    unit, _, _ = _count_units(worst)
    measured_text = f"{_describe_measured(worst, faster)}, but {_compare_threads(worst)}"
    return f"{measured_text}: this is not what more {unit}s bring. {advice}"


def _describe_measured(worst: Doubt, faster: Sequence[str]) -> str:
    """Say what was measured: "4 nodes were measured 19.1 times as fast as one (ring and ddp)"."""
    unit, num_more, num_fewer = _count_units(worst)
    fewer_text = "one" if num_fewer == 1 else str(num_fewer)
    up_to = "up to " if len(faster) > 1 else ""
    times_text = f"{up_to}{worst.speed_up:.3g} times"
    measured_text = f"{count(num_more, unit)} were measured {times_text} as fast as {fewer_text}"
    return f"{measured_text} ({listed(faster)})"


def _count_units(doubt: Doubt) -> tuple[str, int, int]:
    """Return what is counted if the two are compared, and how many of it they have."""
    more = doubt.more
    fewer = doubt.fewer
    # The unit whose numbers give the ratio that the sentence calls possible.
    if more.nodes == doubt.most * fewer.nodes:
        return "node", more.nodes, fewer.nodes
    if more.ranks == doubt.most * fewer.ranks:
        return "rank", more.ranks, fewer.ranks
    return "training rank", more.workers, fewer.workers


def _list_reasons(doubt: Doubt) -> tuple[str, ...]:
    """Return what may have made the figure what it is."""
    more = doubt.more
    fewer = doubt.fewer
    reasons = []
    if _threads_differ(more, fewer):
        reasons.append(_compare_threads(doubt))
    if more.batch and fewer.batch and more.batch != fewer.batch:
        reasons.append(f"their batches have {fewer.batch} and {more.batch} samples")
    if doubt.differing:
        reasons.append(f"they also differ in {listed(doubt.differing)}")
    if more.conditions.shares_machine:
        reasons.append("the hosts share one machine")
    if not reasons:
        runs_text = _name_runs(fewer)
        reasons.append(f"{runs_text} were perhaps disturbed, or had too little memory or cache")
    return tuple(reasons)


def _describe_chance(doubt: Doubt) -> Iterator[str]:
    """Say if so much may have been measured by chance."""
    if not math.isfinite(doubt.low):
        yield "so few runs do not show whether it is chance"
    elif doubt.low <= doubt.most:
        yield f"it may be chance (95%: {doubt.low:.3g} to {doubt.high:.3g})"


def _compare_threads(doubt: Doubt) -> str:
    others_text = _format_range(doubt.more.threads)
    own_text = _format_threads(doubt.fewer)
    return f"{_name_runs(doubt.fewer)} had {own_text} per rank, the others {others_text}"


def _name_runs(side: Side) -> str:
    return "the runs on one node" if side.nodes == 1 else f"the runs on {side.nodes} nodes"


def _format_threads(side: Side) -> str:
    """Format threads in words: "1 thread", "2 to 8 threads"."""
    return f"{_format_range(side.threads)} {'thread' if side.threads == (1,) else 'threads'}"


def _format_range(numbers: Sequence[int]) -> str:
    lowest = numbers[0]
    highest = numbers[-1]
    return f"{lowest}" if lowest == highest else f"{lowest} to {highest}"
