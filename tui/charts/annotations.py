"""What stands on the curves of a picture: the signs of points, peaks, and the cursor.

A sign takes the cell of its own point. A text takes only cells that show nothing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from remote.run.series.definitions import Unit
from tui.charts.axis import Axis, bound
from tui.charts.margin import EndName
from tui.charts.raster import MARK_COLOUR, Curve, DotPicture, cell_at, row_at
from tui.charts.units import format_value
from tui.kit import palette


class PointLabel(NamedTuple):
    """A point that is named."""

    x: float
    y: float
    text: str
    colour: int


class StepLabel(NamedTuple):
    """A place on the x axis that is named, wherever the curve is there."""

    x: float
    text: str


NO_PEAK = (-math.inf, 0.0)
TEXT_OFFSETS = (0, -1, 1, -2, 2, -3, 3)
PEAK_TEXT_OFFSETS = TEXT_OFFSETS[:3]
"""Rows away from a point where its text may stand, the best first."""
NEAR_END = ((0, 2), (-1, 1), (1, 1), (-1, 0), (1, 0), (-1, 2), (1, 2), (0, 3), (-2, 1), (2, 1))
"""Rows and columns away from the end of a curve where its name may begin, the nearest first."""


def put_signs(picture: DotPicture, curve: Curve, x_axis: Axis, y_axis: Axis) -> None:
    """Put the signs of a curve on its points."""
    signed = list(curve.signed)
    x_shares = x_axis.shares_of(curve.x[signed])
    y_shares = y_axis.shares_of(curve.mean[signed])
    for x, y in zip(x_shares.tolist(), y_shares.tolist(), strict=True):
        if 0 <= x <= 1 and 0 <= y <= 1:  # not NaN either
            row, column = _cell_of_point(picture, x, y, curve.cell_colour)
            picture.put(row, column, palette.sign("test"), curve.cell_colour)


def put_point_label(picture: DotPicture, label: PointLabel, x_axis: Axis, y_axis: Axis) -> None:
    """Write a text beside a point, if there is room."""
    x = x_axis.share_of(label.x)
    y = y_axis.share_of(label.y)
    if 0 <= x <= 1 and 0 <= y <= 1:
        row, column = _cell_of_point(picture, x, y, label.colour)
        _put_beside(picture, row, column, label.text, label.colour)


def put_end_name(picture: DotPicture, name: EndName, x_axis: Axis) -> bool:
    """Write the name of a curve, without its value, beside the cell in which it ends. Return True
    if there was room."""
    rows, width = picture.dots.shape
    column = cell_at(x_axis.share_of(name.x), width)
    row = min(int(name.row), rows - 1)
    for row_offset, column_offset in NEAR_END:
        near_row, start = row + row_offset, column + column_offset
        end = start + len(name.name) + 1
        has_room = 0 <= near_row < rows and end - 1 <= width
        # A cell stays free before it, too, so that it is no part of another curve.
        if has_room and picture.is_free(near_row, start - (row_offset != 0), end):
            picture.put(near_row, start, name.name, name.colour)
            return True
    return False


def _cell_of_point(picture: DotPicture, x: float, y: float, colour: int) -> tuple[int, int]:
    """Return the row and the column of the cell in which a line of a colour has a point, given as
    shares of both axes."""
    rows, width = picture.dots.shape
    row, column = row_at(y, rows), cell_at(x, width)
    # Several points of a column are drawn as their mean, which may be in another row.
    is_line = picture.curve[:, column] == colour
    rows_with_dots = np.flatnonzero(is_line & (picture.dots[:, column] > 0))
    if rows_with_dots.size:
        row = int(rows_with_dots[np.abs(rows_with_dots - row).argmin()])
    return row, column


def _put_beside(
    picture: DotPicture,
    row: int,
    column: int,
    text: str,
    colour: int,
    offsets: Sequence[int] = TEXT_OFFSETS,
) -> bool:
    """Put a text as near to a cell as there is room that shows nothing, or else nowhere.

    Return True if there was room.
    """
    rows, width = picture.dots.shape
    starts = [
        start for start in (column + 2, column - len(text) - 1) if 0 <= start <= width - len(text)
    ]
    for near_row in (row + offset for offset in offsets if 0 <= row + offset < rows):
        for start in starts:
            if picture.is_free(near_row, start - (near_row != row), start + len(text) + 1):
                picture.put(near_row, start, text, colour)
                return True
    return False


def put_step_label(
    picture: DotPicture, curve: Curve, label: StepLabel, sign: str, colour: int, x_axis: Axis
) -> None:
    """Put a sign on a curve at an x, or on the lowest row if there is nothing, and a text beside it
    if there is room."""
    if not x_axis.low <= label.x <= x_axis.high:
        return
    column = cell_at(x_axis.share_of(label.x), picture.dots.shape[1])
    has_dots = picture.dots[:, column] > 0
    is_curve = has_dots & (picture.curve[:, column] == curve.cell_colour)
    # The cell may be another curve's turn.
    rows = np.flatnonzero(is_curve if is_curve.any() else has_dots)
    row = int(rows[0]) if rows.size else picture.dots.shape[0] - 1
    picture.put(row, column, sign, colour)
    _put_beside(picture, row, column, label.text, MARK_COLOUR)


def put_above_bars(picture: DotPicture, rows: range, share: float, text: str) -> None:
    """Write a text into the first of these rows with so many cells without a bar, as near to a
    share of the x axis as there is room, or else nowhere."""
    width = picture.dots.shape[1]
    near_start = cell_at(share, width) - len(text) // 2
    starts = sorted(range(width - len(text) + 1), key=lambda start: abs(start - near_start))
    for row in rows:
        for start in starts:
            if picture.is_free(row, start - 1, start + len(text) + 1):
                picture.put(row, start, text, MARK_COLOUR)
                return


def put_peaks(
    picture: DotPicture, curves: Sequence[Curve], x_axis: Axis, y_axis: Axis, unit: Unit
) -> None:
    """Mark at the upper and the lower edge that curves go beyond, and tell how far beside that."""
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
    unit: Unit,
    direction: int = 1,
) -> None:
    """Put an arrow into a row where curves go above (1) or below (-1) the y axis, if they do and
    there is room for how far: an arrow alone says nothing."""
    peaks = [find_peak(curve, x_axis, y_axis, direction) for curve in curves]
    excess, x = max(peaks, default=NO_PEAK)
    if excess == -math.inf:
        return
    column = cell_at(x_axis.share_of(x), picture.dots.shape[1])
    text = f"{'max' if direction > 0 else 'min'} {format_value(direction * excess, unit)}"
    if _put_beside(picture, row, column, text, MARK_COLOUR, PEAK_TEXT_OFFSETS):
        picture.put(row, column, palette.sign("peak" if direction > 0 else "dip"), MARK_COLOUR)


def find_peak(curve: Curve, x_axis: Axis, y_axis: Axis, direction: int = 1) -> tuple[float, float]:
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
    # The signs and texts of points have no dots, and the cursor leaves them, too.
    is_free = (picture.dots[:, column] == 0) & (picture.sign[:, column] == 0)
    picture.sign[is_free, column] = ord(palette.sign("row"))
    picture.curve[is_free, column] = MARK_COLOUR
