"""Compares runs with the first of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from remote.metrics.conditions import join_conditions
from remote.metrics.doubt import Doubt, Side, differing_work, find_doubt
from remote.metrics.points import accuracy_by_time
from remote.metrics.run import RunFigures
from remote.metrics.settings import are_alike, list_same_work_settings
from remote.metrics.steps import Floats, StepTable
from remote.plan.plan import Script
from remote.statistics.comparison import Comparison, Finding
from remote.statistics.interval import Interval, IntervalMethod
from remote.statistics.steps import BETWEEN_RUNS, compare_steps, pooled_spread, time_to_target
from training.job import Job


@dataclass(frozen=True)
class RunNoise:
    """How much runs with equal settings differ."""

    share: float = BETWEEN_RUNS
    freedom: int = 0
    """Degrees of freedom with which it was measured from the runs at hand; 0: it is assumed."""


@dataclass(frozen=True)
class ComparedRun:
    """A run beside the first one."""

    run: RunFigures
    steps: StepTable
    """The iterations that the figures are of: all but the first of each rank, which warms up, or
    those that the caller of `compare_runs` selects."""
    seconds: Interval
    """The mean of an iteration, with the interval of what is known of this one run."""
    against: Comparison | None = None
    """The time of the run / that of the first; None for the first run itself, and if one of the two
    has no steps. It has no bounds if the run is a repetition: whatever they are apart is noise."""
    is_per_sample: bool = False
    """There, the seconds are those of a sample: steps of the two runs have batches of other
    sizes."""
    noise: RunNoise = RunNoise()
    """The noise from run to run that the comparison allows for."""
    is_repetition: bool = False
    """All recorded settings are those of the first run but the seed."""
    same_work_settings: tuple[str, ...] = ()
    """All settings in which it differs from the first run, if a step of both is the same work; what
    their times per step are apart is then of the machine. None for a repetition."""
    common_steps: int = 0
    """The number of steps that both made."""
    loss_difference: float = math.nan
    """The largest difference of their mean training losses there."""
    goal: float = math.nan
    """A test accuracy that all runs reached that have not diverged, in whole percent; NaN if one of
    them was not tested, or if there are not two."""
    seconds_to_goal: float = math.nan
    """Seconds of training to the first test that reached it."""
    doubt: Doubt | None = None
    """Why the comparison of the times shows nothing."""


def compare_runs(
    runs: Sequence[RunFigures], select_steps: Callable[[StepTable], StepTable] = StepTable.warm
) -> tuple[ComparedRun, ...]:
    """Compare runs with the first one, in their order, by the iterations that `select_steps`
    returns."""
    step_tables = [select_steps(run.steps) for run in runs]
    iteration_seconds = [_iteration_seconds(table) for table in step_tables]
    alike_groups = _group_alike(runs)
    noise = _measure_noise(alike_groups, iteration_seconds)
    goal = _find_goal(runs)
    compared_runs = []
    for index, run in enumerate(runs):
        compared_run = ComparedRun(
            run, step_tables[index], _mean_interval(iteration_seconds[index])
        )
        compared_run = replace(compared_run, goal=goal, seconds_to_goal=_seconds_to_goal(run, goal))
        # The first run is compared with nothing; it is what the others are compared with.
        if index:
            compared_run = replace(
                compared_run, noise=noise, is_repetition=index in alike_groups[0]
            )
            compared_run = _compare_with_first(
                compared_run, runs[0], iteration_seconds[index], iteration_seconds[0]
            )
        compared_runs.append(compared_run)
    return tuple(compared_runs)


def _compare_with_first(
    compared_run: ComparedRun, first_run: RunFigures, times: Floats, first_times: Floats
) -> ComparedRun:
    run = compared_run.run
    common_steps, loss_difference = _compare_losses(run, first_run)
    compared_run = replace(compared_run, common_steps=common_steps, loss_difference=loss_difference)
    batch_size = first_batch_size = 1  # of a script nobody knows the batch
    if run.job and first_run.job:
        batch_size = run.job.batch_size
        first_batch_size = first_run.job.batch_size
    compared_run = replace(compared_run, is_per_sample=batch_size != first_batch_size)
    if not compared_run.is_repetition:
        same_work_settings = list_same_work_settings(run, first_run)
        compared_run = replace(compared_run, same_work_settings=same_work_settings)
    # A run that ended before its second step has no times.
    if not (times.size and first_times.size):
        return compared_run
    noise = compared_run.noise
    comparison = compare_steps(
        times / batch_size, first_times / first_batch_size, noise.share, noise.freedom
    )
    if compared_run.is_repetition:
        comparison = _without_bounds(comparison)
    elif not noise.freedom:
        # Chance has been measured on no run: its noise is assumed.
        comparison = replace(comparison, p=math.nan)
    return replace(compared_run, against=comparison, doubt=judge(run, first_run, comparison.ratio))


def judge(
    run: RunFigures, other: RunFigures, ratio: Interval, *, is_speed_up: bool = False
) -> Doubt | None:
    """Return why the ratio of the times of two runs shows nothing, or None."""
    differing_names = differing(run, other)
    run_side = make_side(run.name, [run])
    other_side = make_side(other.name, [other])
    return find_doubt(run_side, other_side, ratio, differing_names, is_speed_up=is_speed_up)


def make_side(name: str, runs: Sequence[RunFigures]) -> Side:
    """Return runs of equal settings, at least one, as a side of a comparison."""
    first_run = runs[0]
    batch_size = first_run.job.batch_size if first_run.job else 0
    conditions = join_conditions(run.conditions for run in runs)
    return Side(
        name, first_run.nodes, first_run.world_size, first_run.workers, conditions, batch_size
    )


def differing(run: RunFigures, other: RunFigures) -> tuple[str, ...]:
    """Return the settings that change how fast ranks are, and differ."""
    is_alone = min(run.world_size, other.world_size) == 1
    return differing_work(_work_of(run), _work_of(other), is_alone=is_alone)


def _work_of(run: RunFigures) -> Job | Script:
    return run.job or Script(run.script)


def _group_alike(runs: Sequence[RunFigures]) -> list[list[int]]:
    """Return the indices of runs, those with equal settings together, the first run's first."""
    groups: list[list[int]] = []
    for index, run in enumerate(runs):
        for group in groups:
            if are_alike(runs[group[0]], run):
                group.append(index)
                break
        else:
            groups.append([index])
    return groups


