"""The last steps of a rank."""

from __future__ import annotations

import math
import statistics

import pytest

from remote.run.series.pace import RECENT, Pace
from training.wire.events import StepFinished


def step(number: int) -> StepFinished:
    """One of which each figure has a value of its own."""
    return StepFinished(
        0, 1, number, *(number + place / 16 for place in range(7)), 16, number, 1 << 40, 3
    )


def test_figures_are_those_of_the_last_steps_in_order() -> None:
    pace, steps = Pace(), [step(number) for number in range(1, RECENT + 8)]
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
        assert pace.per_second(figure) == pytest.approx(sum(values) / sum(pace.last("seconds")))


def test_before_the_first_step_nothing_is_known() -> None:
    pace = Pace()
    assert not pace
    assert math.isnan(pace.median("ready"))
    assert math.isnan(pace.mean("loss"))
    assert math.isnan(pace.per_second("samples"))


def test_the_first_step_warms_up_and_counts_only_while_it_is_alone() -> None:
    pace = Pace()
    pace.append(step(1000))
    assert pace.mean("seconds") == step(1000).seconds
    for number in range(1, RECENT):
        pace.append(step(number))
    warm = pace.last("seconds")[1:]
    assert pace.mean("seconds") == pytest.approx(statistics.fmean(warm))
    assert pace.per_second("samples") == pytest.approx(16 * len(warm) / sum(warm))
    pace.append(step(RECENT))
    assert pace.mean("seconds") == pytest.approx(statistics.fmean(pace.last("seconds")))
