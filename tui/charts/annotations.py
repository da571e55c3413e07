"""What stands on the curves of a picture: marks, names, single points, peaks, the cursor. Pure."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from remote.format import number
from tui.charts import raster
from tui.charts.axis import Axis
from tui.charts.raster import MARK, Cells, Curve, DotPicture, cell_at
from tui.kit import palette

Mark = tuple[float, str]
"""An x that is marked, and the letter that says with what."""
APART = 2
"""DotColumns of cells between two single points."""
OFTEN = 3
"""How often the label of a curve stands on it at most."""
MARKED = 6
"""DotColumns of cells for each mark of one letter: where they would be denser, none is drawn."""


def put_marks(picture: DotPicture, marks: Sequence[Mark], along: Axis) -> None:
    """Draw a line at each mark, behind the curves, with its letter on top, or the letters of all
    marks that are there."""
    rows, inner = picture.dots.shape
    letters: dict[int, str] = {}
    for letter in dict.fromkeys(letter for _, letter in marks):
        columns = {
            cell_at(along.at(x), inner)
            for x, sign in marks
            if sign == letter and along.low <= x <= along.high
        }
        if MARKED * len(columns) > max(inner, MARKED):
            continue
        for column in columns:
            free = picture.curve[:, column] == raster.NONE
            picture.curve[free, column] = MARK
            picture.sign[free, column] = ord(palette.sign("mark"))
            letters[column] = letters.get(column, "") + letter
    for column, text in letters.items() if rows > 2 else ():
        picture.put(0, max(0, min(column, inner - len(text))), text, MARK)


def put_names(picture: DotPicture, curves: Sequence[Curve]) -> None:
    """Put the labels of curves on them, so that they can be told apart without colours; as often as
    there is room for all labels beside each other."""
    inner = picture.dots.shape[1]
    taken = sum(len(curve.label) + 2 for curve in curves)
    often = min(OFTEN, inner // max(taken, 1))
    for place, curve in enumerate(curves if often else ()):
        mine = picture.curve == curve.ink
        alone = mine & (picture.count == 1)
        for row, column in _spots(mine, alone, (place + 0.5) / len(curves), often):
            picture.put(row, column, curve.label, curve.ink)


def _spots(mine: Cells, alone: Cells, share: float, often: int) -> list[tuple[int, int]]:
    """Cells of a curve for its name: one in each of so many parts of the width, at this share of
    it, and so elsewhere than those of others. Where curves meet, a name would stand on all of them:
    it keeps to cells that are the curve's `alone`, if the part has any."""
    part = mine.shape[1] / often
    spots = set()
    for column in (np.arange(often) + share) * part:
        begin = int(column // part * part)
        of_part = slice(begin, max(begin + 1, int(begin + part)))
        there = alone if alone[:, of_part].any() else mine
        columns = np.flatnonzero(there.any(axis=0))
        if columns.size:
            nearest = int(columns[np.abs(columns - column).argmin()])
            spots.add((int(there[:, nearest].argmax()), nearest))
    return sorted(spots, key=lambda spot: spot[1])


def put_points(picture: DotPicture, curves: Sequence[Curve], along: Axis, up: Axis) -> None:
    """Put a sign at the points of the curves that are single points: the last one, and those before
    that are far enough from each other."""
    rows, inner = picture.dots.shape
    for curve in (curve for curve in curves if curve.single):
        free = inner
        places = along.places(curve.x), up.places(curve.mean)
        for x, y in zip(*(column[::-1] for column in places), strict=True):
            if 0 <= x <= 1 and 0 <= y <= 1 and (column := cell_at(x, inner)) < free:
                picture.put(cell_at(1 - y, rows), column, palette.sign("test"), curve.ink)
                free = column - APART


def put_peaks(picture: DotPicture, curves: Sequence[Curve], along: Axis, up: Axis) -> None:
    """Say at the upper and the lower edge how far the curves go beyond."""
    rows, inner = picture.dots.shape
    for sign, row, beyond in (("peak", 0, 1), ("dip", rows - 1, -1)):
        found = [peak for curve in curves if (peak := _peak(curve, along, up, beyond))]
        if found and rows > 2:
            value, x = max(found, key=lambda peak: beyond * peak[0])
            text = palette.sign(sign) + number(value)
            column = min(cell_at(along.at(x), inner), max(0, inner - len(text)))
            picture.put(row, column, text, MARK)


def _peak(curve: Curve, along: Axis, up: Axis, beyond: int) -> tuple[float, float] | None:
    """The farthest value of a curve above (1) or below (-1) the y axis, and its x; None where there
    is none."""
    values = curve.high if beyond > 0 else curve.low
    if not curve.band:
        values = curve.mean
    places = along.places(np.where(np.isfinite(curve.x), curve.x, np.nan))
    outside = values > up.high if beyond > 0 else values < up.low
    if up.log:
        outside &= values > 0
    outside &= (places >= 0) & (places <= 1) & np.isfinite(values)
    if not outside.any():
        return None
    at = int(np.argmax(np.where(outside, beyond * values, -np.inf)))
    return float(values[at]), float(curve.x[at])


def put_cursor(picture: DotPicture, along: Axis, x: float) -> None:
    if along.low <= x <= along.high:
        column = cell_at(along.at(x), picture.dots.shape[1])
        free = (picture.dots[:, column] == 0) & (picture.sign[:, column] == 0)
        picture.sign[free, column] = ord(palette.sign("row"))
        picture.curve[free, column] = MARK
