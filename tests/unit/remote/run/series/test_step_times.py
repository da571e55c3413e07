"""The step times of a rank: over all iterations, and of the last ones."""

from __future__ import annotations

import math
import pickle
import random
import statistics
from collections.abc import Iterable

import numpy as np
import pytest

from remote.run.series.step_times import (
    RECENT,
    Means,
    RecentSteps,
    StepTotals,
    join_means,
)
from remote.run.state.rank_state import RankState
from tests.kit.histories import block_of
from training.wire.rank_events import StepFinished


def step(number: int) -> StepFinished:
    """One of which each figure has a value of its own."""
    return StepFinished(
        0, 1, number, *(number + place / 16 for place in range(7)), 16, number, 1 << 40, 3
    )


def test_figures_are_those_of_the_last_steps_in_order() -> None:
    pace = RecentSteps()
    steps = [step(number) for number in range(1, RECENT + 8)]
    for one in steps:
        pace.append(one)
    last = steps[-RECENT:]
    assert len(pace) == RECENT
    assert pace.count == len(steps)
    for figure in ("loss", "seconds", "ready", "cpu_seconds", "samples", "bytes_sent"):
        values = [getattr(one, figure) for one in last]
        assert list(pace.last(figure)) == values
        assert pace.median(figure) == statistics.median(values)
        assert pace.mean(figure) == pytest.approx(statistics.fmean(values))


def paced(times: Iterable[float], number: int = 1) -> RecentSteps:
    """Steps of these seconds, each of which stands for a number of steps."""
    pace = RecentSteps()
    for seconds in times:
        pace.append(timed(seconds, sync=seconds / 4), number)
    return pace


def test_means_are_of_ten_seconds_of_steps_where_these_are_more_than_twenty() -> None:
    quick = paced([0.5] * 40 + [0.01] * 400)
    assert 0.01 < quick.means.seconds < 0.03, "4 s of the new steps, and 6 s of those before"
    quick = paced([0.5] * 40 + [0.01] * 1100)
    assert quick.means.seconds == pytest.approx(0.01)
    assert quick.means.sync == pytest.approx(0.0025)
    assert quick.means.throughput == pytest.approx(1600)
    slow = paced([0.5] * 40 + [2.0] * 19)
    assert 1.7 < slow.means.seconds < 2.0
    assert paced([0.5] * 40 + [2.0] * 25).means.seconds == 2.0


def test_a_slow_step_hardly_changes_the_means_of_quick_ones() -> None:
    pace = paced([0.02] * 1000)
    pace.append(timed(0.2))
    assert pace.mean("seconds") == pytest.approx(0.029), "of twenty steps"
    assert pace.means.seconds == pytest.approx(0.02, rel=0.03)


def test_a_report_counts_in_the_means_as_often_as_it_stands_for_steps() -> None:
    assert paced([0.5] * 40 + [0.1] * 5, number=20).means.seconds == pytest.approx(0.1)
    assert paced([0.5] * 40 + [0.1] * 5).means.seconds > 0.3


def test_the_means_of_any_number_of_steps_take_little_memory() -> None:
    for seconds in (0.0, 1e-6, 0.03, 0.7, 1e300, math.inf):
        pace = paced([seconds] * 5000)
        assert len(pickle.dumps(pace)) < 8000


def test_before_the_first_step_nothing_is_known() -> None:
    pace = RecentSteps()
    assert not pace
    assert math.isnan(pace.median("ready"))
    assert math.isnan(pace.mean("loss"))
    assert math.isnan(pace.means.throughput)


def test_the_first_step_warms_up_and_counts_only_while_it_is_alone() -> None:
    pace = RecentSteps()
    pace.append(step(1000))
    assert pace.mean("seconds") == step(1000).seconds
    for number in range(1, RECENT):
        pace.append(step(number))
    warm = pace.last("seconds")[1:]
    assert pace.mean("seconds") == pytest.approx(statistics.fmean(warm))
    assert pace.means.seconds == pace.mean("seconds")
    assert pace.means.throughput == pytest.approx(16 * len(warm) / sum(warm))
    pace.append(step(RECENT))
    assert pace.mean("seconds") == pytest.approx(statistics.fmean(pace.last("seconds")))


def timed(
    seconds: float, data: float = 0.0, compute: float = 0.0, sync: float = 0.0
) -> StepFinished:
    return StepFinished(0, 1, 1, 1.0, seconds, data, compute, sync, samples=16)


