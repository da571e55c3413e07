"""The phases of a step, with a clock that the test moves."""

import time

import pytest
import torch
from torch import nn

from training.meter import Meter


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(time, "perf_counter", clock)
    return clock


@pytest.fixture
def model() -> nn.Module:
    return nn.Linear(2, 1)


def backward(model: nn.Module) -> None:
    model(torch.ones(1, 2)).sum().backward()


def meter_of(model: nn.Module) -> Meter:
    meter = Meter(torch.device("cpu"))
    meter.watch(model)
    return meter


def test_a_wait_after_backward_is_sync_and_not_ready(clock: Clock, model: nn.Module) -> None:
    meter = meter_of(model)
    with meter.loading():
        clock.now += 1
    clock.now += 4
    backward(model)
    for wait in (2, 3):
        with meter.waiting():
            clock.now += wait
    clock.now += 1
    phases = meter.lap().phases()
    assert (
        phases["seconds"],
        phases["data"],
        phases["compute"],
        phases["sync"],
        phases["ready"],
    ) == (
        11,
        1,
        5,
        5,
        5,
    )


def test_a_wait_before_the_last_gradient_is_taken_off_ready(clock: Clock, model: nn.Module) -> None:
    meter = meter_of(model)
    with meter.waiting():
        clock.now += 2
    clock.now += 1
    backward(model)
    phases = meter.lap().phases()
    assert (phases["seconds"], phases["compute"], phases["sync"], phases["ready"]) == (3, 1, 2, 1)


def test_what_backward_takes_after_the_last_gradient_can_be_a_wait(
    clock: Clock, model: nn.Module
) -> None:
    meter = meter_of(model)
    clock.now += 1
    backward(model)
    clock.now += 7
    meter.waited_since_gradient()
    phases = meter.lap().phases()
    assert (phases["seconds"], phases["compute"], phases["sync"], phases["ready"]) == (8, 1, 7, 1)


def test_laps_join_without_a_gap_until_the_meter_starts_again(
    clock: Clock, model: nn.Module
) -> None:
    meter = meter_of(model)
    meter.add("bytes_sent", 2)
    meter.add("bytes_sent", 3)
    clock.now += 1
    first = meter.lap()
    clock.now += 2
    assert (first.phases()["seconds"], meter.lap().phases()["seconds"]) == (1, 2)
    clock.now += 50
    meter.start()
    clock.now += 3
    last = meter.lap()
    assert last.phases()["seconds"] == 3
    assert (first.figures, last.figures) == ({"bytes_sent": 5}, {})
