"""What a chart of a given size shows: its picture and the labels around it. Pure; knows no colours
and no terminal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from remote.format import number
from tui import palette
from tui.widgets import axis, raster
from tui.widgets.axis import Axis
from tui.widgets.limits import x_limits, y_limits
from tui.widgets.raster import MARK, Cells, Curve, Picture

Mark = tuple[float, str]
"""An x that is marked, and the letter that says with what."""
STACKED = ("data", "compute", "sync")
"""The signs of areas that are stacked, from the bottom."""
APART = 2
"""Columns of cells between two single points."""
OFTEN = 3
"""How often the label of a curve stands on it."""
MARKED = 6
"""Columns of cells for each mark of one letter: where they would be denser, none is drawn."""


@dataclass(frozen=True)
class Look:
    """`along` names the x axis: whole steps, or with `clock` seconds, or with `parts` fractions,
    too. `log`: it is logarithmic. `from_zero`: a linear y axis begins there.

    `stacked`: the curves are areas over each other. `window`: the x in view, if not all;
    `live`: it moves. `warm`: y is limited to what comes from this x on, without peaks. `cursor`: an
    x with a line. `named`: the label of each curve, one character, stands on it.
    """

    along: str
    clock: bool = False
    from_zero: bool = False
    parts: bool = False
    log: bool = False
    stacked: bool = False
    window: tuple[float, float] | None = None
    live: bool = False
    warm: float | None = None
    cursor: float | None = None
    named: bool = False


@dataclass(frozen=True)
class Frame:
    """The picture, the label at the left of each of its rows, the row of labels beneath (empty:
    none), and the x axis."""

    picture: Picture
    rows: tuple[str, ...]
    beneath: str
    along: Axis

    @property
    def left(self) -> int:
        """The cells at the left of the picture."""
        return len(self.rows[0]) if self.rows else 0

    def x_at(self, column: float) -> float:
        """The x at a column of cells of the whole frame."""
        width = self.picture.dots.shape[1]
        return self.along.value(min(max((column - self.left) / max(width, 1), 0.0), 1.0))

    def differing(self, other: Frame) -> dict[int, tuple[int, int]]:
        """The rows that are not the same on another frame, each with the first cell and the end of
        what differs; all where it has another shape."""
        height, width = self.picture.dots.shape
        whole = (0, self.left + width)
        if other.picture.dots.shape != (height, width) or bool(other.beneath) != bool(self.beneath):
            return dict.fromkeys(range(len(self.rows) + bool(self.beneath)), whole)
        pairs = zip(_layers(self.picture), _layers(other.picture), strict=True)
        changed = np.logical_or.reduce([one != two for one, two in pairs])
        found = {}
        for row, label in enumerate(self.rows):
            columns = np.flatnonzero(changed[row])
            if other.rows[row] != label:
                found[row] = whole
            elif columns.size:
                found[row] = (self.left + int(columns[0]), self.left + int(columns[-1]) + 1)
        if other.beneath != self.beneath:
            found[len(self.rows)] = whole
        return found


def _layers(picture: Picture) -> tuple[Cells, Cells, Cells, Cells]:
    return picture.dots, picture.curve, picture.band, picture.sign


def frame(
    curves: Sequence[Curve],
    look: Look,
    width: int,
    height: int,
    log: bool = False,
    marks: Sequence[Mark] = (),
) -> Frame | None:
    """The frame of `width` x `height` cells, or None where there is nothing to see. Labels that do
    not fit are left out."""
    span = look.window or x_limits(curves, look.log)
    if span is None or width < 1 or height < 1:
        return None
    limits = _limits(curves, look, log, None)
    if limits is None:
        return None
    rows = height - (height >= 3)
    along = _along(span, look, width)
    if look.window:
        limits = _limits(curves, look, log, along) or limits
    up = _y_axis(*limits, rows, log, look.from_zero or look.stacked)
    labels = _row_labels(up, rows, width)
    inner = width - len(labels[0])
    along = _along(span, look, inner)
    picture = _picture(curves, look, along, up, rows, inner)
    if look.named:
        _put_names(picture, [curve for curve in curves if not curve.faint])
    _mark(picture, marks, along)
    _put_points(picture, curves, along, up)
    _put_peaks(picture, [_total(curves)] if look.stacked else curves, along, up)
    if look.cursor is not None:
        _put_cursor(picture, along, look.cursor)
    beneath = "" if rows == height else " " * len(labels[0]) + _line_beneath(along, look, inner)
    return Frame(picture, labels, beneath, along)


def _along(span: tuple[float, float], look: Look, inner: int) -> Axis:
    if look.log:
        low, high = (min(max(x, axis.TINY), axis.HUGE) for x in span)
        return Axis(low, high if high > low else low * 1.1, log=True)
    if look.window and not look.live:
        return axis.exact(*span)
    return axis.divided(*span, 2 * inner)


def _limits(
    curves: Sequence[Curve], look: Look, log: bool, along: Axis | None
) -> tuple[float, float] | None:
    if not look.stacked:
        return y_limits(curves, log, along, look.warm)
    return y_limits([_total(curves)], False, along, look.warm)


def _total(curves: Sequence[Curve]) -> Curve:
    """The upper edge of curves that are stacked."""
    with np.errstate(invalid="ignore", over="ignore"):
        total = np.sum([each.mean for each in curves], axis=0)
    return Curve("", 0, curves[0].x, total, total, total)


def _picture(
    curves: Sequence[Curve], look: Look, along: Axis, up: Axis, rows: int, inner: int
) -> Picture:
    lines = [curve for curve in curves if not curve.single]
    columns = [raster.columns(curve, along, 2 * inner, up.log) for curve in lines]
    if not columns:
        return raster.blank(rows, inner)
    if look.stacked:
        signs = "".join(map(palette.sign, STACKED))
        return raster.stack(columns, up.high, rows, signs)
    return raster.draw(columns, *up.ends, rows)


def _mark(picture: Picture, marks: Sequence[Mark], along: Axis) -> None:
    """Draw a line at each mark, behind the curves, with its letter on top, or the letters of all
    marks that are there."""
    rows, inner = picture.dots.shape
    letters: dict[int, str] = {}
    for letter in dict.fromkeys(letter for _, letter in marks):
        columns = {
            _nearest(along.at(x), inner)
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


def _put_names(picture: Picture, curves: Sequence[Curve]) -> None:
    """Put the labels of curves on them, so that they can be told apart without colours."""
    for place, curve in enumerate(curves):
        mine = picture.curve == curve.ink
        alone = mine & (picture.count == 1)
        for row, column in _spots(mine, alone, (place + 0.5) / len(curves)):
            picture.put(row, column, curve.label, curve.ink)


def _spots(mine: Cells, alone: Cells, share: float) -> list[tuple[int, int]]:
    """Cells of a curve for its name: spread over the width, at this share of each part, and so
    elsewhere than those of others. Where curves meet, a name would stand on all of them: it keeps
    to cells that are the curve's `alone`, if the part has any."""
    part = mine.shape[1] / OFTEN
    spots = set()
    for column in (np.arange(OFTEN) + share) * part:
        begin = int(column // part * part)
        of_part = slice(begin, max(begin + 1, int(begin + part)))
        there = alone if alone[:, of_part].any() else mine
        columns = np.flatnonzero(there.any(axis=0))
        if columns.size:
            nearest = int(columns[np.abs(columns - column).argmin()])
            spots.add((int(there[:, nearest].argmax()), nearest))
    return sorted(spots, key=lambda spot: spot[1])


def _put_points(picture: Picture, curves: Sequence[Curve], along: Axis, up: Axis) -> None:
    """Put a sign at the points of the curves that are single points: the last one, and those before
    that are far enough from each other."""
    rows, inner = picture.dots.shape
    for curve in (curve for curve in curves if curve.single):
        free = inner
        places = along.places(curve.x), up.places(curve.mean)
        for x, y in zip(*(column[::-1] for column in places), strict=True):
            if 0 <= x <= 1 and 0 <= y <= 1 and (column := _nearest(x, inner)) < free:
                picture.put(_nearest(1 - y, rows), column, palette.sign("test"), curve.ink)
                free = column - APART


def _put_peaks(picture: Picture, curves: Sequence[Curve], along: Axis, up: Axis) -> None:
    """Say at the upper and the lower edge how far the curves go beyond."""
    rows, inner = picture.dots.shape
    for sign, row, beyond in (("peak", 0, 1), ("dip", rows - 1, -1)):
        found = [peak for curve in curves if (peak := _peak(curve, along, up, beyond))]
        if found and rows > 2:
            value, x = max(found, key=lambda peak: beyond * peak[0])
            text = palette.sign(sign) + number(value)
            column = min(_nearest(along.at(x), inner), max(0, inner - len(text)))
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


def _put_cursor(picture: Picture, along: Axis, x: float) -> None:
    if along.low <= x <= along.high:
        column = _nearest(along.at(x), picture.dots.shape[1])
        free = (picture.dots[:, column] == 0) & (picture.sign[:, column] == 0)
        picture.sign[free, column] = ord(palette.sign("row"))
        picture.curve[free, column] = MARK


def _y_axis(low: float, high: float, rows: int, log: bool, from_zero: bool) -> Axis:
    if log:
        return axis.logarithmic(low, high)
    return axis.linear(min(low, 0.0) if from_zero else low, high, _count(rows))


def _count(rows: int) -> int:
    """How many ticks are readable at the left of so many rows."""
    return max(2, (rows + 1) // 3)


def _row_labels(up: Axis, rows: int, width: int) -> tuple[str, ...]:
    """Per row its tick's label or blanks, all equally wide, and a line; empty where they would take
    half of the width."""
    at_row = {
        _nearest(1 - up.at(value), rows): text for value, text in axis.ticks(up, _count(rows))
    }
    wide = max(map(len, at_row.values()), default=0)
    if not wide or wide + 1 > width // 2:
        return ("",) * rows
    marks = {True: palette.sign("tick"), False: palette.sign("row")}
    return tuple(at_row.get(row, "").rjust(wide) + marks[row in at_row] for row in range(rows))


def _nearest(share: float, count: int) -> int:
    return min(max(int(share * count), 0), count - 1)


def _line_beneath(along: Axis, look: Look, width: int) -> str:
    """The labels of the x axis, each centred under its place, and the name of the axis at the
    right."""
    name = " " + look.along
    room = width - len(name) if width > 4 * len(name) else width
    line = [" "] * width
    if look.clock:
        ticks = axis.clock_ticks(along, max(2, width // 10))
    else:
        ticks = axis.ticks(along, max(2, width // 11), whole=not (look.parts or look.log))
    free = 0
    for value, text in ticks:
        start = max(0, _nearest(along.at(value), width) - len(text) // 2)
        if free <= start <= room - len(text):
            line[start : start + len(text)] = text
            free = start + len(text) + 2
    return "".join(line[:room]) + (name if room < width else "")
