"""Whether more nodes can be the reason that a run is faster than another, and what else may be.

Adding nodes divides the work: N nodes are at most N times as fast as one. Where more was measured,
or the ranks had other numbers of threads, the figure is in doubt, and nobody should use it. Pure.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from remote.format import count, listed
from remote.metrics.conditions import Conditions
from remote.plan.plan import Script
from training.job import INCIDENTAL, Job

if TYPE_CHECKING:  # numpy takes a while to import
    from remote.statistics.interval import Interval

EFFICIENT = 1.05
"""The efficiency up to which a speed-up may be what more nodes bring: no measurement is exact."""
CERTAIN = 1.01
"""The efficiency that the interval of a speed-up must not lie beyond as a whole."""
OF_SYNC = {"sync", "sync_option"}
"""Settings that may make several ranks faster, but not beyond one rank, which has no sync."""
NOT_OF_WORK = INCIDENTAL | {"seed", "batch_size"} | OF_SYNC
"""Settings that do not change what a rank computes. The batch is looked at by itself."""


class Kind(StrEnum):
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
    """The global batch; 0 where it is not known."""

    @property
    def threads(self) -> tuple[int, ...]:
        """The numbers of threads of a rank, where they are known."""
        return self.conditions.threads


@dataclass(frozen=True)
class Doubt:
    """Why the times of two do not show what more nodes bring. `more` has at least as many ranks
    that train as `fewer`, and `speed_up` is how many times as fast it is; its bounds are NaN where
    they are not known. `differing` are other settings that differ, by their names."""

    kind: Kind
    more: Side
    fewer: Side
    speed_up: float
    low: float
    high: float
    differing: tuple[str, ...] = ()

    @property
    def most(self) -> float:
        """How many times as fast it can be at best."""
        return self.more.workers / self.fewer.workers

    @property
    def pair(self) -> frozenset[str]:
        """The names of the two."""
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
    nodes alone would. `is_speed_up`: the ratio is told as what more nodes bring all the same.
    """
    more = side
    fewer = other
    speed_up = ratio.inverse()
    if more.workers < fewer.workers:
        more = other
        fewer = side
        speed_up = ratio
    if not math.isfinite(speed_up.value):
        return None
    is_of_nodes = is_speed_up or not differing
    if is_of_nodes and _is_too_fast(more, fewer, speed_up):
        kind = Kind.TOO_FAST
    elif _has_other_threads(more, fewer):
        kind = Kind.OTHER_THREADS
    else:
        return None
    bounds = speed_up.low, speed_up.high
    return Doubt(kind, more, fewer, speed_up.value, *bounds, tuple(differing))


def _is_too_fast(more: Side, fewer: Side, speed_up: Interval) -> bool:
    most = more.workers / fewer.workers
    is_beyond = speed_up.value > EFFICIENT * most or speed_up.low > CERTAIN * most
    return most > 1 and is_beyond


def _has_other_threads(more: Side, fewer: Side) -> bool:
    # Several ranks of a host share its cores, so fewer ranks there have more threads each.
    is_like = more.ranks * fewer.nodes == fewer.ranks * more.nodes
    is_known = bool(more.threads and fewer.threads)
    return is_like and is_known and more.threads != fewer.threads


def differing_work(work: Job | Script, other: Job | Script, *, is_alone: bool) -> tuple[str, ...]:
    """Return the names of settings that change how fast ranks are, and differ. `is_alone`: one of
    the two has a single rank, which has nothing to synchronise."""
    if isinstance(work, Script) or isinstance(other, Script):
        return () if work == other else ("arguments",)
    ignored = NOT_OF_WORK if is_alone else NOT_OF_WORK - OF_SYNC
    names = [one.name for one in fields(Job) if one.name not in ignored]
    return tuple(name for name in names if getattr(work, name) != getattr(other, name))


def objects(
    doubts: Sequence[Doubt], names: Mapping[str, str] = MappingProxyType({})
) -> list[dict[str, Any]]:
    """Return doubts as JSON-ready objects, with their words. `names`: how runs are called there."""
    return [
        asdict(one) | {"kind": one.kind.value, "most": one.most, "text": sentences([one], names)[0]}
        for one in doubts
    ]


# In words -----------------------------------------------------------------------------------------


def sentences(
    doubts: Sequence[Doubt], names: Mapping[str, str] = MappingProxyType({})
) -> list[str]:
    """Return doubts in words; those that have the same reasons in one sentence. `names`: how runs
    are called there, where they are called otherwise."""
    alike: dict[tuple[object, ...], list[Doubt]] = {}
    for one in sorted(doubts, key=lambda one: (_ORDER[one.kind], -one.speed_up)):
        key = (one.kind, _numbers(one.more), _numbers(one.fewer), one.fewer.name, _reasons(one))
        alike.setdefault(key, []).append(one)
    told: dict[str, None] = {}
    for several in alike.values():
        worst = several[0]
        called = [names.get(one.more.name, one.more.name) for one in several]
        other = names.get(worst.fewer.name, worst.fewer.name)
        told[_WORDS[worst.kind](worst, called, other)] = None
    return list(told)


