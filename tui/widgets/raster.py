"""Curves as braille dots: numpy only, no terminal.

A cell of a terminal is 2 columns and 4 rows of dots. A curve is reduced to one mean, one low and
one high per column of dots, so that a frame costs the same for a hundred points and for a hundred
thousand, and no spike is lost.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tui.widgets import axis
from tui.widgets.axis import HUGE, TINY, Axis

Floats = NDArray[np.float64]
Cells = NDArray[np.int_]

WEIGHTS = np.array([[0x01, 0x08], [0x02, 0x10], [0x04, 0x20], [0x40, 0x80]])
"""The bit of each dot of a cell in U+2800 and following."""
NONE, MARK = -1, -2
"""In place of a curve's colour: there is none, or a mark."""


@dataclass(frozen=True)
class Curve:
    """Points in order of x: four arrays of one length. NaN in `mean` is a gap. `colour` counts from
    0."""

    label: str
    colour: int
    x: Floats
    low: Floats
    high: Floats
    mean: Floats


@dataclass(frozen=True)
class Columns:
    """A curve as one value per column of dots, or NaN: `mean` is joined by straight lines, `low`
    and `high` are not."""

    colour: int
    mean: Floats
    low: Floats
    high: Floats


@dataclass(frozen=True)
class Picture:
    """Height x width cells: the `dots` of the curves as bits, the colour of a curve there (or MARK,
    NONE), a band's, and how many curves there are."""

    dots: Cells
    curve: Cells
    band: Cells
    count: Cells


def x_axis(curves: Sequence[Curve]) -> Axis | None:
    """The axis over all x, or None where there is no point."""
    ends = [(x[0], x[-1]) for curve in curves if (x := curve.x[np.isfinite(curve.x)]).size]
    if not ends:
        return None
    return axis.growing(float(min(low for low, _ in ends)), float(max(high for _, high in ends)))


def columns(curve: Curve, along: Axis, count: int, log: bool) -> Columns:
    """The curve in `count` columns of dots over the axis `along`. `log`: values become their
    decimal logarithms."""
    result = Columns(curve.colour, *(np.full(count, np.nan) for _ in range(3)))
    inside = np.isfinite(curve.x)
    x = curve.x[inside].clip(along.low, along.high)
    if not x.size or count < 1:
        return result
    place = (
        ((x - along.low) / (along.high - along.low) * (count - 1))
        .round()
        .astype(int)
        .clip(0, count - 1)
    )
    starts = np.flatnonzero(np.r_[True, place[1:] != place[:-1]])
    at = place[starts]
    mean, low, high = (
        _scaled(values[inside], log) for values in (curve.mean, curve.low, curve.high)
    )
    known = ~np.isnan(mean)
    total = np.add.reduceat(np.where(known, mean, 0.0), starts)
    number = np.add.reduceat(known.astype(int), starts)
    means = np.where(number, total / np.maximum(number, 1), np.nan)
    span = np.arange(at[0], at[-1] + 1)
    result.mean[span] = np.interp(span, at, means)
    result.mean[at] = means
    result.low[at] = np.fmin.reduceat(low, starts)
    result.high[at] = np.fmax.reduceat(high, starts)
    return result


def _scaled(values: Floats, log: bool) -> Floats:
    """Finite values of bounded size, else NaN; on a log axis the logarithms of those over 0."""
    fit = np.where(np.isfinite(values), values, np.nan).clip(-HUGE, HUGE)
    if not log:
        return fit
    return np.log10(np.where(fit > 0, fit.clip(TINY), np.nan))


def limits(curves: Sequence[Curve], log: bool) -> tuple[float, float] | None:
    """The lowest and highest finite value of all curves and bands, for `log` of those over 0; None
    where there is none."""
    ends = []
    for values in (values for curve in curves for values in (curve.mean, curve.low, curve.high)):
        seen = values[np.isfinite(values) & (values > 0)] if log else values[np.isfinite(values)]
        if seen.size:
            ends.append((seen.min(), seen.max()))
    return (
        (float(min(low for low, _ in ends)), float(max(high for _, high in ends))) if ends else None
    )


def draw(
    all_columns: Sequence[Columns],
    low: float,
    high: float,
    height: int,
    bands: bool = True,
    marks: Sequence[int] = (),
) -> Picture:
    """The picture of the columns, `height` cells high, where positions `low` (bottom) < `high`
    (top) are in view.

    `marks`: columns of cells that are marked from top to bottom, behind the curves.
    """
    width = all_columns[0].mean.size // 2
    picture = Picture(*(np.full((height, width), start) for start in (0, NONE, NONE, 0)))
    there = []
    for each in all_columns:
        mean, bottom, top = (
            _rows(values, low, high, height) for values in (each.mean, each.low, each.high)
        )
        if bands:
            # A band no higher than the curve itself would only smudge it.
            wide = (bottom - top > 2)[None, :]
            picture.band[_cells(_between(top, bottom, height) & wide).any((1, 3))] = each.colour
        dots = (_cells(_between(*_joined(mean), height)) * WEIGHTS[None, :, None, :]).sum((1, 3))
        np.bitwise_or(picture.dots, dots, out=picture.dots)
        there.append(dots > 0)
    picture.count[:] = np.sum(there, axis=0)
    picture.curve[:] = _shared(np.array(there), np.array([each.colour for each in all_columns]))
    for column in marks:
        picture.curve[picture.curve[:, column] == NONE, column] = MARK
    return picture


def _shared(there: NDArray[np.bool_], colours: Cells) -> Cells:
    """A colour per cell; the curves that meet in cells take turns, two cells each, so that none
    hides the others."""
    count = there.sum(0)
    turn = (np.arange(there.shape[2]) // 2)[None, :] % np.maximum(count, 1)
    first = ((there.cumsum(0) == turn + 1) & there).argmax(0)
    return np.asarray(np.where(count > 0, colours[first], NONE))


def _rows(values: Floats, low: float, high: float, height: int) -> Floats:
    """The rows of dots, from 0 at the top, of positions; NaN stays."""
    last = 4 * height - 1
    return ((high - values) / (high - low) * last).round().clip(0, last)


def _joined(rows: Floats) -> tuple[Floats, Floats]:
    """Per column the first and last row of a line that goes half way to the neighbours' rows."""
    before = np.r_[np.nan, (rows[1:] + rows[:-1]) / 2]
    after = np.r_[before[1:], np.nan]
    top = np.fmin(np.fmin(np.ceil(before), np.ceil(after)), rows)
    bottom = np.fmax(np.fmax(np.floor(before), np.floor(after)), rows)
    return top, bottom


def _between(top: Floats, bottom: Floats, height: int) -> NDArray[np.bool_]:
    """Which dots lie between the rows `top` and `bottom` of their columns; none where those are
    NaN."""
    row = np.arange(4 * height)[:, None]
    return np.asarray((row >= top) & (row <= bottom))


def _cells(dots: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Rows x columns of dots as height x 4 x width x 2."""
    rows, count = dots.shape
    return dots.reshape(rows // 4, 4, count // 2, 2)