def totals_of(times: Iterable[float], *, untimed: int = 0) -> StepTotals:
    """The totals of steps of these seconds, of which the first ones have no time."""
    totals = StepTotals()
    if untimed:
        totals.begin_after(untimed)
    for seconds in times:
        totals.append(timed(seconds))
    return totals


def test_the_rule_is_the_mean_of_iterations_2_to_40() -> None:
    totals = totals_of([100.0, *range(2, 200)])
    assert totals.early.seconds == statistics.mean(range(2, 41))
    assert totals.count == 199


@pytest.mark.parametrize(("step_number", "seconds"), [(1, range(2, 200)), (100, range(101, 300))])
def test_without_a_time_of_the_first_iteration_the_next_one_does_not_warm_up(
    step_number: int, seconds: range
) -> None:
    totals = totals_of(seconds, untimed=step_number)
    assert totals.early.seconds == statistics.mean(seconds[:39])
    assert (totals.first_early, totals.last_early) == (seconds[0], seconds[38])
    assert totals.warm == totals.whole


def test_the_longest_iteration_is_none_that_warms_up() -> None:
    assert totals_of([100.0, 1.0, 3.0, 2.0]).longest == 3.0
    assert totals_of([9.0, 1.0], untimed=1).longest == 9.0
    totals = totals_of([1.0] * 50)
    block = block_of([timed(seconds) for seconds in (1.0, 5.0, 1.0)], 1000.0)
    totals.append_steps(block.unpack())
    assert totals.longest == 5.0


def test_the_phases_and_samples_of_a_step_are_folded_over_the_same_iterations() -> None:
    totals = StepTotals()
    totals.append(timed(9.0, 1.0, 2.0, 6.0))
    for _ in range(39):
        totals.append(timed(0.5, 0.125, 0.25, 0.125))
    early = totals.early
    assert early == Means(0.5, 0.125, 0.25, 0.125, 0.0, 32.0, 0.0)
    totals.append(timed(1.0, 0.5, 0.25, 0.25))
    assert totals.early == early
    assert totals.warm.data == pytest.approx((39 * 0.125 + 0.5) / 40)
    assert totals.warm.throughput == pytest.approx(40 * 16 / (39 * 0.5 + 1))
    assert totals.whole.data == pytest.approx((1.0 + 39 * 0.125 + 0.5) / 41)
    assert totals.whole.throughput == pytest.approx(41 * 16 / (9 + 39 * 0.5 + 1))
    assert early.share(early.compute) == 0.5
    # One rank serves, and makes no steps.
    assert join_means([early, early, Means()]) == Means(0.5, 0.125, 0.25, 0.125, 0.0, 64.0, 0.0)


def test_median_and_p95_are_exact_up_to_16384_and_near_beyond() -> None:
    dice = random.Random(5)
    values = [dice.expovariate(1) for _ in range(100_000)]
    totals = StepTotals()
    for count, seconds in enumerate(values, 1):
        totals.append(timed(seconds))
        if count in (1, 2, 7, 16_384):
            assert totals.median == pytest.approx(np.median(values[:count]))
            assert totals.p95 == pytest.approx(np.quantile(values[:count], 0.95))
    every = values[::8]
    assert totals.median == pytest.approx(np.median(every))
    assert totals.p95 == pytest.approx(np.quantile(every, 0.95))
    assert totals.whole.seconds == pytest.approx(np.mean(values))
    assert totals.median == pytest.approx(np.median(values), rel=0.03)


def test_a_time_that_is_no_number_counts_for_no_total() -> None:
    totals = totals_of((1.0, math.nan, 3.0, math.inf))
    assert (totals.count, totals.median) == (2, 2.0)
    assert (totals.whole.seconds, totals.early.seconds) == (2.0, 3.0)


def test_one_report_may_stand_for_several_steps() -> None:
    totals = StepTotals()
    totals.append(timed(9.0))
    totals.append(timed(0.5), 100)
    assert totals.count == 101
    assert totals.total == pytest.approx(59.0)


def test_in_another_attempt_totals_go_on_and_recent_steps_begin_anew() -> None:
    rank = RankState(0, 0, 0)
    rank.take_step(timed(1.0))
    again = rank.restart(0, 0, 7.0)
    again.take_step(timed(3.0))
    assert again.timing.count == 2
    assert list(again.pace.last("seconds")) == [3.0]
