"""Curves as braille dots: numpy only, no terminal.

A cell of a terminal is 2 columns and 4 rows of dots. A curve is reduced to one mean, one low and
one high per column of dots. So a frame costs the same for a hundred points and for a hundred
thousand, and no spike is lost.

What is drawn can be read back: a line is off by a dot at most, the edge of a band by half a cell.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from operator import itemgetter

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from tui.charts.axis import TINY, Axis, bound
from tui.kit import palette
from tui.kit.inks import is_dashed

Floats = NDArray[np.float64]
Cells = NDArray[np.int_]

DOT_BITS = np.array([[0x01, 0x08], [0x02, 0x10], [0x04, 0x20], [0x40, 0x80]])
"""The bit of each dot of a cell in U+2800 and following."""
NO_COLOUR = -1
MARK_COLOUR = -2
ALARM_COLOUR = -3
"""Stand for the colours of a mark and of an alarm in place of a curve's."""
DASHES = (0, 3, 2, 6)
"""By the number of a dash: cells from one gap of a line to the next, each of one cell; 0 for an
unbroken line."""
FAINT = 1000
"""Added to the colour of a curve that stands behind the others."""


class Curve(Struct, frozen=True):
    """Points in order of x, in four arrays of one length."""

    label: str
    colour: int
    """The number of its ink, see `tui.kit.inks`."""
    x: Floats
    low: Floats
    high: Floats
    mean: Floats
    """NaN is a gap."""
    faint: bool = False
    """Whether the curve stands behind the others."""
    band: bool = True
    """Whether the area between `low` and `high` is tinted."""
    signed: tuple[int, ...] = ()
    """The indices of points with a sign: of tests, the best one. The limits of y leave out none of
    its points, but for those before the others are warm."""
    end_name: str = ""
    """What stands at the right of the chart where it ends, if that is not its label."""
    end_value: str = ""
    """What follows there, if there is room."""
    is_rate: bool = False
    """Whether values are rates over steps: those of a column are drawn as what was done in all of
    their time, their harmonic mean. A mean of rates would count the quick steps for too much."""
    dash: int = 0
    """The number of its dash, see `DASHES`: where there are no colours, curves of several inks can
    be told apart by theirs."""

    @property
    def is_raw(self) -> bool:
        """Whether it has the values behind an average, and their band."""
        return self.faint and self.band

    @property
    def cell_colour(self) -> int:
        """The colour of its cells in a picture."""
        return self.colour + FAINT if self.faint else self.colour

    @property
    def gap_distance(self) -> int:
        """The cells from one gap of its line to the next, or 0."""
        return DASHES[1 if is_dashed(self.colour) else self.dash % len(DASHES)]


class DotColumns(Struct, frozen=True):
    """A curve as one value per column of dots, or NaN.

    Between columns with points, straight lines join the values.
    """

    colour: int
    mean: Floats
    low: Floats
    high: Floats
    band: bool = True
    gap_distance: int = 0
    """See `Curve.gap_distance`."""
    are_points: bool = False
    """Whether only the columns with points have a value, and stand before all lines."""


class DotPicture(Struct, frozen=True):
    """A drawn chart as arrays of height x width cells."""

    curve: Cells
    """The colour of a curve, MARK_COLOUR, or NO_COLOUR."""
    band: Cells
    """The colour of a band, or NO_COLOUR, in halves of cells: two rows for each row of cells."""
    dots: Cells
    """The dots of the curves as bits."""
    sign: Cells
    """The code of a character in place of the dots, or 0."""
    count: Cells
    """How many curves there are."""

    def is_free(self, row: int, first: int, end: int) -> bool:
        """Return True if these cells of a row show nothing of the data."""
        cells = slice(max(first, 0), max(end, 0))
        bands = self.band[2 * row : 2 * row + 2, cells]
        has_sign = self.sign[row, cells] > 0
        has_dots = self.dots[row, cells] > 0
        return not (has_sign.any() or has_dots.any() or (bands != NO_COLOUR).any())

    def put(self, row: int, column: int, text: str, colour: int) -> None:
        """Write a text into a row, as far as there is room."""
        for place, character in enumerate(text, column):
            if 0 <= place < self.dots.shape[1]:
                self.sign[row, place] = ord(character)
                self.curve[row, place] = colour

    def characters(self, row: int) -> list[str]:
        """Return the cells of a row as this terminal can show them."""
        braille = BRAILLE if palette.has_utf8() else ASCII
        signs = zip(self.dots[row].tolist(), self.sign[row].tolist(), strict=True)
        return [chr(sign) if sign else braille[dots] for dots, sign in signs]


# From points to columns of dots


