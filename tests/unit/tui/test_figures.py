"""Figures in few cells."""

from __future__ import annotations

import math

import pytest

from remote.run.state import HostPhase, RankPhase, RunPhase, Verdict
from tui.panels import figures


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (2.3066, "2.31"),
        (0.0052, "0.0052"),
        (0.41234, "0.412"),
        (123.4, "123"),
        (12.345, "12.3"),
        (0.0, "0.00"),
        (4.2e-7, "4e-7"),
        (-1.5, "-1.50"),
        (1.2e12, "1e12"),
        (math.nan, "-"),
        (math.inf, "inf"),
    ],
)
def test_numbers(value: float, text: str) -> None:
    assert figures.number(value) == text


def test_a_number_has_its_place_in_a_column() -> None:
    for power in range(-300, 300, 3):
        for factor in (1.0, 9.996, -5.5):
            assert len(figures.number(factor * 10.0**power)) <= 7


@pytest.mark.parametrize(
    ("size", "text"),
    [(0, "-"), (900, "900B"), (412_000_000, "393M"), (3_400_000_000, "3.2G"), (2**50, "1024T")],
)
def test_memory(size: int, text: str) -> None:
    assert figures.memory(size) == text


def test_every_phase_has_a_sign_and_a_word() -> None:
    names = [*RunPhase, *HostPhase, *RankPhase, *(verdict.name.lower() for verdict in Verdict)]
    for name in names:
        sign, word = figures.phase(name).text.split()
        assert word == name
        assert len(sign) == 1
