"""When a run will have made all its steps: near the truth, and steady."""

from __future__ import annotations

import math
import random
from dataclasses import replace

import pytest

from remote.run.apply import apply_record
from remote.run.diagnosis.forecast import CHANGE, TESTING, StepBlocks
from remote.run.findings.rates import live_means
from remote.run.run_state import RunState, restart
from tests.kit.histories import History, plan, said, stepped
from tests.kit.scripts import script, started
from training.job import Job
from training.wire.enums import Phase
from training.wire.events import Record
from training.wire.host_events import Exited
from training.wire.rank_events import Entered, Evaluated, Saved


def left(history: History) -> float:
    state = history.state()
    return state.eta(state.now)


def made(history: History, seconds: list[float], ranks: int = 1, first: int = 1) -> History:
    """Each rank makes steps of so many seconds, in real time."""
    for step, spent in enumerate(seconds, first):
        history.now += spent - 0.01 * ranks
        for rank in range(ranks):
            history.rank(rank, stepped(rank, step, seconds=spent, ready=spent))
    return history


def test_nothing_is_known_before_the_first_step_nor_at_the_end() -> None:
    history = History(plan(1)).training()
    assert math.isnan(left(history))
    made(history, [1.0] * 40).done(0)
    state = history.closed()
    assert math.isnan(state.eta(state.now))


def test_the_first_step_does_not_count_once_there_is_another() -> None:
    history = made(History(plan(1)).training(), [9.0, 1.0, 1.0])
    assert math.isnan(left(history)), "too few steps"
    made(history, [1.0], first=4)
    assert left(history) == pytest.approx(36 * 1.0 + evaluations(4), abs=0.1)


def evaluations(number: int, seconds: float = 1.0) -> float:
    """Seconds of evaluations of 100 samples, where 64 train in a step of so many seconds."""
    return number * TESTING * seconds * 100 / 64


def test_it_is_that_of_the_rank_furthest_behind_that_trains() -> None:
    history = History(plan(3)).training()
    for step in range(1, 11):
        history.now += 2.0
        history.rank(1, stepped(1, step, seconds=2.0))
        history.rank(0, *(stepped(0, 2 * step - more, seconds=1.0) for more in (1, 0)))
    assert left(history) == pytest.approx(30 * 2.0, rel=0.05)
    history.rank(0, Exited(0, 1)).rank(1, stepped(1, 11, seconds=2.0))
    assert left(history) == pytest.approx(29 * 2.0, rel=0.05), "another one is looked at"


def test_evaluations_and_checkpoints_to_come_count_as_they_took_before() -> None:
    job = replace(Job(), checkpoint_every="10")
    history = History(replace(plan(1), work=job)).training()
    made(history, [1.0] * 12)
    assert left(history) == pytest.approx(28 + evaluations(4), abs=0.1)
    history.rank(0, Evaluated(0, 1, 10, 0.5, 0.9, 100, 5.0), Saved(0, 1, 10, 2.0, 1))
    history.now += 1.0
    for step in range(13, 33):
        history.now += 0.99
        history.rank(0, stepped(0, step, seconds=1.0))
    assert left(history) == pytest.approx(8 + 3 * 5.0 + 1 * 2.0, abs=1.0)


def test_it_never_jumps() -> None:
    chance = random.Random(7)
    seconds = [chance.choice((0.1, 0.1, 0.1, 0.2, 1.0)) for _ in range(400)]
    history = made(History(plan(1)).training(total=800), seconds)
    state, before, when = RunState(history.plan), math.nan, 0.0
    for record in history.records:
        apply_record(state, record)
        now = state.now
        if math.isfinite(before) and state.step > 800 // 20:
            expected = before - (now - when)
            assert abs(state.eta(now) - expected) <= CHANGE * (now - when) * before * 1.05 + 0.1
        before, when = state.eta(now), now


def test_it_ends_with_the_last_step() -> None:
    """The program ends sooner than its bar had said until then."""
    history = started(script())
    for step in range(1, 31):
        total = 500 if step < 29 else 30
        history.say(0, said(0, f"step={step} max_steps={total} loss=1.0", "stdout"), after=1.0)
    assert left(history) == 0.0


def test_it_does_not_end_before_the_run_where_the_pace_falls() -> None:
    history = made(History(plan(1)).training(total=200), [0.1] * 120)
    lefts = []
    for step in range(121, 181):
        made(history, [0.5], first=step)
        lefts.append(left(history))
    assert min(lefts) > 2.0


def product(state: RunState) -> float:
    """What a user finds who multiplies the steps to go by the time of a step in the header, and
    adds the tests."""
    means = live_means(state)
    steps_to_go = state.progress.steps - state.step
    return steps_to_go * means.seconds + evaluations(state.progress.epochs, means.ready)


@pytest.mark.parametrize("slow", [0.05, 0.3, 3.0])
def test_it_agrees_with_the_time_of_a_step_that_is_shown_also_once_the_run_has_become_slower(
    slow: float,
) -> None:
    fast_steps = [slow / 2] * 600
    history = made(History(plan(2)).training(total=12_000), fast_steps, ranks=2)
    state = history.state()
    assert state.eta(state.now) == pytest.approx(product(state), rel=0.03)
    before = state.eta(state.now)
    # The time that is shown is of 10 s or 20 steps, and the forecast is as far soon after.
    slow_steps = [slow] * max(30, round(20 / slow))
    state = made(history, slow_steps, ranks=2, first=601).state()
    assert product(state) > 1.8 * before
    assert state.eta(state.now) == pytest.approx(product(state), rel=0.03)


