"""What is concluded of recorded runs, calm and noisy ones: who is slow, and when they end."""

from __future__ import annotations

from pathlib import Path

import pytest

from remote.run.run_state import RunState
from tests.kit.forecasts import ERROR, JUMP, TICK, found
from tests.kit.replayed import Replayed, all_runs
from training.wire.rank_events import Finished

FALSE = 1.0
"""False alarms per 1,000 steps."""
SOON = 40
"""Steps within which a rank is named that has half the CPU of the others."""


def run_id(path: Path) -> str:
    return path.name.partition(".")[0]


def test_nobody_is_called_slow_where_nobody_is_and_most_ends_are_where_they_were_forecast() -> None:
    """Where a forecast is a range, the end is in it, but where the pace changes for good."""
    steps = 0
    named = list[str]()
    within = list[bool]()
    runs = [Replayed(path) for path in (*all_runs("calm"), *all_runs("noisy"))]
    for run in runs:
        assert run.slow is None
        end = max(one.time for one in run.records() if isinstance(one.event, Finished))
        next_tick = 0.0
        for state in run.states():
            least, most = state.eta_between(state.now)
            if least < most and state.now >= next_tick:
                within.append(least <= end - state.now <= most)
                next_tick = state.now + TICK
        steps += state.step
        named += [f"{state.plan.run}: {one.straggler}" for one in state.stragglers.episodes]
    assert len(runs) >= 10
    assert steps > 4_000
    assert len(named) < FALSE * steps / 1_000, named
    assert len(within) > 50
    assert sum(within) > 0.7 * len(within)


@pytest.mark.parametrize("in_blocks", [False, True])
def test_hardly_anybody_is_called_slow_where_other_programs_run(in_blocks: bool) -> None:
    steps = 0
    named = list[str]()
    for path in all_runs("noisy"):
        *_, state = Replayed(path).states(in_blocks=in_blocks)
        steps += state.step
        named += [f"{state.plan.run}: {one.straggler}" for one in state.stragglers.episodes]
    assert steps >= 4_000
    assert len(named) < FALSE * steps / 4_000, named


@pytest.mark.parametrize("in_blocks", [False, True])
@pytest.mark.parametrize("path", all_runs("slow"), ids=run_id)
def test_a_host_with_half_the_cpu_is_named_soon_and_no_other(path: Path, in_blocks: bool) -> None:
    run, named, since = Replayed(path), set[int](), 0
    for state in run.states(in_blocks=in_blocks):
        named |= {one.rank for one in state.stragglers.slow}
        since = since or (state.step if named else 0)
    assert named == {run.slow}
    assert since <= SOON


@pytest.mark.parametrize("path", all_runs("calm"), ids=run_id)
def test_the_forecast_is_near_the_truth_and_steady(path: Path) -> None:
    run = Replayed(path)
    made = found(RunState(run.plan), run.records())
    assert made
    assert made.ticks[0].passed < 0.25 * made.seconds, "known early"
    assert max(made.errors) < ERROR
    assert max(made.jumps) < JUMP


@pytest.mark.parametrize("path", all_runs("noisy"), ids=run_id)
def test_a_forecast_never_jumps_nor_ends_early_even_where_the_pace_changes(path: Path) -> None:
    run = Replayed(path)
    made = found(RunState(run.plan), run.records())
    assert made
    assert max(made.jumps) < JUMP
    begun = [tick for tick in made.ticks if tick.passed < 0.85 * made.seconds]
    assert min(tick.left for tick in begun) > 0.5
