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

from tui.charts.axis import HUGE, TINY, Axis

Floats = NDArray[np.float64]
Cells = NDArray[np.int_]

WEIGHTS = np.array([[0x01, 0x08], [0x02, 0x10], [0x04, 0x20], [0x40, 0x80]])
"""The bit of each dot of a cell in U+2800 and following."""
NONE = -1
MARK = -2
"""In place of a curve's colour: there is none, or a mark."""
FAINT = 1000
"""Added to the colour of a curve that stands behind the others."""


@dataclass(frozen=True)
class Curve:
    """Points in order of x: four arrays of one length. NaN in `mean` is a gap. `colour` counts from
    0.

    `faint`: it stands behind the others. `band`: what lies between `low` and `high` is tinted.
    `single`: each point has a sign, and no line joins them.
    """

    label: str
    colour: int
    x: Floats
    low: Floats
    high: Floats
    mean: Floats
    faint: bool = False
    band: bool = True
    single: bool = False

    @property
    def ink(self) -> int:
        """The colour of its cells."""
        return self.colour + FAINT * self.faint


@dataclass(frozen=True)
class DotColumns:
    """A curve as one value per column of dots, or NaN: `mean` is joined by straight lines, `low`
    and `high` are not."""

    colour: int
    mean: Floats
    low: Floats
    high: Floats
    band: bool = True


@dataclass(frozen=True)
class DotPicture:
    """Height x width cells: the `dots` of the curves as bits, the colour of a curve there (or MARK,
    NONE), a band's, how many curves there are, and the code of a `sign` in place of the dots, or
    0."""

    dots: Cells
    curve: Cells
    band: Cells
    count: Cells
    sign: Cells

    def put(self, row: int, column: int, text: str, colour: int) -> None:
        """Write a text into a row, as far as there is room."""
        for place, character in enumerate(text, column):
            if 0 <= place < self.dots.shape[1]:
                self.sign[row, place] = ord(character)
                self.curve[row, place] = colour


def columns(curve: Curve, along: Axis, count: int, log: bool) -> DotColumns:
    """The curve in `count` columns of dots over the axis `along`. `log`: values become their
    decimal logarithms."""
    mean, low, high = (np.full(count, np.nan) for _ in range(3))
    result = DotColumns(curve.ink, mean, low, high, curve.band)
    places = along.places(np.where(np.isfinite(curve.x), curve.x, np.nan))
    inside = _in_view(places)
    if not inside.any() or count < 1:
        return result
    place = np.floor(places[inside] * count).clip(-count, 2 * count).astype(int)
    starts = np.flatnonzero(np.r_[True, place[1:] != place[:-1]])
    at = place[starts]
    mean, low, high = (
        _scaled(values[inside], log) for values in (curve.mean, curve.low, curve.high)
    )
    known = ~np.isnan(mean)
    total = np.add.reduceat(np.where(known, mean, 0.0), starts)
    number = np.add.reduceat(known.astype(int), starts)
    means = np.where(number, total / np.maximum(number, 1), np.nan)
    shown = np.arange(max(at[0], 0), min(at[-1] + 1, count))
    result.mean[shown] = np.interp(shown, at, means)
    seen = (at >= 0) & (at < count)
    result.mean[at[seen]] = means[seen]
    result.low[at[seen]] = np.fmin.reduceat(low, starts)[seen]
    result.high[at[seen]] = np.fmax.reduceat(high, starts)[seen]
    return result


def _in_view(places: Floats) -> NDArray[np.bool_]:
    """The points in view, and the nearest one at each side, to which lines go."""
    inside = (places >= 0) & (places <= 1)
    for beyond, nearest in ((places < 0, -1), (places > 1, 0)):
        there = np.flatnonzero(beyond)
        if there.size:
            inside[there[nearest]] = True
    return inside


