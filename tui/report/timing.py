"""Seconds per iteration of groups: intervals, stability, comparisons, speed-up and efficiency."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from remote.metrics.compare import ComparedRun, compare_runs, differing, make_side
from remote.metrics.doubt import Doubt, find_doubt
from remote.metrics.run import RunFigures
from remote.metrics.steps import FIRST, LAST, Floats
from remote.statistics.comparison import (
    Comparison,
    compare_cells,
    mean_ratio,
    measure_scaling,
)
from remote.statistics.interval import Interval, IntervalMethod, hide_few, mean_interval
from remote.statistics.stability import Stability, check_stability
from tui.report.subject import ReportSubject, RunGroup


@dataclass(frozen=True)
class GroupTiming:
    """The times of a group that has steps."""

    group: RunGroup
    seconds: Interval
    """Seconds per iteration by the assignment's rule, over runs; of a single run over its
    iterations."""
    stability: Stability
    percentiles: tuple[float, ...]
    """p50, p99 and the most of single iterations of ranks."""
    against: Comparison | None = None
    """The comparison with its reference."""
    speed_up: Interval | None = None
    efficiency: Interval | None = None
    doubt: Doubt | None = None
    """Why the comparison with its reference shows nothing."""
    speed_up_doubt: Doubt | None = None
    """Why its speed-up and efficiency show nothing."""

    @property
    def doubts(self) -> list[Doubt]:
        """Return why its comparison and its speed-up show nothing."""
        return [doubt for doubt in (self.speed_up_doubt, self.doubt) if doubt]


@dataclass(frozen=True)
class SubjectTiming:
    """The times of all groups that have steps, in order."""

    rows: tuple[GroupTiming, ...]
    means: Mapping[str, Interval] = field(default_factory=dict)
    """For each line of which several groups are compared, how many times as fast as its reference
    it is on the geometric mean."""
    left_out: tuple[str, ...] = ()
    """Runs that comparisons left out as outliers, as "LABEL #REPETITION"."""
    noise: float = math.nan
    """The standard deviation from run to run, as a share."""
    is_per_sample: bool = False
    """Comparisons and speed-ups are of the time per sample: global batches differ in size."""

    @property
    def doubts(self) -> list[Doubt]:
        """Return why comparisons and speed-ups show nothing, once for each two groups."""
        return _unique(doubt for row in self.rows for doubt in row.doubts)

    def find(self, group: RunGroup | None) -> GroupTiming | None:
        """Return the row of a group; None if it has no steps."""
        return next((row for row in self.rows if row.group is group), None)


def measure_timing(subject: ReportSubject) -> SubjectTiming:
    """Time the groups of a subject, and compare them."""
    rows = {}
    for index, group in enumerate(subject.groups):
        row = _measure_group(group)
        if math.isfinite(row.seconds.value):
            rows[index] = row
    if not rows:
        return SubjectTiming(())
    if not subject.is_study:
        return _compare_runs(list(rows.values()))
    timing = _compare_cells(subject, rows)
    return replace(timing, rows=tuple(_add_doubts(subject, timing, row) for row in timing.rows))


def find_doubts(subject: ReportSubject, timing: SubjectTiming) -> list[Doubt]:
    """Return what is in doubt in the answer of a study and in the tables of its report, once for
    each two groups."""
    return _unique((*timing.doubts, *subject.doubts))


def _unique(doubts: Iterable[Doubt]) -> list[Doubt]:
    return list({doubt.pair: doubt for doubt in doubts}.values())


def describe_iterations(subject: ReportSubject) -> str:
    """Return which iterations are averaged: "iterations 2 to 8"."""
    last_iterations = {_last_averaged(run) for run in subject.runs if len(run.steps)}
    last = max(last_iterations, default=LAST)
    text = f"iterations {FIRST} to {max(FIRST, last)}"
    if len(last_iterations) > 1:
        text += ", or to the last one of a run that has fewer"
    return text


def describe_rule(subject: ReportSubject) -> str:
    """Return what a time per iteration is the mean of."""
    rule = f"the mean over ranks of {describe_iterations(subject)}"
    if any(len(group.runs) > 1 for group in subject.groups):
        rule += ", then the geometric mean over runs"
    return rule


def _last_averaged(run: RunFigures) -> int:
    _, counts = np.unique(run.steps.early().rank, return_counts=True)
    return FIRST - 1 + int(counts.max(initial=0))


def _measure_group(group: RunGroup) -> GroupTiming:
    values = [run.step_seconds() for run in group.runs]
    columns = [run.steps.early().column("seconds") for run in group.runs]
    seconds = np.concatenate([[], *columns])
    seconds = seconds[np.isfinite(seconds)]
    percentiles = [math.nan] * 3
    if seconds.size:
        percentiles = np.percentile(seconds, [50, 99, 100]).tolist()
    return GroupTiming(
        group, hide_few(mean_interval(values)), check_stability(values), tuple(percentiles)
    )


def _doubt_ratio(
    row: GroupTiming, other: GroupTiming, ratio: Interval, *, is_speed_up: bool = False
) -> Doubt | None:
    group = row.group
    reference = other.group
    names = differing(group.runs[0], reference.runs[0])
    # The link is no setting of the job, but may make one of the two faster.
    if group.link != reference.link:
        names = (*names, "link")
    return find_doubt(
        make_side(group.label, group.runs),
        make_side(reference.label, reference.runs),
        ratio,
        names,
        is_speed_up=is_speed_up,
    )


# Cells of a study ---------------------------------------------------------------------------------


def _compare_cells(subject: ReportSubject, rows: dict[int, GroupTiming]) -> SubjectTiming:
    """Compare groups in blocks: a run is one number."""
    values = _tabulate_seconds(subject.groups)
    sizes = np.array([group.batch for group in subject.groups], dtype=np.float64)
    is_per_sample = bool(0 < sizes.min() < sizes.max())
    # A step of a larger batch takes longer, and trains more.
    if is_per_sample:
        values = values / sizes
    pairs = [
        (cell, reference)
        for cell, reference in enumerate(subject.references)
        if reference is not None and cell in rows and reference in rows
    ]
    noise = math.nan
    left_out: list[str] = []
    if pairs:
        comparisons = compare_cells(values, pairs)
        noise = comparisons.noise
        for block, cell in comparisons.left_out:
            left_out.append(f"{subject.groups[cell].label} #{block + 1}")
        for comparison in comparisons.pairs:
            rows[comparison.cell] = replace(rows[comparison.cell], against=comparison)
    if subject.baseline in rows:
        workers = [group.ranks for group in subject.groups]
        for scaled in measure_scaling(values, subject.baseline, workers):
            if scaled.cell in rows:
                rows[scaled.cell] = replace(
                    rows[scaled.cell], speed_up=scaled.speed_up, efficiency=scaled.efficiency
                )
    means = _average_lines(subject, values, pairs)
    return SubjectTiming(tuple(rows.values()), means, tuple(left_out), noise, is_per_sample)


def _tabulate_seconds(groups: Sequence[RunGroup]) -> Floats:
    """Return seconds per iteration as repetitions x groups, NaN if there is no run."""
    repetitions = [number for group in groups for number in group.by_repetition]
    values = np.full((max(repetitions, default=0), len(groups)), np.nan)
    for column, group in enumerate(groups):
        for number, run in group.by_repetition.items():
            values[number - 1, column] = run.step_seconds()
    return values


def _average_lines(
    subject: ReportSubject, values: Floats, pairs: Sequence[tuple[int, int]]
) -> dict[str, Interval]:
    """Return how many times as fast each line is that is compared with another at several
    positions."""
    pairs_by_line: dict[str, list[tuple[int, int]]] = {}
    for cell, reference in pairs:
        line = subject.groups[cell].line
        # Groups of one line differ along the axis only: their mean would say nothing.
        if line != subject.groups[reference].line:
            pairs_by_line.setdefault(line, []).append((cell, reference))
    means = {}
    for line, line_pairs in pairs_by_line.items():
        if len(line_pairs) > 1:
            means[line] = hide_few(mean_ratio(values, line_pairs)).inverse()
    return means


def _add_doubts(subject: ReportSubject, timing: SubjectTiming, row: GroupTiming) -> GroupTiming:
    """Return the row with what makes its figures doubtful."""
    doubt = None
    reference = timing.find(subject.reference_of(row.group))
    if reference and row.against:
        doubt = _doubt_ratio(row, reference, row.against.ratio)
    speed_up_doubt = None
    baseline = timing.find(subject.baseline_group)
    if baseline and baseline is not row and row.speed_up:
        ratio = row.speed_up.inverse()
        speed_up_doubt = _doubt_ratio(row, baseline, ratio, is_speed_up=True)
    return replace(row, doubt=doubt, speed_up_doubt=speed_up_doubt)


# Single runs --------------------------------------------------------------------------------------


def _compare_runs(rows: Sequence[GroupTiming]) -> SubjectTiming:
    """Compare single runs by their iterations with the first one that has some."""
    compared = compare_runs([row.group.runs[0] for row in rows])
    if len(rows) == 1:
        return SubjectTiming((replace(rows[0], seconds=compared[0].seconds),))
    first = rows[0]
    return SubjectTiming(
        tuple(_apply_comparison(row, one, first) for row, one in zip(rows, compared, strict=True)),
        is_per_sample=any(one.is_per_sample for one in compared),
    )


def _apply_comparison(row: GroupTiming, compared: ComparedRun, first: GroupTiming) -> GroupTiming:
    """Return the row of a run beside the first one."""
    against = compared.against
    share = first.group.ranks / row.group.ranks
    if against is None:
        speed_up = Interval(1.0, 1.0, 1.0, compared.seconds.runs, IntervalMethod.EXACT)
        row = replace(row, seconds=compared.seconds)
    else:
        speed_up = against.ratio.inverse()
        row = replace(
            row,
            seconds=compared.seconds,
            against=against,
            doubt=_doubt_ratio(row, first, against.ratio),
            speed_up_doubt=_doubt_ratio(row, first, against.ratio, is_speed_up=True),
        )
    efficiency = replace(
        speed_up,
        value=speed_up.value * share,
        low=speed_up.low * share,
        high=speed_up.high * share,
    )
    return replace(row, speed_up=speed_up, efficiency=efficiency)
