"""Bus bandwidth as nccl-tests defines it, and the least times of the reference's section D."""

from __future__ import annotations

import math

import pytest

from remote.statistics.bandwidth import best_seconds, bus_bandwidth

GRADIENTS = 9_231_114 * 4  # of VGG-11, in bytes
GIGABIT = 125e6  # in bytes per second


@pytest.mark.parametrize(
    ("collective", "expected"),
    [
        ("all_reduce", 150e6),
        ("reduce_scatter", 75e6),
        ("all_gather", 75e6),
        ("gather", 75e6),
        ("scatter", 75e6),
        ("broadcast", 100e6),
        ("reduce", 100e6),
    ],
)
def test_bus_bandwidth_of_50_mb_in_half_a_second_on_four_ranks(collective, expected):
    assert bus_bandwidth(collective, 50e6, 0.5, 4) == pytest.approx(expected)


def test_a_ring_at_best_fills_the_link():
    seconds = best_seconds("ring", GRADIENTS, 4, GIGABIT)
    assert bus_bandwidth("all_reduce", GRADIENTS, seconds, 4) == pytest.approx(GIGABIT)


def test_a_gather_at_best_fills_the_link_of_the_root():
    half = best_seconds("gather, then scatter", GRADIENTS, 4, GIGABIT) / 2
    assert bus_bandwidth("gather", 4 * GRADIENTS, half, 4) == pytest.approx(GIGABIT)


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [("gather, then scatter", 1.77), ("gather and scatter in buckets", 0.89), ("ring", 0.44)],
)
def test_best_seconds_are_those_of_the_reference(pattern, expected):
    assert round(best_seconds(pattern, GRADIENTS, 4, GIGABIT), 2) == expected


def test_what_took_no_time_or_sent_nothing_has_no_bandwidth():
    assert math.isnan(bus_bandwidth("all_reduce", 1e6, 0.0, 4))
    assert math.isnan(bus_bandwidth("all_reduce", 1e6, 1.0, 1))


def test_an_unknown_collective_is_an_error():
    with pytest.raises(KeyError):
        bus_bandwidth("all_to_none", 1e6, 1.0, 4)
