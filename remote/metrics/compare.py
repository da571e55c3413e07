"""Compares runs with the first of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from remote.metrics.conditions import join_conditions
from remote.metrics.doubt import Doubt, Side, differing_work, find_doubt
from remote.metrics.points import accuracy_by_time
from remote.metrics.run import RunFigures
from remote.metrics.settings import are_alike
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
    """All iterations but the first of each rank, which warms up. All figures are of these."""
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
    common_steps: int = 0
    """The number of steps that both made."""
    loss_difference: float = math.nan
    """The largest difference of their mean training losses there."""
    goal: float = math.nan
    """A test accuracy that all runs reached, in whole percent; NaN if one was not tested."""
    seconds_to_goal: float = math.nan
    """Seconds of training to the first test that reached it."""
    doubt: Doubt | None = None
    """Why the comparison of the times shows nothing."""


def compare_runs(runs: Sequence[RunFigures]) -> tuple[ComparedRun, ...]:
    """Compare runs with the first one, in their order."""
    steps = [run.steps.warm() for run in runs]
    times = [_iteration_seconds(table) for table in steps]
    groups = _group_alike(runs)
    noise = _measure_noise(groups, times)
    goal = _find_goal(runs)
    compared = []
    for index, run in enumerate(runs):
        entry = ComparedRun(run, steps[index], _mean_interval(times[index]))
        entry = replace(entry, goal=goal, seconds_to_goal=_seconds_to_goal(run, goal))
        if index:
            entry = replace(entry, noise=noise, is_repetition=index in groups[0])
            entry = _compare_with_first(entry, runs[0], times[index], times[0])
        compared.append(entry)
    return tuple(compared)


def _compare_with_first(
    entry: ComparedRun, first: RunFigures, times: Floats, first_times: Floats
) -> ComparedRun:
    run = entry.run
    common_steps, loss_difference = _compare_losses(run, first)
    entry = replace(entry, common_steps=common_steps, loss_difference=loss_difference)
    size = first_size = 1  # of a script nobody knows the batch
    if run.job and first.job:
        size = run.job.batch_size
        first_size = first.job.batch_size
    entry = replace(entry, is_per_sample=size != first_size)
    if not (times.size and first_times.size):
        return entry
    noise = entry.noise
    against = compare_steps(times / size, first_times / first_size, noise.share, noise.freedom)
    if entry.is_repetition:
        against = _without_bounds(against)
    return replace(entry, against=against, doubt=judge(run, first, against.ratio))


def judge(
    run: RunFigures, other: RunFigures, ratio: Interval, *, is_speed_up: bool = False
) -> Doubt | None:
    """Return why the ratio of the times of two runs shows nothing, or None."""
    names = differing(run, other)
    mine = make_side(run.name, [run])
    theirs = make_side(other.name, [other])
    return find_doubt(mine, theirs, ratio, names, is_speed_up=is_speed_up)


def make_side(name: str, runs: Sequence[RunFigures]) -> Side:
    """Return runs of equal settings, at least one, as a side of a comparison."""
    first = runs[0]
    batch = first.job.batch_size if first.job else 0
    conditions = join_conditions(run.conditions for run in runs)
    return Side(name, first.nodes, first.world_size, first.workers, conditions, batch)


def differing(run: RunFigures, other: RunFigures) -> tuple[str, ...]:
    """Return the settings that change how fast ranks are, and differ."""
    is_alone = min(run.world_size, other.world_size) == 1
    return differing_work(_work(run), _work(other), is_alone=is_alone)


def _work(run: RunFigures) -> Job | Script:
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
    means = []
    for group in groups:
        means.append([float(times[index].mean()) for index in group if times[index].size])
    share, freedom = pooled_spread(means)
    return RunNoise(share, freedom) if freedom else RunNoise()


def _without_bounds(against: Comparison) -> Comparison:
    """Return a comparison that shows how far two runs are apart, and nothing of settings."""
    ratio = replace(against.ratio, low=math.nan, high=math.nan, method=IntervalMethod.NONE)
    return replace(against, ratio=ratio, p=math.nan, finding=Finding.NOT_SHOWN)


def _iteration_seconds(steps: StepTable) -> Floats:
    """Return the seconds of iterations, as means over ranks."""
    _, seconds = steps.mean_over_ranks("seconds")
    return seconds[np.isfinite(seconds)]


def _mean_interval(seconds: Floats) -> Interval:
    """Return the mean of a run's steps, allowing for the noise from step to step only."""
    # The mean is the ratio to steps of one second.
    return compare_steps(seconds, np.ones(len(seconds)), between=0.0).ratio


def _compare_losses(run: RunFigures, first: RunFigures) -> tuple[int, float]:
    """Return how many steps both runs made, and how far their losses are apart there at most."""
    steps, losses = run.steps.mean_over_ranks("loss")
    first_steps, first_losses = first.steps.mean_over_ranks("loss")
    common, mine, theirs = np.intersect1d(steps, first_steps, return_indices=True)
    differences = np.abs(losses[mine] - first_losses[theirs])
    known = differences[np.isfinite(differences)]
    return len(common), float(known.max()) if known.size else math.nan


def _find_goal(runs: Sequence[RunFigures]) -> float:
    """Return a test accuracy that all runs reached, in whole percent; NaN if one was not tested."""
    best = [max((test.accuracy for test in run.evaluations), default=math.nan) for run in runs]
    least = float(np.min(best))
    if not math.isfinite(least):
        return math.nan
    # 0.29 * 100 is a little less than 29.
    return math.floor(least * 100 + 1e-9) / 100


def _seconds_to_goal(run: RunFigures, goal: float) -> float:
    if not math.isfinite(goal):
        return math.nan
    times, accuracies = accuracy_by_time(run)
    return time_to_target(times, accuracies, goal)