def to_columns(
    curve: Curve, x_axis: Axis, count: int, log: bool, *, only_points: bool = False
) -> DotColumns:
    """Reduce a curve to `count` columns of dots along `x_axis`, with lines between its points or
    without.

    With `log`, values become their decimal logarithms.
    """
    mean, low, high = (np.full(count, np.nan) for _ in range(3))
    result = DotColumns(
        curve.cell_colour, mean, low, high, curve.band, curve.gap_distance, only_points
    )
    shares = x_axis.shares_of(curve.x)
    inside = _in_view(shares)
    if not inside.any() or count < 1:
        return result
    # Clipped first: the neighbours of a small view may be farther away than an integer goes.
    column_of_point = np.floor(shares[inside] * count).clip(-count, 2 * count).astype(int)
    column_of_point[shares[inside] == 1] = count - 1  # the end of the axis is in the last column
    # Points are in order of x, so those of one column stand together from its first index on.
    # `np.unique` would find the same, but sorts, which takes several times as long.
    is_first = np.r_[True, column_of_point[1:] != column_of_point[:-1]]
    starts = np.flatnonzero(is_first)
    columns = column_of_point[starts]
    # Lines and bands reach every column between the first and the last point.
    crossed = np.arange(max(columns[0], 0), min(columns[-1] + 1, count))
    is_shown = (columns >= 0) & (columns < count)

    def fill(row: Floats, values: Floats) -> None:
        scaled = _scaled(values, log)
        if not only_points:
            row[crossed] = np.interp(crossed, columns, scaled)
        row[columns[is_shown]] = scaled[is_shown]

    means_of_columns = mean_of_rates if curve.is_rate else mean_of_groups
    fill(mean, means_of_columns(bound(curve.mean[inside]), starts))
    if curve.band:
        # fmin and fmax pass over NaN, which min and max would return.
        fill(low, np.fmin.reduceat(bound(curve.low[inside]), starts))
        fill(high, np.fmax.reduceat(bound(curve.high[inside]), starts))
    return result


def _in_view(shares: Floats) -> NDArray[np.bool_]:
    """Return which points are in view, with the nearest one at each side, to which lines go."""
    inside = (shares >= 0) & (shares <= 1)
    # As slices, since there may be no point at a side.
    inside[np.flatnonzero(shares < 0)[-1:]] = True
    inside[np.flatnonzero(shares > 1)[:1]] = True
    return inside


def _scaled(values: Floats, log: bool) -> Floats:
    """Return finite values of bounded size, else NaN. On a log axis, return their logarithms."""
    bounded = bound(values)
    return np.log10(np.where(bounded > 0, bounded.clip(TINY), np.nan)) if log else bounded


def mean_of_groups(values: Floats, starts: NDArray[np.intp]) -> Floats:
    """Return the mean of the known values from each start to the next, or NaN."""
    is_known = ~np.isnan(values)
    totals = np.add.reduceat(np.where(is_known, values, 0.0), starts)
    counts = np.add.reduceat(is_known.astype(int), starts)
    return np.where(counts, totals / np.maximum(counts, 1), np.nan)


def mean_of_rates(values: Floats, starts: NDArray[np.intp]) -> Floats:
    """Return the harmonic mean of the known values from each start to the next, or NaN."""
    with np.errstate(divide="ignore", over="ignore"):
        return np.asarray(1 / mean_of_groups(1 / np.maximum(values, 0.0), starts))


def cell_at(share: float, count: int) -> int:
    """Return which of `count` cells a share of their length lies in."""
    return min(max(int(share * count), 0), count - 1)


def row_at(share: float, height: int) -> int:
    """Return the row of cells in which a line is drawn at a share of the y axis."""
    return int(_dot_rows(np.array(share), 0.0, 1.0, height)) // 4


# Lines