def _measure_noise(groups: Sequence[Sequence[int]], times: Sequence[Floats]) -> RunNoise:
    """Return the noise from run to run, as far as runs with equal settings show it."""
    group_means = []
    for group in groups:
        # A run that ended before its second step has no times, and no mean.
        group_means.append([float(times[index].mean()) for index in group if times[index].size])
    share, freedom = pooled_spread(group_means)
    return RunNoise(share, freedom) if freedom else RunNoise()


def _without_bounds(comparison: Comparison) -> Comparison:
    """Return a comparison that shows how far two runs are apart, and nothing of settings."""
    ratio = replace(comparison.ratio, low=math.nan, high=math.nan, method=IntervalMethod.NONE)
    return replace(comparison, ratio=ratio, p=math.nan, finding=Finding.NOT_SHOWN)


def _iteration_seconds(steps: StepTable) -> Floats:
    """Return the seconds of iterations, as means over ranks."""
    _, seconds = steps.mean_over_ranks("seconds")
    return seconds[np.isfinite(seconds)]


def _mean_interval(seconds: Floats) -> Interval:
    """Return the mean of a run's steps, allowing for the noise from step to step only."""
    # The mean is the ratio to steps of one second.
    return compare_steps(seconds, np.ones(len(seconds)), between=0.0).ratio


def _compare_losses(run: RunFigures, first_run: RunFigures) -> tuple[int, float]:
    """Return how many steps both runs made, and how far their losses are apart there at most."""
    steps, losses = run.steps.mean_over_ranks("loss")
    first_steps, first_losses = first_run.steps.mean_over_ranks("loss")
    common_steps, run_places, first_places = np.intersect1d(steps, first_steps, return_indices=True)
    differences = np.abs(losses[run_places] - first_losses[first_places])
    known_differences = differences[np.isfinite(differences)]
    return len(common_steps), float(known_differences.max()) if known_differences.size else math.nan


def _find_goal(runs: Sequence[RunFigures]) -> float:
    """Return a test accuracy that all runs reached, in whole percent; NaN if one was not tested.

    A run that has diverged does not count: what it reached is no goal for the others.
    """
    sound_runs = [run for run in runs if not run.has_diverged]
    if len(sound_runs) < min(2, len(runs)):
        return math.nan
    best_accuracies = [
        max((test.accuracy for test in run.evaluations), default=math.nan) for run in sound_runs
    ]
    # numpy's minimum, which is NaN if one of them is: Python's own would depend on their order.
    lowest_best = float(np.min(best_accuracies))
    if not math.isfinite(lowest_best):
        return math.nan
    # 0.29 * 100 is a little less than 29.
    return math.floor(lowest_best * 100 + 1e-9) / 100


def _seconds_to_goal(run: RunFigures, goal: float) -> float:
    if not math.isfinite(goal):
        return math.nan
    times, accuracies = accuracy_by_time(run)
    return time_to_target(times, accuracies, goal)
