"""What stands on the curves of a picture: marks, names, single points, peaks, the cursor."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from remote.format import number
from tui.charts.axis import Axis
from tui.charts.raster import MARK_COLOUR, NO_COLOUR, Cells, Curve, DotPicture, cell_at
from tui.kit import palette

Mark = tuple[float, str]
"""An x that is marked, and the letter that says with what."""
COLUMNS_BETWEEN_POINTS = 2
MAX_NAMES_PER_CURVE = 3
COLUMNS_PER_MARK = 6
"""Columns of cells for each mark of one letter. If they would be denser, none is drawn."""


def put_marks(picture: DotPicture, marks: Sequence[Mark], x_axis: Axis) -> None:
    """Draw a line at each mark, behind the curves, with the letters of its marks on top."""
    rows, width = picture.dots.shape
    letters_of_column: dict[int, str] = {}
    for letter in dict.fromkeys(letter for _, letter in marks):
        columns = {
            cell_at(x_axis.share_of(x), width)
            for x, letter_of_mark in marks
            if letter_of_mark == letter and x_axis.low <= x <= x_axis.high
        }
        if COLUMNS_PER_MARK * len(columns) > max(width, COLUMNS_PER_MARK):
            continue
        for column in columns:
            is_free = picture.curve[:, column] == NO_COLOUR
            picture.curve[is_free, column] = MARK_COLOUR
            picture.sign[is_free, column] = ord(palette.sign("mark"))
            letters_of_column[column] = letters_of_column.get(column, "") + letter
    if rows <= 2:
        return
    for column, letters in letters_of_column.items():
        picture.put(0, max(0, min(column, width - len(letters))), letters, MARK_COLOUR)


def put_names(picture: DotPicture, curves: Sequence[Curve]) -> None:
    """Put labels on curves, so that they can be told apart without colours.

    Each label is repeated as often as there is room for all of them beside each other.
    """
    width = picture.dots.shape[1]
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
    part_width = has_curve.shape[1] / repeats
    cells = set()
    for target in (np.arange(repeats) + share) * part_width:
        begin = int(target // part_width * part_width)
        part = slice(begin, max(begin + 1, int(begin + part_width)))
        candidates = is_alone if is_alone[:, part].any() else has_curve
        columns = np.flatnonzero(candidates.any(axis=0))
        if columns.size:
            nearest = int(columns[np.abs(columns - target).argmin()])
            row = int(candidates[:, nearest].argmax())
            cells.add((row, nearest))
    return sorted(cells, key=lambda cell: cell[1])


def put_points(picture: DotPicture, curves: Sequence[Curve], x_axis: Axis, y_axis: Axis) -> None:
    """Put a sign at single points: the last one, and earlier ones that are far enough apart."""
    rows, width = picture.dots.shape
    for curve in curves:
        if not curve.single:
            continue
        free_before = width
        x_shares = x_axis.shares_of(curve.x)[::-1]
        y_shares = y_axis.shares_of(curve.mean)[::-1]
        for x, y in zip(x_shares, y_shares, strict=True):
            is_in_view = 0 <= x <= 1 and 0 <= y <= 1  # and not NaN
            if not is_in_view:
                continue
            column = cell_at(x, width)
            if column < free_before:
                row = cell_at(1 - y, rows)
                picture.put(row, column, palette.sign("test"), curve.cell_colour)
                free_before = column - COLUMNS_BETWEEN_POINTS


def put_peaks(picture: DotPicture, curves: Sequence[Curve], x_axis: Axis, y_axis: Axis) -> None:
    """Write at the upper and the lower edge how far the curves go beyond."""
    rows, width = picture.dots.shape
    if rows <= 2:
        return
    for sign, row, direction in (("peak", 0, 1), ("dip", rows - 1, -1)):
        peaks = []
        for curve in curves:
            peak = _find_peak(curve, x_axis, y_axis, direction)
            if peak:
                peaks.append(peak)
        if peaks:
            value, x = max(peaks, key=lambda peak, sign=direction: sign * peak[0])  # type: ignore[misc]
            text = palette.sign(sign) + number(value)
            column = min(cell_at(x_axis.share_of(x), width), max(0, width - len(text)))
            picture.put(row, column, text, MARK_COLOUR)


def _find_peak(
    curve: Curve, x_axis: Axis, y_axis: Axis, direction: int
) -> tuple[float, float] | None:
    """Return the value farthest above (1) or below (-1) the y axis and its x, or None."""
    values = curve.mean
    if curve.band:
        values = curve.high if direction > 0 else curve.low
    is_outside = values > y_axis.high if direction > 0 else values < y_axis.low
    if y_axis.log:
        is_outside &= values > 0
    x_shares = x_axis.shares_of(curve.x)
    is_outside &= (x_shares >= 0) & (x_shares <= 1) & np.isfinite(values)
    if not is_outside.any():
        return None
    farthest = int(np.argmax(np.where(is_outside, direction * values, -np.inf)))
    return float(values[farthest]), float(curve.x[farthest])


def put_cursor(picture: DotPicture, x_axis: Axis, x: float) -> None:
    """Draw a line at the cursor, behind the curves."""
    if not x_axis.low <= x <= x_axis.high:
        return
    column = cell_at(x_axis.share_of(x), picture.dots.shape[1])
    is_free = (picture.dots[:, column] == 0) & (picture.sign[:, column] == 0)
    picture.sign[is_free, column] = ord(palette.sign("row"))
    picture.curve[is_free, column] = MARK_COLOUR
