"""Sizes, durations and numbers as people read them."""

from __future__ import annotations

import math
import time

import pytest

from remote import format

UNKNOWN = [math.nan, math.inf, -math.inf]


@pytest.mark.parametrize(
    ("count", "text", "short"),
    [
        (1, "1 B", "1B"),
        (900, "900 B", "900B"),
        (8192, "8 KiB", "8K"),
        (412_000_000, "393 MiB", "393M"),
        (3 * 2**29, "1.5 GiB", "1.5G"),
        (3_400_000_000, "3.2 GiB", "3.2G"),
        (1020 * 2**20, "1.0 GiB", "1.0G"),
        (2**50, "1024 TiB", "1024T"),
    ],
)
def test_a_size_has_one_unit_in_sentences_and_in_columns(count: int, text: str, short: str) -> None:
    assert (format.size(count), format.short_size(count)) == (text, short)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0 s"), (45.4, "45 s"), (59.6, "1:00"), (125, "2:05"), (7_384, "2:03:04"), (-90, "-1:30")],
)
def test_durations(seconds: float, text: str) -> None:
    assert format.duration(seconds) == text


@pytest.mark.parametrize(
    ("least", "most", "text"),
    [
        (750.0, 750.0, "12:30"),
        (731.0, 1_055.0, "12 to 18 min"),
        (41.0, 63.0, "40 to 65 s"),
        (2.0, 14.0, "up to 15 s"),
        (100.0, 130.0, "1 to 3 min"),
        (5_500.0, 9_100.0, "1.5 to 3 h"),
        (math.nan, math.nan, "-"),
    ],
)
def test_a_span_that_is_not_known_well_is_a_range(least: float, most: float, text: str) -> None:
    assert format.between(least, most) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (42, "42 s"),
        (99.4, "99 s"),
        (99.6, "2 min"),
        (300, "5 min"),
        (5_960, "99 min"),
        (5_980, "2 h"),
        (3 * 3600, "3 h"),
        (7 * 86_400, "7 d"),
    ],
)
def test_ages(seconds: float, text: str) -> None:
    assert format.age(seconds) == text


def test_a_moment_of_a_clock_that_is_far_off_is_unknown() -> None:
    assert format.moment(86_400) == time.strftime("%m-%d %H:%M", time.localtime(86_400))
    wanted = time.strftime("%m-%d %H:%M:%S", time.localtime(86_407))
    assert format.moment(86_407, exact=True) == wanted
    assert [format.moment(when) for when in (0.0, 1e300, *UNKNOWN)] == ["-"] * 5


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
    assert format.number(value) == text


def test_a_number_fits_its_column() -> None:
    for power in range(-300, 300, 3):
        for factor in (1.0, 9.996, -5.5):
            assert len(format.number(factor * 10.0**power)) <= 7


def test_decimals_units_and_shares() -> None:
    assert format.fixed(1234.5, 2, " s") == "1,234.50 s"
    assert [format.seconds(value) for value in (0.00521, 1.25, 312.4)] == ["0.0052", "1.250", "312"]
    assert [format.rate(value) for value in (3.25, 1250.0)] == ["3.25", "1,250"]
    assert [format.percent(0.4567), format.percent(0.4567, 2)] == ["46%", "45.67%"]


@pytest.mark.parametrize("value", UNKNOWN)
def test_a_value_that_is_not_known_is_a_dash(value: float) -> None:
    texts = [
        format.duration(value),
        format.fixed(value, 2, " s"),
        format.seconds(value),
        format.percent(value),
        format.short_size(value),
    ]
    assert texts == ["-"] * 5
    assert [format.or_unknown(0), format.or_unknown(3), format.short_size(0)] == ["-", "3", "-"]


@pytest.mark.parametrize(
    ("number", "text"),
    [(1, "1 host"), (2, "2 hosts"), (0, "0 hosts"), (1200, "1,200 hosts"), (0.5, "0.5 hosts")],
)
def test_counts(number: float, text: str) -> None:
    assert format.count(number, "host") == text
    assert format.count(2, "process", "processes") == "2 processes"


def test_ranks_in_a_narrow_column() -> None:
    assert format.short_ranks([3]) == "3"
    assert format.short_ranks([5, 0, 2, 1, 7]) == "0-2,5,7"
    assert format.short_ranks([]) == ""


@pytest.mark.parametrize(
    ("names", "text"),
    [
        ([], ""),
        (["a"], "a"),
        (["a", "b", "c"], "a, b and c"),
        (["a", "b", "c", "d"], "a, b, c and d"),
        (["a", "b", "c", "d", "e"], "a, b, c and 2 more"),
    ],
)
def test_names_in_a_sentence(names: list[str], text: str) -> None:
    assert format.listed(names) == text