def _numbers(side: Side) -> tuple[object, ...]:
    return side.nodes, side.ranks, side.workers, side.threads


def _too_fast(worst: Doubt, called: Sequence[str], other: str) -> str:
    """Say that more was measured than so many nodes can bring."""
    unit, _, _ = _counted(worst)
    impossible = f"more than {worst.most:.3g} is not possible by adding {unit}s"
    why = "; ".join((*_reasons(worst), *_chance(worst)))
    end = f"This is not what more {unit}s bring." if worst.differing else "Do not use this figure."
    return f"{_measured(worst, called)}: {impossible}; {why}. {end}"


def _other_threads(worst: Doubt, called: Sequence[str], other: str) -> str:
    """Say that the ranks had other numbers of threads."""
    least = min(*worst.more.threads, *worst.fewer.threads)
    advice = (
        f"Repeat the runs with threads = {least} for each host in hosts.toml, or on this machine "
        "in a study, which does so by itself."
    )
    if worst.most == 1:
        mine = _threads(worst.more)
        theirs = _range(worst.fewer.threads)
        had = f"{listed(called)} had {mine} per rank, {other} {theirs}"
        return f"{had}: their times do not compare. {advice}"
    unit, _, _ = _counted(worst)
    measured = f"{_measured(worst, called)}, but {_said_threads(worst)}"
    return f"{measured}: this is not what more {unit}s bring. {advice}"


_WORDS: Mapping[Kind, Callable[[Doubt, Sequence[str], str], str]] = {
    Kind.TOO_FAST: _too_fast,
    Kind.OTHER_THREADS: _other_threads,
}
_ORDER = {kind: place for place, kind in enumerate(_WORDS)}


def _measured(worst: Doubt, called: Sequence[str]) -> str:
    """What was measured: "4 nodes were measured 19.1 times as fast as one (ring and ddp)"."""
    unit, many, few = _counted(worst)
    than = "one" if few == 1 else str(few)
    up_to = "up to " if len(called) > 1 else ""
    times = f"{up_to}{worst.speed_up:.3g} times"
    return f"{count(many, unit)} were measured {times} as fast as {than} ({listed(called)})"


def _counted(one: Doubt) -> tuple[str, int, int]:
    """What is counted where the two are compared, and how many of it they have."""
    for unit, many, few in (
        ("node", one.more.nodes, one.fewer.nodes),
        ("rank", one.more.ranks, one.fewer.ranks),
    ):
        if many == one.most * few:
            return unit, many, few
    return "training rank", one.more.workers, one.fewer.workers


def _reasons(one: Doubt) -> tuple[str, ...]:
    """What may have made the figure what it is."""
    reasons = []
    has_threads = bool(one.more.threads and one.fewer.threads)
    if has_threads and one.more.threads != one.fewer.threads:
        reasons.append(_said_threads(one))
    if one.more.batch and one.fewer.batch and one.more.batch != one.fewer.batch:
        reasons.append(f"their batches have {one.fewer.batch} and {one.more.batch} samples")
    if one.differing:
        reasons.append(f"they also differ in {listed(one.differing)}")
    if one.more.conditions.shares_machine:
        reasons.append("the hosts share one machine")
    if not reasons:
        who = _those(one.fewer)
        reasons.append(f"{who} were perhaps disturbed, or had too little memory or cache")
    return tuple(reasons)


def _chance(one: Doubt) -> Iterator[str]:
    """Whether so much may have been measured by chance."""
    if not math.isfinite(one.low):
        yield "so few runs do not show whether it is chance"
    elif one.low <= one.most:
        yield f"it may be chance (95%: {one.low:.3g} to {one.high:.3g})"


def _said_threads(one: Doubt) -> str:
    return (
        f"{_those(one.fewer)} had {_threads(one.fewer)} per rank, the others "
        f"{_range(one.more.threads)}"
    )


def _those(side: Side) -> str:
    on = "one node" if side.nodes == 1 else f"{side.nodes} nodes"
    return f"the runs on {on}"


def _threads(side: Side) -> str:
    """Threads in words: "2 threads", "2 to 8 threads"."""
    is_one = side.threads == (1,)
    return f"{_range(side.threads)} thread{'' if is_one else 's'}"


def _range(numbers: Sequence[int]) -> str:
    least = numbers[0]
    most = numbers[-1]
    return f"{least}" if least == most else f"{least} to {most}"
