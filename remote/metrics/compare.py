"""Runs compared with the first of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from remote.metrics.conditions import joined
from remote.metrics.doubt import Doubt, Side, differing_work, find_doubt
from remote.metrics.points import accuracy_by_time
from remote.metrics.run import RunFigures
from remote.metrics.settings import alike
from remote.metrics.steps import Floats, StepTable
from remote.plan.plan import Script
from remote.statistics.comparison import Comparison, Finding
from remote.statistics.interval import Interval, IntervalMethod
from remote.statistics.steps import BETWEEN_RUNS, compare_steps, pooled_spread, time_to_target
from training.job import Job


@dataclass(frozen=True)
class Between:
    """How much runs with equal settings differ, as a share: measured with so many degrees of
    `freedom` from the runs at hand, or assumed (0)."""

    share: float = BETWEEN_RUNS
    freedom: int = 0


@dataclass(frozen=True)
class Compared:
    """A run beside the first one.

    `steps` are all iterations of the run but the first of each rank, which warms up; all figures
    and the verdict are of these. `seconds` is the mean of an iteration, with the interval of what
    is known of this one run. `against` compares it with the first run's: run / first; None for the
    first run itself, and where one of the two has no steps. `per_sample`: there, the seconds are
    those of a sample, because the steps of the two runs have batches of other sizes. `between` is
    the noise from run to run that the comparison allows for. `is_repetition`: all recorded settings
    are those of the first run but the seed. Then `against` has no bounds and shows nothing:
    whatever they are apart is noise. `common` is the number of steps that both made, and `apart`
    the largest difference of their mean training losses there; NaN without such.

    `doubt` says why the comparison of the times shows nothing.

    `goal` is a test accuracy that all runs reached, in whole percent, and `to_goal` the seconds of
    training to the first test that reached it; both are NaN where a run was not tested.
    """

    run: RunFigures
    steps: StepTable
    seconds: Interval
    against: Comparison | None
    per_sample: bool = False
    between: Between = Between()
    is_repetition: bool = False
    common: int = 0
    apart: float = float("nan")
    goal: float = float("nan")
    to_goal: float = float("nan")
    doubt: Doubt | None = None


def compare(runs: Sequence[RunFigures]) -> tuple[Compared, ...]:
    """Compare runs with the first one, in their order."""
    steps = [run.steps.warm() for run in runs]
    times = [_timed(table) for table in steps]
    groups = _alike(runs)
    between = _between(groups, times)
    first = runs[0]
    goal = _goal(runs)
    found = [
        Compared(first, steps[0], _mean(times[0]), None, goal=goal, to_goal=_to_goal(first, goal))
    ]
    for at, (run, seconds) in enumerate(zip(runs[1:], times[1:], strict=True), 1):
        size, others = _batch_sizes(run, first)
        against = None
        if times[0].size and seconds.size:
            against = compare_steps(
                seconds / size, times[0] / others, between.share, between.freedom
            )
            if at in groups[0]:
                against = _without_bounds(against)
        found.append(
            Compared(
                *(run, steps[at], _mean(seconds), against, size != others),
                *(between, at in groups[0]),
                *_apart(run, first),
                *(goal, _to_goal(run, goal)),
                judge(run, first, against.ratio) if against else None,
            )
        )
    return tuple(found)


def judge(
    run: RunFigures, other: RunFigures, ratio: Interval, *, is_speed_up: bool = False
) -> Doubt | None:
    """Return why the ratio of the times of two runs shows nothing; None where it may."""
    sides = side(run.name, [run]), side(other.name, [other])
    return find_doubt(*sides, ratio, differing(run, other), is_speed_up=is_speed_up)


def side(name: str, runs: Sequence[RunFigures]) -> Side:
    """Return runs of equal settings, at least one, as a side of a comparison."""
    first = runs[0]
    batch = first.job.batch_size if first.job else 0
    where = joined(run.conditions for run in runs)
    return Side(name, first.nodes, first.world_size, first.workers, where, batch)


def differing(run: RunFigures, other: RunFigures) -> tuple[str, ...]:
    """Return the settings that change how fast ranks are, and differ."""
    is_alone = min(run.world_size, other.world_size) == 1
    return differing_work(_work(run), _work(other), is_alone=is_alone)


def _work(run: RunFigures) -> Job | Script:
    return run.job or Script(run.script)


def _alike(runs: Sequence[RunFigures]) -> list[list[int]]:
    """The places of runs, those with equal settings together, the first run's group first."""
    groups: list[list[int]] = []
    for at, run in enumerate(runs):
        group = next((one for one in groups if alike(runs[one[0]], run)), None)
        if group is None:
            groups.append([at])
        else:
            group.append(at)
    return groups


def _between(groups: Sequence[Sequence[int]], times: Sequence[Floats]) -> Between:
    """The noise from run to run, as far as runs with equal settings show it."""
    means = [[float(times[at].mean()) for at in group if times[at].size] for group in groups]
    share, freedom = pooled_spread(means)
    return Between(share, freedom) if freedom else Between()


def _without_bounds(against: Comparison) -> Comparison:
    """The comparison of two runs with equal settings: it shows how far they are apart, and nothing
    of the settings."""
    ratio = replace(against.ratio, low=math.nan, high=math.nan, method=IntervalMethod.NONE)
    return replace(against, ratio=ratio, p=math.nan, finding=Finding.NOT_SHOWN)


def _timed(steps: StepTable) -> Floats:
    """Seconds of iterations, as means over ranks."""
    _, seconds = steps.mean_over_ranks("seconds")
    return seconds[np.isfinite(seconds)]


def _batch_sizes(run: RunFigures, first: RunFigures) -> tuple[int, int]:
    """The global batch sizes of two runs; 1 and 1 where they are not known."""
    return (run.job.batch_size, first.job.batch_size) if run.job and first.job else (1, 1)


def _mean(seconds: Floats) -> Interval:
    """The mean of a run's steps: their ratio to steps of one second. The interval allows for the
    noise from step to step, and not for that from run to run."""
    return compare_steps(seconds, np.ones(len(seconds)), between=0.0).ratio


def _apart(run: RunFigures, first: RunFigures) -> tuple[int, float]:
    """How many steps both runs made, and how far their losses are apart there at most."""
    (steps, losses), (others, their_losses) = (
        one.steps.mean_over_ranks("loss") for one in (run, first)
    )
    common, mine, theirs = np.intersect1d(steps, others, return_indices=True)
    apart = np.abs(losses[mine] - their_losses[theirs])
    known = apart[np.isfinite(apart)]
    return len(common), float(known.max()) if known.size else float("nan")


def _goal(runs: Sequence[RunFigures]) -> float:
    """A test accuracy that all runs reached, in whole percent; NaN where one was not tested."""
    best = [max((test.accuracy for test in run.evaluations), default=math.nan) for run in runs]
    least = float(np.min(best))  # NaN, where one is
    return math.floor(least * 100 + 1e-9) / 100 if math.isfinite(least) else math.nan


def _to_goal(run: RunFigures, goal: float) -> float:
    return time_to_target(*accuracy_by_time(run), goal) if math.isfinite(goal) else math.nan
