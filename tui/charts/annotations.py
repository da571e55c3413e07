"""What stands on the curves of a picture: marks, names, signs, peaks, the cursor."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from remote.run.series.definitions import Unit
from tui.charts.axis import Axis, bound
from tui.charts.raster import MARK_COLOUR, NO_COLOUR, Cells, Curve, DotPicture, cell_at, row_at
from tui.charts.units import format_value
from tui.kit import palette

Mark = tuple[float, str]
"""An x that is marked, and the letter that says with what."""


class PointLabel(NamedTuple):
    """A point that is named."""

    x: float
    y: float
    text: str
    colour: int


NO_PEAK = (-math.inf, 0.0)
TEXT_OFFSETS = (0, -1, 1, -2, 2, -3, 3)
"""Rows away from a point where its text may stand, the best first."""
MAX_NAMES_PER_CURVE = 3
MARK_ROWS = 2
"""Rows of cells that the line of a mark goes down from the top."""
COLUMNS_PER_MARK = 6
"""Columns of cells for each mark of one letter. If they would be denser, none is drawn."""


def put_marks(picture: DotPicture, marks: Sequence[Mark], x_axis: Axis) -> None:
    """Draw a tick at the top for each mark, behind the curves, with the letters of its marks."""
    rows, width = picture.dots.shape
    columns_of: dict[str, set[int]] = {}
    for x, letter in marks:
        if x_axis.low <= x <= x_axis.high:
            columns_of.setdefault(letter, set()).add(cell_at(x_axis.share_of(x), width))
    letters_of: dict[int, str] = {}
    for letter, columns in columns_of.items():
        is_dense = COLUMNS_PER_MARK * len(columns) > max(width, COLUMNS_PER_MARK)
        for column in () if is_dense else columns:
            letters_of[column] = letters_of.get(column, "") + letter
    for column, letters in letters_of.items():
        # Short, so that they do not cut the plot.
        is_free = picture.curve[:, column] == NO_COLOUR
        is_free[MARK_ROWS:] = False
        _put_line(picture, column, "mark", is_free)
        # At the right edge they move left: `put` cuts off what has no room.
        start = max(0, min(column, width - len(letters)))
        under_letters = picture.curve[:, start : start + len(letters)]
        is_row_free = np.asarray((under_letters < 0).all(axis=1))
        # At an edge, but not on a curve, whose values they would cover.
        free_rows = [row for row in (*range(MARK_ROWS), -1) if rows > 2 and is_row_free[row]]
        if free_rows:
            picture.put(free_rows[0], start, letters, MARK_COLOUR)


def _put_line(picture: DotPicture, column: int, sign: str, is_free: Cells) -> None:
    """Draw a line from top to bottom, where the rows are free."""
    picture.sign[is_free, column] = ord(palette.sign(sign))
    picture.curve[is_free, column] = MARK_COLOUR


def put_names(picture: DotPicture, curves: Sequence[Curve]) -> None:
    """Put labels on curves, so that they can be told apart without colours.

    Each label is repeated as often as there is room for all of them beside each other.
    """
    width = picture.dots.shape[1]
    # Two cells more keep the names of neighbours apart.
    needed = sum(len(curve.label) + 2 for curve in curves)
    repeats = min(MAX_NAMES_PER_CURVE, width // max(needed, 1))
    if not repeats:
        return
    for index, curve in enumerate(curves):
        has_curve = picture.curve == curve.cell_colour
        is_alone = has_curve & (picture.count == 1)
        share = (index + 0.5) / len(curves)
        for row, column in _name_cells(has_curve, is_alone, share, repeats):
            picture.put(row, column, curve.label, curve.cell_colour)


def _name_cells(
    has_curve: Cells, is_alone: Cells, share: float, repeats: int
) -> list[tuple[int, int]]:
    """Return cells of a curve for its name, as row and column.

    The width is cut into `repeats` parts, and there is one cell in each, at a share of the part
    that is the curve's own. Where curves meet, a name would stand on all of them, so it keeps to
    cells where the curve is alone, if the part has any.
    """
    width = has_curve.shape[1]
    part_width = width / repeats
    cells = []
    for begin in range(repeats):
        first = int(begin * part_width)
        part = slice(first, max(first + 1, int(first + part_width)))
        candidates = is_alone if is_alone[:, part].any() else has_curve
        columns = np.flatnonzero(candidates.any(axis=0))
        if columns.size:
            target = (begin + share) * part_width
            nearest = int(columns[np.abs(columns - target).argmin()])
            cells.append((int(candidates[:, nearest].argmax()), nearest))
    return cells


def put_signs(picture: DotPicture, curve: Curve, x_axis: Axis, y_axis: Axis) -> None:
    """Put the signs of a curve on its points, and its text behind the last one."""
    rows, width = picture.dots.shape
    signed = list(curve.signed)
    x_shares = x_axis.shares_of(curve.x[signed])
    y_shares = y_axis.shares_of(curve.mean[signed])
    for index, x, y in zip(signed, x_shares.tolist(), y_shares.tolist(), strict=True):
        if not (0 <= x <= 1 and 0 <= y <= 1):  # or NaN
            continue
        row, column = row_at(y, rows), cell_at(x, width)
        picture.put(row, column, palette.sign("test"), curve.cell_colour)
        if index == signed[-1]:
            _put_beside(picture, row, column, curve.end_text, curve.cell_colour)


def put_point_label(picture: DotPicture, label: PointLabel, x_axis: Axis, y_axis: Axis) -> None:
    """Write a text beside a point, if there is room."""
    rows, width = picture.dots.shape
    x = x_axis.share_of(label.x)
    y = y_axis.share_of(label.y)
    if 0 <= x <= 1 and 0 <= y <= 1:
        _put_beside(picture, row_at(y, rows), cell_at(x, width), label.text, label.colour)


def _put_beside(picture: DotPicture, row: int, column: int, text: str, colour: int) -> None:
    """Put a text as near to a cell as it covers no curve, or else nowhere."""
    rows, width = picture.dots.shape
    start = column + 2
    if start + len(text) > width:
        start = width - len(text)
    if start < 0:
        return
    for near_row in (row + offset for offset in TEXT_OFFSETS if 0 <= row + offset < rows):
        place = slice(max(start - 1, 0), start + len(text))
        if (picture.curve[near_row, place] < 0).all():  # nothing, or a line of a mark
            picture.put(near_row, start, text, colour)
            return


def put_peaks(
    picture: DotPicture, curves: Sequence[Curve], x_axis: Axis, y_axis: Axis, unit: Unit
) -> None:
    """Write at the upper and the lower edge how far the curves go beyond."""
    rows = picture.dots.shape[0]
    if rows > 2:
        put_peak(picture, 0, curves, x_axis, y_axis, unit)
        put_peak(picture, rows - 1, curves, x_axis, y_axis, unit, direction=-1)


def put_peak(
    picture: DotPicture,
    row: int,
    curves: Sequence[Curve],
    x_axis: Axis,
    y_axis: Axis,
    unit: Unit | None,
    direction: int = 1,
    sign: str = "",
) -> None:
    """Write in a row how far the curves go above (1) or below (-1) the y axis, if they do.

    Without a unit, an arrow alone says that they do; with one, `sign` may stand for the arrow.
    """
    width = picture.dots.shape[1]
    peaks = [_find_peak(curve, x_axis, y_axis, direction) for curve in curves]
    excess, x = max(peaks, default=NO_PEAK)
    if excess > -math.inf:
        text = palette.sign("peak" if direction > 0 else "dip")
        if unit is not None:
            text = (sign or text) + format_value(direction * excess, unit)
        column = min(cell_at(x_axis.share_of(x), width), max(0, width - len(text)))
        picture.put(row, column, text, MARK_COLOUR)


def _find_peak(curve: Curve, x_axis: Axis, y_axis: Axis, direction: int) -> tuple[float, float]:
    """Return the value farthest above (1) the y axis, or minus that below (-1), and its x."""
    values = curve.mean
    # An average of equal values may be more than each of them by a rounding error.
    tolerance = 1e-9 * (y_axis.high - y_axis.low)
    edge = y_axis.high + tolerance if direction > 0 else y_axis.low - tolerance
    if curve.band:
        values = curve.high if direction > 0 else curve.low
    beyond = np.flatnonzero(values > edge if direction > 0 else values < edge)
    # Most charts end here. For all points, what follows takes as long as drawing them.
    if not beyond.size:
        return NO_PEAK
    x = curve.x[beyond]
    excesses = direction * bound(values[beyond])
    is_peak = (excesses > direction * edge) & x_axis.has(x)
    if y_axis.log:
        # 0 and less have no place on a log axis: they are gaps, not dips.
        is_peak &= values[beyond] > 0
    if not is_peak.any():
        return NO_PEAK
    farthest = int(np.where(is_peak, excesses, -np.inf).argmax())
    return float(excesses[farthest]), float(x[farthest])


def put_cursor(picture: DotPicture, x_axis: Axis, x: float) -> None:
    """Draw a line at the cursor, behind the curves."""
    if not x_axis.low <= x <= x_axis.high:
        return
    column = cell_at(x_axis.share_of(x), picture.dots.shape[1])
    # A mark has no dots but a sign, and the cursor leaves it, too.
    is_free = (picture.dots[:, column] == 0) & (picture.sign[:, column] == 0)
    _put_line(picture, column, "row", is_free)
