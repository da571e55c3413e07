"""Columns of numbers as lines of text: each number is read back as it was."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray

from tui.export import number_text
from tui.export.number_text import format_columns


def format_column(numbers: list[float] | NDArray[np.float64]) -> list[str]:
    """The texts of a column of floats."""
    text = b"".join(format_columns([np.array(numbers, np.float64)])).decode()
    assert text.endswith("\n")
    return text.splitlines()


def narrow(numbers: list[float] | NDArray[np.float64]) -> NDArray[np.float64]:
    """Floats as they are in 32 bits."""
    with np.errstate(over="ignore"):
        return np.array(numbers, np.float32).astype(np.float64)


@pytest.mark.parametrize(
    ("numbers", "texts"),
    [
        ([1.0, 20.0, 300.0], ["1", "20", "300"]),
        ([0.0, 100_000.0, -123_456_789.0], ["0", "100000", "-123456789"]),
        ([1.0, math.nan, math.inf, -math.inf, 5.0], ["1", "nan", "inf", "-inf", "5"]),
        ([492.0, 491.039578, 0.5, -0.000_001], ["492", "491.039578", "0.5", "-0.000001"]),
        (narrow([0.1, 0.5, 2.0, 1.001]), ["0.100000001", "0.5", "2", "1.001000047"]),
        (narrow([0.01, -0.0123, 0.0]), ["0.00999999978", "-0.01229999959", "0"]),
        ([1 / 3, 1.0, math.nan], ["0.3333333333333333", "1", "nan"]),
        ([2.0**53, 2.0**60], ["9007199254740992", "1.152921504606847e18"]),
    ],
)
def test_numbers_have_the_digits_that_they_need(numbers: list[float], texts: list[str]) -> None:
    assert format_column(numbers) == texts


def test_a_number_that_is_much_smaller_than_others_keeps_its_digits() -> None:
    numbers = narrow([3.25, 1.5e-7, 1.25, 2.0, 1e-30])
    texts = format_column(numbers)
    assert texts[0] == "3.25"
    np.testing.assert_array_equal(np.array(texts, np.float32), numbers.astype(np.float32))


def test_whole_numbers_and_names_stand_beside_floats() -> None:
    columns = [["node1", "node-10"], np.array([-3, 40_000]), np.array([0.5, 2.0])]
    assert b"".join(format_columns(columns)) == b"node1,-3,0.5\nnode-10,40000,2\n"


def make_columns(draw: np.random.Generator, rows: int) -> dict[str, NDArray[np.float64]]:
    """Columns of every kind, with odd values at some rows."""
    columns = {
        "seconds": narrow(draw.random(rows) * 10.0 ** draw.integers(-8, 8)),
        "signed": narrow(draw.normal(size=rows)),
        "wide": narrow(10.0 ** draw.uniform(-30, 30, rows)),
        "any": draw.normal(size=rows) * 10.0 ** draw.integers(-8, 8),
        "time": np.round(draw.uniform(-10, 1e6, rows), 6),
        "whole": np.floor(10.0 ** draw.uniform(0, 15, rows)),
        "halves": draw.integers(0, 100, rows) / 2,
        "same": np.full(rows, 246_824.0),
    }
    for column in columns.values():
        odd_rows = draw.integers(0, rows, draw.integers(0, 4))
        column[odd_rows] = draw.choice([math.nan, math.inf, -math.inf, 0.0, 1e-30], len(odd_rows))
    return columns


@pytest.mark.parametrize("seed", range(20))
def test_all_numbers_are_read_back_as_they_were(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(number_text, "PIECE", 64)
    draw = np.random.default_rng(seed)
    columns = make_columns(draw, int(draw.integers(1, 300)))
    text = b"".join(format_columns([*columns.values()])).decode()
    assert "\0" not in text
    rows = [line.split(",") for line in text.splitlines()]
    for (name, column), texts in zip(columns.items(), zip(*rows, strict=True), strict=True):
        is_narrow = np.array_equal(narrow(column), column, equal_nan=True)
        kind = np.float32 if is_narrow else np.float64
        np.testing.assert_array_equal(
            np.array(texts, float).astype(kind), column.astype(kind), name
        )
        assert not any(text.endswith(".0") for text in texts if abs(float(text)) < 2**53)
