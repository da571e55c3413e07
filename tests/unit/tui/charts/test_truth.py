"""What charts draw is what was measured: cells are decoded back into values, at all sizes.

A line is off by one dot at most, a bar by an eighth of a cell, the edge of a band by half a cell.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import pytest
from msgspec.structs import replace

from tui.charts.axis import Axis
from tui.charts.plot_frame import MIN_HEIGHT_FOR_BANDS, PlotFrame, PlotOptions, make_frame
from tui.charts.raster import BRAILLE, DOT_BITS, NO_COLOUR, Curve
from tui.kit.palette import LEVELS

SIZES = ((1, 1), (2, 2), (9, 3), (38, 6), (78, 17))
SEEDS = range(12)
ROUNDING = 1e-6
"""What floating point may add to an error, in dots or eighths."""


def series(dice: random.Random, count: int) -> np.ndarray:
    """Values of some size: steps of a walk, a decay, or noise, with peaks and gaps."""
    scale = 10.0 ** dice.uniform(-5, 6)
    kind = dice.choice(("walk", "decay", "noise"))
    value = 1.0
    values = []
    for index in range(count):
        if kind == "walk":
            value = abs(value + dice.gauss(0, 0.2))
        elif kind == "decay":
            value = 1 / (1 + index) + 0.01 * dice.random()
        else:
            value = dice.lognormvariate(0, 1)
        peak = dice.choice((1, 1, 1, 1, 20)) if kind == "noise" else 1
        values.append(math.nan if dice.random() < 0.03 else scale * value * peak)
    return np.array(values)


def steps(dice: random.Random, count: int) -> np.ndarray:
    gaps = [dice.choice((1, 1, 1, 7)) for _ in range(count)]
    return np.cumsum(gaps).astype(float)


def sizes(dice: random.Random) -> Iterator[tuple[int, int]]:
    yield from SIZES
    for _ in range(2):
        yield dice.randrange(4, 200), dice.randrange(1, 60)


def by_column(
    x: np.ndarray, values: np.ndarray, x_axis: Axis, count: int
) -> dict[int, list[float]]:
    """The values of the points in each of `count` columns. Those at the end are in the last one."""
    columns: dict[int, list[float]] = {}
    for place, value in zip(x.tolist(), values.tolist(), strict=True):
        share = x_axis.share_of(place)
        if 0 <= share <= 1:
            columns.setdefault(min(int(share * count), count - 1), []).append(value)
    return columns


def mean(values: list[float]) -> float:
    known = [value for value in values if not math.isnan(value)]
    return sum(known) / len(known) if known else math.nan


# Lines --------------------------------------------------------------------------------------------


def lit_dots(frame: PlotFrame) -> dict[int, list[int]]:
    """The rows of the dots in each column that has any, from 0 at the top, by the characters that
    one sees. A sign stands for all dots of its cell, any other text hides them."""
    rows, width = frame.picture.dots.shape
    dots = np.zeros((4 * rows, 2 * width), bool)
    for row in range(rows):
        for column, character in enumerate(frame.picture.characters(row)):
            bits = BRAILLE.find(character) if character != "◆" else 0xFF
            is_lit = (max(bits, 0) & DOT_BITS) > 0
            dots[4 * row : 4 * row + 4, 2 * column : 2 * column + 2] = is_lit
    return {
        column: np.flatnonzero(dots[:, column]).tolist() for column in np.flatnonzero(dots.any(0))
    }


def dot_row(value: float, y_axis: Axis, rows: int) -> float:
    """The row of dots that shows a value, as a number that is not rounded."""
    return min(max((1 - y_axis.share_of(value)) * (4 * rows - 1), 0), 4 * rows - 1)


def exact_rows(frame: PlotFrame, curve: Curve) -> dict[int, float]:
    """The row of dots, not rounded, of the mean of the points in each column that has any."""
    assert frame.y_axis
    rows, width = frame.picture.dots.shape
    means = {
        column: mean(values)
        for column, values in by_column(curve.x, curve.mean, frame.x_axis, 2 * width).items()
    }
    return {
        column: dot_row(value, frame.y_axis, rows)
        for column, value in means.items()
        if not math.isnan(value)
    }


@pytest.mark.parametrize("log", [False, True])
@pytest.mark.parametrize("seed", SEEDS)
def test_no_line_is_off_by_more_than_a_dot(seed: int, log: bool) -> None:
    dice = random.Random(seed)
    for width, height in sizes(dice):
        count = dice.choice((1, 2, 5, 40, 900))
        x, values = steps(dice, count), series(dice, count)
        curve = Curve("", 0, x, values, values, values, band=False)
        options = PlotOptions("step", log_y=log, from_zero=dice.random() < 0.5)
        frame = make_frame([curve], options, width, height)
        if frame is None:
            assert np.isnan(values).all()
            continue
        assert frame.y_axis
        lit = lit_dots(frame)
        exact = exact_rows(frame, curve)
        for column, row in exact.items():
            assert min(abs(row - dot) for dot in lit[column]) <= 1 + ROUNDING
        # What joins two values stays between them.
        for (first, above), (last, below) in pairwise(exact.items()):
            between = [dot for column in range(first, last) for dot in lit.get(column, ())][1:]
            before = [row for column, row in exact.items() if column < first][-1:]
            low, high = min(above, below, *before), max(above, below, *before)
            assert all(low - 1 <= dot <= high + 1 for dot in between)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_rate_is_what_was_done_in_the_time_of_all_steps_of_a_column(seed: int) -> None:
    dice = random.Random(seed)
    seconds = np.array([dice.choice((0.01, 0.06)) for _ in range(900)])
    x = np.arange(900.0)
    rates = 64 / seconds
    curve = Curve("", 0, x, *3 * [rates], band=False, is_rate=True)
    frame = make_frame([curve], PlotOptions("step", from_zero=True), 60, 16)
    assert frame
    assert frame.y_axis
    rows, width = frame.picture.dots.shape
    lit = lit_dots(frame)
    for column, times in by_column(x, seconds, frame.x_axis, 2 * width).items():
        exact = dot_row(64 * len(times) / sum(times), frame.y_axis, rows)
        assert min(abs(exact - dot) for dot in lit[column]) <= 1 + ROUNDING


@pytest.mark.parametrize("seed", SEEDS)
def test_no_value_of_a_test_is_off_by_more_than_a_dot_or_hidden_by_its_text(seed: int) -> None:
    dice = random.Random(seed)
    for width, height in sizes(dice):
        x = steps(dice, dice.choice((1, 2, 5, 20)))
        values = np.array([dice.choice((0.305, 0.313, 0.316, dice.random())) for _ in x])
        signed = (int(values.argmin()),)
        curve = Curve(
            "test",
            1,
            x,
            *3 * [values],
            band=False,
            signed=signed,
            end_name="test",
            end_value="0.313",
        )
        frame = make_frame([curve], PlotOptions("step"), width, height)
        assert frame
        lit = lit_dots(frame)
        for column, row in exact_rows(frame, curve).items():
            assert min(abs(row - dot) for dot in lit[column]) <= 1 + ROUNDING


@pytest.mark.parametrize("dash", [1, 2, 3])
@pytest.mark.parametrize("seed", SEEDS)
def test_a_dashed_line_has_gaps_but_no_dot_elsewhere(seed: int, dash: int) -> None:
    dice = random.Random(seed)
    for width, height in sizes(dice):
        values = series(dice, 400)
        curve = Curve("A", 0, np.arange(400.0), *3 * [values], band=False, dash=dash)
        drawn, whole = (
            make_frame([one], PlotOptions("step", named=True, dashed=True), width, height)
            for one in (curve, replace(curve, dash=0))
        )
        if drawn is None or whole is None:
            continue
        is_lit = drawn.picture.dots > 0
        assert (drawn.picture.dots[is_lit] == whole.picture.dots[is_lit]).all()
        num_gaps = int(((whole.picture.dots > 0) & ~is_lit).any(axis=0).sum())
        assert num_gaps <= whole.picture.dots.shape[1] // 2 + 1
        assert num_gaps or whole.picture.dots.shape[1] < 2


@pytest.mark.parametrize("seed", SEEDS)
def test_every_dot_has_the_colour_of_a_curve_that_is_there(seed: int) -> None:
    dice = random.Random(seed)
    for width, height in sizes(dice):
        values = [np.array([dice.uniform(0.4, 1) for _ in range(30)]) for _ in range(3)]
        curves = [
            Curve("", colour, np.arange(30.0), *3 * [y], band=False)
            for colour, y in enumerate(values)
        ]
        options = PlotOptions("step", from_zero=True)
        together = make_frame(curves, options, width, height)
        assert together
        # The same limits of y, from a curve that is faint and so lies behind the others.
        limits = np.array([min(y.min() for y in values), max(y.max() for y in values)])
        ends = Curve("", 9, np.array([0.0, 29.0]), *3 * [limits], faint=True, band=False)
        for curve in curves:
            alone = make_frame([ends, curve], options, width, height)
            assert alone
            is_its_own = together.picture.curve == curve.colour
            seen_dots = together.picture.dots[is_its_own]
            assert (seen_dots == alone.picture.dots[is_its_own]).all()


@pytest.mark.parametrize("num_curves", [2, 3, 5])
def test_no_curve_is_hidden_for_more_cells_than_there_are_others(num_curves: int) -> None:
    x = np.arange(200.0)
    values = 5 + np.sin(x / 20)
    curves = [Curve("", place, x, *3 * [values], band=False) for place in range(num_curves)]
    frame = make_frame(curves, PlotOptions("step"), 78, 17)
    assert frame
    for curve in curves:
        columns = np.flatnonzero((frame.picture.curve == curve.colour).any(axis=0))
        hidden_cells = np.diff([-1, *columns.tolist(), frame.picture.dots.shape[1]]) - 1
        assert hidden_cells.max() < num_curves


def test_a_level_curve_goes_on_where_a_steep_one_crosses_it() -> None:
    level = Curve("", 0, np.array([0.0, 100.0]), *3 * [np.array([5.0, 5.0])], band=False)
    steep_x = np.array([0.0, 49.0, 50.0, 100.0])
    steep = Curve("", 1, steep_x, *3 * [np.array([0.0, 0.0, 9.0, 9.0])], band=False)
    for curves in ((level, steep), (steep, level)):
        frame = make_frame(curves, PlotOptions("step"), 60, 17)
        assert frame
        assert (frame.picture.curve == level.colour).any(axis=0).all()


@pytest.mark.parametrize("seed", SEEDS)
def test_the_sign_of_the_best_value_covers_its_dot(seed: int) -> None:
    dice = random.Random(seed)
    for width, height in sizes(dice):
        x = steps(dice, dice.choice((2, 5, 20)))
        values = np.array([dice.uniform(0.1, 1) for _ in x])
        best = dice.randrange(values.size)  # of an accuracy it is not the lowest
        curve = Curve("test", 1, x, *3 * [values], band=False, signed=(best,), end_name="test")
        frame = make_frame([curve], PlotOptions("step", log_y=dice.random() < 0.5), width, height)
        assert frame
        assert frame.y_axis
        ((row, column),) = np.argwhere(frame.picture.sign == ord("◆")).tolist()
        rows, inner_width = frame.picture.dots.shape
        assert column == min(int(frame.x_axis.share_of(x[best]) * inner_width), inner_width - 1)
        exact = dot_row(float(values[best]), frame.y_axis, rows)
        if inner_width > 2 * x[-1]:  # else other points are drawn in the same column
            assert 4 * row - 0.5 - ROUNDING <= exact <= 4 * row + 3.5 + ROUNDING


@pytest.mark.parametrize("seed", SEEDS)
def test_a_tick_stands_where_a_line_at_its_value_is(seed: int) -> None:
    dice = random.Random(seed)
    for width, height in sizes(dice):
        top = dice.uniform(1, 900)
        curve = Curve("", 0, np.array([0.0, 1.0]), *3 * [np.array([0.0, top])], band=False)
        frame = make_frame([curve], PlotOptions("step"), width, height)
        assert frame
        assert frame.y_axis
        rows = frame.picture.dots.shape[0]
        for row, label in enumerate(frame.row_labels):
            if text := label.rstrip("┤│ "):
                exact = dot_row(float(text), frame.y_axis, rows)
                assert 4 * row - 0.5 <= exact + 0.01
                assert exact - 0.01 <= 4 * row + 3.5


# Bands --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", SEEDS)
def test_no_edge_of_a_band_is_off_by_more_than_half_a_cell(seed: int) -> None:
    dice = random.Random(seed)
    for width, height in sizes(dice):
        if height < MIN_HEIGHT_FOR_BANDS:
            continue
        count = dice.choice((2, 5, 40, 400))
        x = steps(dice, count)
        middle = np.array([dice.uniform(3, 7) for _ in x])
        spread = np.array([dice.uniform(0, 3) for _ in x])
        curve = Curve("", 0, x, middle - spread, middle + spread, middle)
        frame = make_frame([curve], PlotOptions("step", from_zero=True), width, height)
        assert frame
        assert frame.y_axis
        rows, inner_width = frame.picture.dots.shape
        lows = by_column(x, curve.low, frame.x_axis, 2 * inner_width)
        highs = by_column(x, curve.high, frame.x_axis, 2 * inner_width)
        for cell in range(inner_width):
            pair = [column for column in (2 * cell, 2 * cell + 1) if column in lows]
            tops = [dot_row(max(highs[column]), frame.y_axis, rows) for column in pair]
            bottoms = [dot_row(min(lows[column]), frame.y_axis, rows) for column in pair]
            is_thin = any(low - high < 4 for high, low in zip(tops, bottoms, strict=True))
            if len(pair) < 2 or is_thin:
                continue  # it goes to the values beside it, or it is not drawn
            halves = np.flatnonzero(frame.picture.band[:, cell] != NO_COLOUR)
            # A half of a cell is two rows of dots high.
            assert abs(2 * halves.min() - min(tops)) <= 2 + ROUNDING
            assert abs(2 * halves.max() + 1 - max(bottoms)) <= 2 + ROUNDING


# Bars ---------------------------------------------------------------------------------------------


def read_lanes(frame: PlotFrame) -> Iterator[tuple[str, int, int, float]]:
    """The name, the first row, the end and the highest value of each lane, by what stands at the
    left: names at their feet, and once how high a lane is. If none has two rows, there is no room
    for that: then the values are NaN."""
    texts = [label.strip("┤│ ") for label in frame.row_labels]
    ticks = [row for row, label in enumerate(frame.row_labels) if label.endswith("┤")]
    ends = [row + 1 for row, text in enumerate(texts) if text and row not in ticks]
    lanes = [(texts[end - 1], top, end) for top, end in pairwise([0, *ends])]
    if not ticks:
        yield from ((*lane, math.nan) for lane in lanes)
        return
    (tick_row,) = ticks
    tick = texts[tick_row]
    factor = {"k": 1e3, "M": 1e6, "G": 1e9}.get(tick[-1], 1)
    (rows,) = [end - top for _, top, end in lanes if top == tick_row]
    row_value = float(tick.rstrip("kMG")) * factor / rows
    for name, top, end in lanes:
        yield name, top, end, row_value * (end - top)


@pytest.mark.parametrize("seed", SEEDS)
def test_no_bar_is_off_by_more_than_an_eighth_of_a_cell(seed: int) -> None:
    dice = random.Random(seed)
    for width, height in sizes(dice):
        count = dice.choice((1, 2, 5, 40, 900))
        x = steps(dice, count)
        phases = {name: series(dice, count) for name in ("data", "comp", "sync")}
        weights = [10.0 ** dice.uniform(-3, 0) for _ in phases]
        phases = {
            name: values / np.nanmax(values) * weight
            for (name, values), weight in zip(phases.items(), weights, strict=True)
            if not np.isnan(values).all()
        }
        curves = [Curve(name, 0, x, values, values, values) for name, values in phases.items()]
        frame = make_frame(curves, PlotOptions("step", stacked=True), width, height)
        if frame is None:
            assert not phases
            continue
        rows, inner_width = frame.picture.dots.shape
        has_labels = any(frame.row_labels)
        lanes = list(read_lanes(frame)) if has_labels else []
        assert has_labels or width < 40
        assert not has_labels or len(lanes) == min(len(phases), rows)
        for name, top, end, high in lanes:
            found = by_column(x, phases[name], frame.x_axis, 2 * inner_width)
            for cell in range(inner_width):
                halves = [
                    mean(found.get(column, [math.nan])) for column in (2 * cell, 2 * cell + 1)
                ]
                if math.isnan(high) or any(math.isnan(half) for half in halves):
                    continue  # at least one is a gap, or lies between two points
                signs = [chr(sign) for sign in frame.picture.sign[top:end, cell] if sign]
                eighths = sum(LEVELS[0].index(sign) + 1 for sign in signs)
                exact = mean(halves) / high * 8 * (end - top)
                assert abs(eighths - exact) <= 1 + ROUNDING
                assert eighths or not exact
