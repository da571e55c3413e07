"""Seconds per iteration of groups: intervals, stability, comparisons, speed-up and efficiency."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from remote.metrics.compare import Compared, differing, side
from remote.metrics.compare import compare as compare_runs
from remote.metrics.doubt import Doubt, find_doubt
from remote.metrics.run import RunFigures
from remote.metrics.steps import FIRST, LAST, Floats
from remote.statistics.interval import Interval, Method, interval, known
from remote.statistics.ratio import Comparison, compare, mean_ratio, scaling
from remote.statistics.stability import Stability, stability
from tui.report.subject import Group, Subject


@dataclass(frozen=True)
class Timed:
    """A group. `seconds` is per iteration by the reference's rule, over runs, and of a single run
    over its iterations. `shares` are p50, p99 and the most of single steps of ranks. What is not
    known is None. `doubt` says why what it is `against` shows nothing, `speed_up_doubt` why its
    speed-up and its efficiency do not."""

    group: Group
    seconds: Interval
    stability: Stability
    shares: tuple[float, ...]
    against: Comparison | None = None
    speed_up: Interval | None = None
    efficiency: Interval | None = None
    doubt: Doubt | None = None
    speed_up_doubt: Doubt | None = None

    @property
    def doubts(self) -> list[Doubt]:
        """Why its comparison and its speed-up show nothing."""
        return [one for one in (self.speed_up_doubt, self.doubt) if one]


@dataclass(frozen=True)
class Timing:
    """All groups that have steps, in order. `left_out` are runs that comparisons left out as
    outliers, as "LABEL #REPETITION". `means` has, for each line of which several groups are
    compared, how many times as fast it is on the geometric mean. `noise` is the standard deviation
    from run to run, as a share; NaN where it is not known. `per_sample`: comparisons and speed-ups
    are those of the time per sample, because groups have batches of other sizes."""

    rows: tuple[Timed, ...]
    means: Mapping[str, Interval] = field(default_factory=dict)
    left_out: tuple[str, ...] = ()
    noise: float = math.nan
    per_sample: bool = False

    @property
    def doubts(self) -> list[Doubt]:
        """Why comparisons and speed-ups show nothing, once for each two groups."""
        return list({one.pair: one for row in self.rows for one in row.doubts}.values())

    def of(self, group: Group) -> Timed | None:
        """The row of a group; None where it has no steps."""
        return next((row for row in self.rows if row.group is group), None)


def timing(subject: Subject) -> Timing:
    """Time the groups of a subject."""
    timed = {at: _timed(group) for at, group in enumerate(subject.groups)}
    measured = {at: row for at, row in timed.items() if math.isfinite(row.seconds.value)}
    if not subject.is_study:
        return _of_runs(subject, measured)
    found = _of_study(subject, measured)
    return replace(found, rows=tuple(_doubted(subject, found, row) for row in found.rows))


def _doubted(subject: Subject, found: Timing, row: Timed) -> Timed:
    """The row with what makes its figures doubtful."""
    at = subject.groups.index(row.group)
    other, base = (
        found.of(subject.groups[number]) if number is not None else None
        for number in (subject.references[at], subject.baseline)
    )
    return replace(
        row,
        doubt=_doubt(row, other, row.against.ratio) if other and row.against else None,
        speed_up_doubt=_doubt(row, base, row.speed_up.inverse(), is_speed_up=True)
        if base and base is not row and row.speed_up
        else None,
    )


def _doubt(row: Timed, other: Timed, ratio: Interval, *, is_speed_up: bool = False) -> Doubt | None:
    mine = row.group
    theirs = other.group
    sides = side(mine.label, mine.all), side(theirs.label, theirs.all)
    names = differing(mine.all[0], theirs.all[0])
    links = ("link",) if mine.link != theirs.link else ()
    return find_doubt(*sides, ratio, names + links, is_speed_up=is_speed_up)


def iterations(subject: Subject) -> str:
    """Which iterations are averaged: "iterations 2 to 8"."""
    ends = {FIRST - 1 + _most(run) for run in subject.runs if len(run.steps)}
    last = max(ends, default=LAST)
    fewer = ", or to the last one of a run that has fewer" if len(ends) > 1 else ""
    return f"iterations {FIRST} to {max(FIRST, last)}{fewer}"


def rule(subject: Subject) -> str:
    """What a time per iteration is the mean of."""
    is_repeated = any(len(group.runs) > 1 for group in subject.groups)
    over = ", then the geometric mean over runs" if is_repeated else ""
    return f"the mean over ranks of {iterations(subject)}{over}"


def _most(run: RunFigures) -> int:
    """How many iterations of a rank are averaged, at most."""
    return int(np.unique(run.steps.early().rank, return_counts=True)[1].max(initial=0))


def table(groups: tuple[Group, ...]) -> Floats:
    """Seconds per iteration: repetitions × groups, NaN where there is no run."""
    blocks = max((max(group.runs, default=0) for group in groups), default=0)
    values = np.full((blocks, len(groups)), np.nan)
    for column, group in enumerate(groups):
        for number, run in group.runs.items():
            values[number - 1, column] = run.step_seconds()
    return values


def _timed(group: Group) -> Timed:
    values = [run.step_seconds() for run in group.all]
    steps = [run.steps.early().column("seconds") for run in group.all]
    seconds = np.concatenate(steps) if steps else np.array([])
    seconds = seconds[np.isfinite(seconds)]
    shares = np.percentile(seconds, [50, 99, 100]).tolist() if seconds.size else [math.nan] * 3
    return Timed(group, known(interval(values)), stability(values), tuple(shares))


def _of_study(subject: Subject, timed: dict[int, Timed]) -> Timing:
    """Compare in blocks: a run is one number."""
    values = table(subject.groups)
    sizes = np.array([group.batch for group in subject.groups], dtype=np.float64)
    per_sample = sizes.min() > 0 and sizes.min() < sizes.max()
    if per_sample:
        values = values / sizes
    pairs = [
        (at, other)
        for at, other in enumerate(subject.references)
        if other is not None and at in timed and other in timed
    ]
    found = compare(values, pairs) if pairs else None
    for one in found.pairs if found else ():
        timed[one.cell] = replace(timed[one.cell], against=one)
    if subject.baseline in timed:
        workers = [group.ranks for group in subject.groups]
        for scaled in scaling(values, subject.baseline, workers):
            if scaled.cell in timed:
                timed[scaled.cell] = replace(
                    timed[scaled.cell], speed_up=scaled.speed_up, efficiency=scaled.efficiency
                )
    left_out = [
        f"{subject.groups[column].label} #{block + 1}"
        for block, column in (found.left_out if found else ())
    ]
    noise = found.noise if found else math.nan
    return Timing(
        tuple(timed.values()),
        _means(subject, values, pairs),
        tuple(left_out),
        noise,
        bool(per_sample),
    )


def _means(
    subject: Subject, values: Floats, pairs: Sequence[tuple[int, int]]
) -> dict[str, Interval]:
    lines: dict[str, list[tuple[int, int]]] = {}
    for pair in pairs:
        line, other = (subject.groups[at].line for at in pair)
        if line != other:
            lines.setdefault(line, []).append(pair)
    return {
        line: known(mean_ratio(values, several)).inverse()
        for line, several in lines.items()
        if len(several) > 1
    }


def _of_runs(subject: Subject, timed: dict[int, Timed]) -> Timing:
    """Compare single runs by their iterations with the first one that has some."""
    if not timed:
        return Timing(())
    rows = list(timed.values())
    if len(rows) == 1:
        [one] = compare_runs([rows[0].group.all[0]])
        return Timing((replace(rows[0], seconds=one.seconds),))
    compared = compare_runs([row.group.all[0] for row in rows])
    return Timing(
        tuple(_scaled(row, one, rows[0]) for row, one in zip(rows, compared, strict=True)),
        per_sample=any(one.per_sample for one in compared),
    )


def _scaled(row: Timed, one: Compared, first: Timed) -> Timed:
    """A run beside the first one: as many times as fast, per sample if their batches differ."""
    runs = one.seconds.runs
    own = Interval(1.0, 1.0, 1.0, runs, Method.EXACT)
    speed_up = one.against.ratio.inverse() if one.against else own
    share = first.group.ranks / row.group.ranks
    return replace(
        row,
        seconds=one.seconds,
        against=one.against,
        doubt=_doubt(row, first, one.against.ratio) if one.against else None,
        speed_up_doubt=_doubt(row, first, one.against.ratio, is_speed_up=True)
        if one.against
        else None,
        speed_up=speed_up,
        efficiency=replace(
            speed_up,
            value=speed_up.value * share,
            low=speed_up.low * share,
            high=speed_up.high * share,
        ),
    )