def test_single_slow_steps_hardly_change_it() -> None:
    """Every twentieth step takes ten times as long as the others."""
    history = made(History(plan(1)).training(total=20_000), [0.02] * 1000)
    ends = []
    for step in range(1001, 2001):
        made(history, [0.02 if step % 20 else 0.2], first=step)
        if step > 1600 and step % 25 == 0:  # the run has been so for 10 s and more
            state = history.state()
            ends.append(state.now + state.eta(state.now))
            assert state.eta(state.now) == pytest.approx(product(state), rel=0.03)
    left_at_end = 18_000 * 0.029
    assert max(ends) - min(ends) < 0.03 * left_at_end


def test_it_is_a_range_where_the_pace_varies_for_long() -> None:
    calm = made(History(plan(1)).training(total=4000), [1.0, 1.1] * 200).state()
    least, most = calm.eta_between(calm.now)
    assert least == most == calm.eta(calm.now)
    slow_times = [1.0] * 100 + [2.5] * 100
    varying = made(History(plan(1)).training(total=4000), slow_times * 3).state()
    least, most = varying.eta_between(varying.now)
    assert least < 0.8 * varying.eta(varying.now)
    assert least < 3400 * 1.75 < most
    short = made(
        History(plan(1)).training(total=700), [one / 100 for one in slow_times * 3]
    ).state()
    least, most = short.eta_between(short.now)
    assert 0 < least == most < 10, "of a few seconds nobody needs a range"


def test_the_spread_is_that_of_blocks_of_steps() -> None:
    steady, noisy, slow = StepBlocks(), StepBlocks(), StepBlocks()
    chance = random.Random(5)
    for step in range(512):
        steady.append(1.0)
        noisy.append(chance.choice((0.5, 1.5)))
        slow.append(0.5 if step % 256 < 128 else 1.5)
    assert steady.spread(1000) == 0.0
    assert 0.0 < noisy.spread(1000) < 0.25 < slow.spread(1000)
    assert noisy.spread(10) > noisy.spread(1000), "a few steps to come are less sure"
    assert StepBlocks().spread(10) == noisy.spread(0) == 0.0


def test_the_correlation_of_blocks_counts_up_to_a_bound() -> None:
    """Blocks on a sine wave are correlated by 0.92, and would make any forecast unsure."""
    blocks = StepBlocks()
    for number in range(1, 16):
        blocks.append(1.0 + 0.1 * math.sin(2 * math.pi * number / 16))
    variance = 0.01 * 8 / 14
    inflation = (1 + 0.8) / (1 - 0.8)
    assert blocks.spread(10**9) == pytest.approx(2 * math.sqrt(variance * inflation / 15), rel=1e-3)


def test_it_stops_where_no_step_comes() -> None:
    history = made(History(plan(1)).training(), [1.0] * 10)
    state = history.state()
    later = [state.eta(state.now + seconds) for seconds in (0.0, 2.0, 60.0, 3600.0)]
    assert later[1] == pytest.approx(later[0] - 2.0, abs=0.1)
    assert later[2] == later[3] > 25


def test_a_restart_forgets_it() -> None:
    history = made(History(plan(2)).training(), [1.0] * 10, ranks=2)
    state = history.state()
    restart(state, 1, (0, 1), "killed", history.now, started=True)
    assert math.isnan(state.eta(state.now))


def test_figures_that_are_no_numbers_change_nothing() -> None:
    history = made(History(plan(1)).training(), [1.0] * 10)
    before = left(history)
    bad = stepped(0, 11, seconds=math.inf)
    history.records.append(Record(0, 0, len(history.records), history.now, bad))
    assert left(history) == pytest.approx(before, rel=0.1)


def test_huge_figures_are_not_forecast() -> None:
    """Sums of them are no numbers."""
    history = History(plan(1)).training(0, 100)
    for step in range(1, 40):
        history.rank(0, stepped(0, step, seconds=1.7e308, ready=1.7e308))
        history.rank(0, Evaluated(0, step, step, 1.0, 0.5, 100, 1.7e308))
    assert math.isnan(left(history))


def test_an_evaluation_and_a_checkpoint_count_down() -> None:
    job = replace(Job(), checkpoint_every="20")
    history = History(replace(plan(1), work=job)).training()
    made(history, [1.0] * 10)
    history.rank(0, Entered(0, Phase.EVALUATING), Evaluated(0, 1, 10, 0.5, 0.9, 100, 8.0))
    history.rank(0, Entered(0, Phase.TRAINING))
    for step in range(11, 21):
        history.now += 0.99
        history.rank(0, stepped(0, step, seconds=1.0))
    history.rank(0, Entered(0, Phase.EVALUATING))
    state = history.state()
    begun = state.eta(state.now)
    assert begun == pytest.approx(20 + 3 * 8.0, abs=1.0)
    assert state.eta(state.now + 6.0) == pytest.approx(begun - 6.0, abs=0.5), "it takes so long"
    assert state.eta(state.now + 60.0) == state.eta(state.now + 600.0) > 25, "and not much longer"
