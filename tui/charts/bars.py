"""Curves as bars of eighths of a cell, each curve in a lane of its own: numpy only, no terminal.

Bars that stand on each other could not be read back: a cell has two colours, but the edges of two
bars often lie in one cell. All lanes have the same scale, so that their bars can be compared.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np
from msgspec import Struct

from tui.charts.axis import TINY
from tui.charts.raster import DotColumns, DotPicture, blank_picture, mean_of_groups
from tui.kit import palette

EIGHTHS = 8
"""The heights of a bar within a cell."""
ROW_FACTORS = (1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8)
"""A row of cells stands for one of these times a power of ten."""


class Lane(Struct, frozen=True):
    """The rows of cells in which the bars of a curve stand."""

    curve: int
    """The index of the curve."""
    top: int
    """The first row."""
    rows: int
    high: float
    """The value of a bar as high as the lane."""


def make_lanes(highs: Sequence[float], rows: int) -> list[Lane]:
    """Share rows of cells among curves, given the highest value of each.

    A curve without a value above 0 has no lane. With more curves than rows, the lowest have none.
    """
    by_height = sorted(range(len(highs)), key=lambda curve: -highs[curve])
    shown = sorted(curve for curve in by_height[:rows] if highs[curve] > 0)
    if not shown:
        return []
    row_value = _row_value([highs[curve] for curve in shown], rows)
    rows_of = {curve: _rows_needed(highs[curve], row_value) for curve in shown}
    rows_of[by_height[0]] += rows - sum(rows_of.values())
    lanes = []
    top = 0
    for curve, lane_rows in rows_of.items():
        lanes.append(Lane(curve, top, lane_rows, lane_rows * row_value))
        top += lane_rows
    return lanes


def _row_value(highs: Sequence[float], rows: int) -> float:
    """Return the smallest round value of a row with which there is room for all lanes."""
    return next(
        value
        for value in _round_values(max(*highs, TINY) / rows)
        if sum(_rows_needed(high, value) for high in highs) <= rows
    )


def _round_values(least: float) -> Iterator[float]:
    power = math.floor(math.log10(least))
    while True:
        yield from (factor * 10.0**power for factor in ROW_FACTORS)
        power += 1


def _rows_needed(high: float, row_value: float) -> int:
    return max(1, math.ceil(high / row_value - 1e-9))


def draw_bars(
    all_columns: Sequence[DotColumns], lanes: Sequence[Lane], height: int, width: int
) -> DotPicture:
    """Draw the curve of each lane as bars. A value above 0 is an eighth of a cell at least."""
    picture = blank_picture(height, width)
    level_codes = np.array([0, *map(ord, palette.level_signs())])
    for lane in lanes:
        columns = all_columns[lane.curve]
        means = mean_of_groups(columns.mean, np.arange(0, columns.mean.size, 2))
        values = np.nan_to_num(means).clip(0, lane.high)
        eighths = (values / lane.high * lane.rows * EIGHTHS).round()
        eighths = np.where(values > 0, eighths.clip(1), 0).astype(int)
        for row in range(lane.rows):
            below = EIGHTHS * (lane.rows - 1 - row)
            levels = (eighths - below).clip(0, EIGHTHS)
            picture.sign[lane.top + row] = level_codes[levels]
            picture.curve[lane.top + row, levels > 0] = columns.colour
    return picture