def draw_lines(
    all_columns: Sequence[DotColumns], low: float, high: float, height: int
) -> DotPicture:
    """Draw curves as lines, `height` cells high, from `low` (bottom) to `high` (top)."""
    picture = blank_picture(height, all_columns[0].mean.size // 2)
    for layer in (
        [columns for columns in all_columns if columns.colour >= FAINT],
        [columns for columns in all_columns if columns.colour < FAINT and not columns.are_points],
        [columns for columns in all_columns if columns.colour < FAINT and columns.are_points],
    ):
        bits = []
        for columns in layer:
            if columns.band:
                _tint_band(picture, columns, low, high, height)
            top, bottom = _line_ends(_dot_rows(columns.mean, low, high, height))
            line = _to_bits(_dots_between(top, bottom, height))
            if columns.gap_distance:
                line[:, :: columns.gap_distance] = 0
            bits.append(line)
        if bits:
            colours = np.array([columns.colour for columns in layer])
            _put_on_top(picture, np.array(bits), colours)
    return picture


def blank_picture(height: int, width: int) -> DotPicture:
    """Return a picture of nothing."""
    curve = np.full((height, width), NO_COLOUR)
    band = np.full((2 * height, width), NO_COLOUR)
    zeros = np.zeros((3, height, width), int)
    return DotPicture(curve, band, *zeros)


def _tint_band(
    picture: DotPicture, columns: DotColumns, low: float, high: float, height: int
) -> None:
    bottom = _dot_rows(columns.low, low, high, height)
    top = _dot_rows(columns.high, low, high, height)
    # A band that is nowhere higher than the curve itself would only smudge it. Elsewhere it goes on
    # where it is as low: with holes it would look like a fault.
    if not (bottom - top > 2).any():
        return
    dots = _dots_between(top, bottom, height)
    upper, lower = dots[0::2], dots[1::2]
    # Half a cell is tinted if the band has 2 of its 4 dots, so that an edge is off by less.
    left = upper[:, 0::2].astype(np.int8) + lower[:, 0::2]
    right = upper[:, 1::2].astype(np.int8) + lower[:, 1::2]
    picture.band[left + right >= 2] = columns.colour % FAINT


def _put_on_top(picture: DotPicture, dots: Cells, colours: Cells) -> None:
    """Put curves over what is there already. `dots` has one layer of cells per curve.

    A cell has one ink, so it shows the dots of one curve: those of another in that ink would be
    read as values that no run of this colour has had.
    """
    has_curve = dots > 0
    covered = has_curve.any(0)
    picture.count[covered] = has_curve.sum(0)[covered]
    owner = _owner_per_cell(has_curve)
    picture.dots[covered] = np.take_along_axis(dots, owner[None], axis=0)[0][covered]
    picture.curve[covered] = colours[owner][covered]


def _owner_per_cell(has_curve: NDArray[np.bool_]) -> Cells:
    """Return which curve has each cell, by its index.

    Where curves meet, each goes on: a cell is of a curve that has no other cell in this column, and
    among such of the one whose turn was the longest ago, so that none is hidden for long.
    """
    owner = np.asarray(has_curve.argmax(0))
    is_met = has_curve.sum(0) > 1
    has_own_cell = (has_curve & ~is_met).any(1).tolist()
    # Of curves that meet for the first time, the shortest one is first: one point may be all of it.
    lengths = has_curve.sum((1, 2)).tolist()
    last_turns = [-1] * len(lengths)
    by_column = (has_curve & is_met).transpose(2, 1, 0)
    cells_with_curves = groupby(np.argwhere(by_column).tolist(), key=itemgetter(0, 1))
    for turn, ((column, row), entries) in enumerate(cells_with_curves):
        curves = [curve for _, _, curve in entries]
        chosen = min(curves, key=lambda at: (has_own_cell[at][column], last_turns[at], lengths[at]))
        owner[row, column] = chosen
        last_turns[chosen] = turn
    return owner


def _dot_rows(values: Floats, low: float, high: float, height: int) -> Floats:
    """Return the rows of dots of values, from 0 at the top. NaN stays. What is beyond the axis is
    beyond the rows: at the edge, it would be read as a value there."""
    last_row = 4 * height - 1
    return ((high - values) / (high - low) * last_row).round()


def _line_ends(rows: Floats) -> tuple[Floats, Floats]:
    """Return the first and last row of a line in each column.

    In each column, the line goes half way to the rows of its neighbours.
    """
    middle_before = np.r_[np.nan, (rows[1:] + rows[:-1]) / 2]
    middle_after = np.r_[middle_before[1:], np.nan]
    # Where a neighbour is missing, fmin and fmax leave the row itself: a lone point is a dot.
    top = np.fmin(np.fmin(np.ceil(middle_before), np.ceil(middle_after)), rows)
    bottom = np.fmax(np.fmax(np.floor(middle_before), np.floor(middle_after)), rows)
    return top, bottom


def _dots_between(top: Floats, bottom: Floats, height: int) -> NDArray[np.bool_]:
    """Return the dots between two rows of each column. There are none where a row is NaN."""
    row = np.arange(4 * height)[:, None]
    return np.asarray((row >= top) & (row <= bottom))


def _to_bits(dots: NDArray[np.bool_]) -> Cells:
    """Turn rows x columns of dots into the bits of height x width cells."""
    rows, columns = dots.shape
    cells = dots.reshape(rows // 4, 4, columns // 2, 2)
    # A loop over the 8 dots of a cell: `sum` over such short axes takes six times as long.
    bits = np.zeros((rows // 4, columns // 2), int)
    for row, column in np.ndindex(DOT_BITS.shape):
        bits |= cells[:, row, :, column] * DOT_BITS[row, column]
    return bits


# Characters


def _ascii_character(dots: int) -> str:
    """Return ' - or . for the height of a single row of dots, and : or | for more rows."""
    rows = [row for row, bits in enumerate(DOT_BITS) if dots & int(bits.sum())]
    if len(rows) == 1:
        return "'--."[rows[0]]
    return " .:||"[len(rows)]


BRAILLE = "".join(chr(0x2800 + dots) if dots else " " for dots in range(256))
"""The character of a cell, by the bits of its dots."""
ASCII = "".join(_ascii_character(dots) for dots in range(256))
"""The same for terminals without UTF-8."""
