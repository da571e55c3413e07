"""Seconds per iteration of groups: intervals, stability, comparisons, speed-up and efficiency."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from remote.metrics.compare import ComparedRun, compare_runs, judge
from remote.metrics.doubt import Doubt
from remote.metrics.run import RunFigures
from remote.metrics.steps import FIRST, LAST, StepTable
from remote.statistics.comparison import Comparison
from remote.statistics.interval import Interval, IntervalMethod, hide_few
from remote.statistics.stability import Stability, check_stability
from remote.study.results import StudyResult, is_per_sample
from remote.study.study import split_trial_key
from tui.report.subject import ReportSubject, RunGroup


@dataclass(frozen=True)
class GroupTiming:
    """The times of a group that has steps."""

    group: RunGroup
    seconds: Interval
    """Seconds per iteration by the assignment's rule, over runs; of a single run over its
    iterations."""
    stability: Stability
    against: Comparison | None = None
    """The comparison with its reference."""
    speed_up: Interval | None = None
    efficiency: Interval | None = None
    doubt: Doubt | None = None
    """Why the comparison with its reference shows nothing."""
    speed_up_doubt: Doubt | None = None
    """Why its speed-up and efficiency show nothing."""

    def percentiles(self) -> list[float]:
        """Return p50, p99 and the most of single iterations of ranks."""
        columns = [run.steps.early().column("seconds") for run in self.group.runs]
        seconds = np.concatenate(columns)
        known_seconds = seconds[np.isfinite(seconds)]
        if not known_seconds.size:
            return [math.nan] * 3
        percentiles: list[float] = np.percentile(known_seconds, [50, 99, 100]).tolist()
        return percentiles


@dataclass(frozen=True)
class SubjectTiming:
    """The times of all groups that have steps, in order."""

    rows: tuple[GroupTiming, ...]
    means: Mapping[str, Interval] = field(default_factory=dict)
    """For each value of the compared axis with several cells, how many times as fast as the
    reference it is on the geometric mean."""
    left_out: tuple[str, ...] = ()
    """Runs that comparisons left out as outliers, as "LABEL #REPETITION"."""
    noise: float = math.nan
    """The standard deviation from run to run, as a share."""
    is_per_sample: bool = False
    """Comparisons and speed-ups are of the time per sample: global batches differ in size."""

    @property
    def comparisons(self) -> list[Comparison]:
        """Return the comparisons of groups with their references."""
        return [row.against for row in self.rows if row.against]

    @property
    def doubts(self) -> list[Doubt]:
        """Return why comparisons and speed-ups show nothing."""
        doubts = [doubt for row in self.rows for doubt in (row.speed_up_doubt, row.doubt)]
        return [doubt for doubt in doubts if doubt]

    def find(self, group: RunGroup | None) -> GroupTiming | None:
        """Return the row of a group; None if it has no steps."""
        return next((row for row in self.rows if row.group is group), None)


def measure_timing(subject: ReportSubject) -> SubjectTiming:
    """Time the groups of a subject, and compare them."""
    return _time_cells(subject, subject.times) if subject.times else _time_runs(subject)


def find_doubts(subject: ReportSubject, timing: SubjectTiming) -> list[Doubt]:
    """Return what is in doubt in the answer of a study and in the tables of its report, once for
    each two groups."""
    answer_doubts = subject.result.doubts if subject.result else []
    doubts = {doubt.pair: doubt for doubt in (*timing.doubts, *answer_doubts)}
    return list(doubts.values())


def describe_iterations(subject: ReportSubject) -> str:
    """Return which iterations are averaged: "iterations 2 to 8"."""
    last_iterations = {_last_averaged(run) for run in subject.runs if len(run.steps)}
    last_iteration = max(last_iterations, default=LAST)
    iterations_text = f"iterations {FIRST} to {max(FIRST, last_iteration)}"
    if len(last_iterations) > 1:
        iterations_text += ", or to the last one of a run that has fewer"
    return iterations_text


def describe_rule(subject: ReportSubject) -> str:
    """Return what a time per iteration is the mean of."""
    rule_text = f"the mean over ranks of {describe_iterations(subject)}"
    if len(subject.runs) > len(subject.measured):
        rule_text += ", then the geometric mean over runs"
    return rule_text


def _last_averaged(run: RunFigures) -> int:
    _, counts = np.unique(run.steps.early().rank, return_counts=True)
    return FIRST - 1 + int(counts.max(initial=0))


def _to_efficiency(speed_up: Interval, group: RunGroup, baseline: RunGroup) -> Interval:
    """Return the speed-up over how many times as many ranks there are."""
    # Twice inverted, as an interval only knows how to divide a number by itself.
    time_ratio = speed_up.inverse()
    return time_ratio.inverse(baseline.ranks / group.ranks)


def _time_cells(subject: ReportSubject, times: StudyResult) -> SubjectTiming:
    """Time the cells of a study, where a run is one number."""
    timing_rows = []
    for group, cell_result in zip(subject.groups, times.cells, strict=True):
        if cell_result.value is None or not math.isfinite(cell_result.value.value):
            continue
        efficiency = None
        if cell_result.speed_up and subject.baseline:
            efficiency = _to_efficiency(cell_result.speed_up, group, subject.baseline)
        timing_rows.append(
            GroupTiming(
                group,
                hide_few(cell_result.value),
                cell_result.stability,
                cell_result.comparison,
                cell_result.speed_up,
                efficiency,
                cell_result.doubt,
                cell_result.speed_up_doubt,
            )
        )
    left_out = []
    for key in times.left_out:
        group_name, repetition = split_trial_key(key)
        left_out.append(f"{subject.labels[group_name]} #{repetition}")
    compare = times.study.compare
    num_cells = Counter(
        cell_result.cell.label(compare) for cell_result in times.cells if cell_result.comparison
    )
    mean_ratios = {}
    for label, mean_ratio in times.overall.items():
        # The mean of a single cell is that cell's own comparison, which the table has.
        if num_cells[label] > 1:
            mean_ratios[label] = hide_few(mean_ratio).inverse()
    return SubjectTiming(
        tuple(timing_rows), mean_ratios, tuple(left_out), times.noise, is_per_sample(times.study)
    )


def _time_runs(subject: ReportSubject) -> SubjectTiming:
    """Compare single runs by the iterations of the rule with the first one that has some."""
    groups = [group for group in subject.groups if math.isfinite(group.runs[0].step_seconds())]
    if not groups:
        return SubjectTiming(())
    compared_runs = compare_runs([group.runs[0] for group in groups], StepTable.early)
    timing_rows = [
        _time_run(group, run, groups[0]) for group, run in zip(groups, compared_runs, strict=True)
    ]
    # A run alone is compared with nothing, not even with itself.
    if len(timing_rows) == 1:
        timing_rows = [replace(timing_rows[0], speed_up=None, efficiency=None)]
    return SubjectTiming(
        tuple(timing_rows), is_per_sample=any(run.is_per_sample for run in compared_runs)
    )


def _time_run(group: RunGroup, compared: ComparedRun, first_group: RunGroup) -> GroupTiming:
    """Return the row of a run beside the first one."""
    comparison = compared.against
    run = compared.run
    # The first run beside itself: nothing is measured here.
    speed_up = Interval(1.0, 1.0, 1.0, compared.seconds.runs, IntervalMethod.EXACT)
    speed_up_doubt = None
    if comparison:
        speed_up = comparison.ratio.inverse()
        # Other settings may explain a faster run, but never a speed-up by nodes.
        speed_up_doubt = judge(run, first_group.runs[0], comparison.ratio, is_speed_up=True)
    return GroupTiming(
        group,
        compared.seconds,
        check_stability([run.step_seconds()]),
        comparison,
        speed_up,
        _to_efficiency(speed_up, group, first_group),
        compared.doubt,
        speed_up_doubt,
    )