def _scaled(values: Floats, log: bool) -> Floats:
    """Finite values of bounded size, else NaN; on a log axis the logarithms of those over 0."""
    fit = np.where(np.isfinite(values), values, np.nan).clip(-HUGE, HUGE)
    if not log:
        return fit
    return np.log10(np.where(fit > 0, fit.clip(TINY), np.nan))


def cell_at(share: float, count: int) -> int:
    """The one of so many cells in which a share of their length lies."""
    return min(max(int(share * count), 0), count - 1)


def draw(
    all_columns: Sequence[DotColumns],
    low: float,
    high: float,
    height: int,
    marks: Sequence[int] = (),
) -> DotPicture:
    """The picture of the columns, `height` cells high, where positions `low` (bottom) < `high`
    (top) are in view.

    `marks`: columns of cells that are marked from top to bottom, behind the curves.
    """
    picture = blank(height, all_columns[0].mean.size // 2)
    for faint in (True, False):
        layer = [each for each in all_columns if (each.colour >= FAINT) is faint]
        there = []
        for each in layer:
            if each.band:
                _tint(picture, each, low, high, height)
            lines = _between(*_joined(_rows(each.mean, low, high, height)), height)
            there.append(_bits(lines))
        if there:
            _lay(picture, np.array(there), np.array([each.colour for each in layer]))
    for column in marks:
        picture.curve[picture.curve[:, column] == NONE, column] = MARK
    return picture


def blank(height: int, width: int) -> DotPicture:
    """A picture of nothing."""
    return DotPicture(*(np.full((height, width), start) for start in (0, NONE, NONE, 0, 0)))


def _tint(picture: DotPicture, each: DotColumns, low: float, high: float, height: int) -> None:
    bottom, top = (_rows(values, low, high, height) for values in (each.low, each.high))
    # A band no higher than the curve itself would only smudge it.
    wide = (bottom - top > 2)[None, :]
    tinted = _cells(_between(top, bottom, height) & wide).any((1, 3))
    picture.band[tinted] = each.colour % FAINT


def _lay(picture: DotPicture, dots: Cells, colours: Cells) -> None:
    """Lay curves over what is there already."""
    there = dots > 0
    over = there.any(0)
    picture.dots[over] = np.bitwise_or.reduce(dots, axis=0)[over]
    picture.count[over] = there.sum(0)[over]
    picture.curve[over] = _shared(there, colours)[over]


def stack(all_columns: Sequence[DotColumns], high: float, height: int, signs: str) -> DotPicture:
    """The columns as areas over each other, from 0 to `high`, each filled with one of the signs."""
    width = all_columns[0].mean.size // 2
    picture = blank(height, width)
    values = np.array([_halved(each.mean) for each in all_columns])
    known = ~np.isnan(values).all(0)
    tops = np.nancumsum(values.clip(0, HUGE), axis=0) / high * height
    ends = tops.round().astype(int).clip(0, height)
    begin = np.zeros(width, int)
    row = height - 1 - np.arange(height)[:, None]
    for each, end, sign in zip(all_columns, ends, signs, strict=False):
        cells = (row >= begin) & (row < end) & known
        picture.sign[cells] = ord(sign)
        picture.curve[cells] = each.colour
        begin = end
    return picture


def _halved(values: Floats) -> Floats:
    """The mean of each two values, as far as they are known."""
    pairs = values.reshape(-1, 2)
    known = ~np.isnan(pairs)
    total = np.where(known, pairs, 0.0).sum(1)
    return np.where(known.any(1), total / np.maximum(known.sum(1), 1), np.nan)


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


def _bits(dots: NDArray[np.bool_]) -> Cells:
    """Rows x columns of dots as the bits of height x width cells."""
    cells = _cells(dots)
    bits = np.zeros((cells.shape[0], cells.shape[2]), int)
    for row, column in np.ndindex(*WEIGHTS.shape):
        bits |= cells[:, row, :, column] * int(WEIGHTS[row, column])
    return bits


def _cells(dots: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Rows x columns of dots as height x 4 x width x 2."""
    rows, count = dots.shape
    return dots.reshape(rows // 4, 4, count // 2, 2)
