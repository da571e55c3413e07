"""What a chart of a given size shows: its picture and the labels around it. Pure; knows no colours
and no terminal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tui.charts import axis, raster
from tui.charts.annotations import Mark, put_cursor, put_marks, put_names, put_peaks, put_points
from tui.charts.axis import Axis
from tui.charts.axis_limits import x_limits, y_limits
from tui.charts.raster import Cells, Curve, DotPicture, cell_at
from tui.kit import palette

STACKED = ("data", "compute", "sync")
"""The signs of areas that are stacked, from the bottom."""


@dataclass(frozen=True)
class PlotOptions:
    """`along` names the x axis: whole steps, or with `clock` seconds, or with `parts` fractions,
    too. `log`: it is logarithmic. `from_zero`: a linear y axis begins there.

    `stacked`: the curves are areas over each other. `window`: the x in view, if not all;
    `live`: it moves. `warm`: y is limited to what comes from this x on, without peaks. `cursor`: an
    x with a line. `named`: the label of each curve stands on it, where there is
    room.
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
class PlotFrame:
    """The picture, the label at the left of each of its rows, the row of labels beneath (empty:
    none), and the x axis."""

    picture: DotPicture
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

    def differing(self, other: PlotFrame) -> dict[int, tuple[int, int]]:
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


def _layers(picture: DotPicture) -> tuple[Cells, Cells, Cells, Cells]:
    return picture.dots, picture.curve, picture.band, picture.sign


def frame(
    curves: Sequence[Curve],
    look: PlotOptions,
    width: int,
    height: int,
    log: bool = False,
    marks: Sequence[Mark] = (),
) -> PlotFrame | None:
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
        put_names(picture, [one for one in curves if not (one.faint or one.single)])
    put_marks(picture, marks, along)
    put_points(picture, curves, along, up)
    put_peaks(picture, [_total(curves)] if look.stacked else curves, along, up)
    if look.cursor is not None:
        put_cursor(picture, along, look.cursor)
    beneath = "" if rows == height else " " * len(labels[0]) + _line_beneath(along, look, inner)
    return PlotFrame(picture, labels, beneath, along)


def _along(span: tuple[float, float], look: PlotOptions, inner: int) -> Axis:
    if look.log:
        low, high = (min(max(x, axis.TINY), axis.HUGE) for x in span)
        return Axis(low, high if high > low else low * 1.1, log=True)
    if look.window and not look.live:
        return axis.exact(*span)
    return axis.divided(*span, 2 * inner)


def _limits(
    curves: Sequence[Curve], look: PlotOptions, log: bool, along: Axis | None
) -> tuple[float, float] | None:
    if not look.stacked:
        return y_limits(curves, log, along, look.warm)
    limits = y_limits([_total(curves)], False, along, look.warm)
    return (max(limits[0], 0.0), max(limits[1], 0.0)) if limits else None  # as areas lie over 0


def _total(curves: Sequence[Curve]) -> Curve:
    """The upper edge of curves that are stacked."""
    with np.errstate(invalid="ignore", over="ignore"):
        total = np.sum([each.mean for each in curves], axis=0)
    return Curve("", 0, curves[0].x, total, total, total)


def _picture(
    curves: Sequence[Curve], look: PlotOptions, along: Axis, up: Axis, rows: int, inner: int
) -> DotPicture:
    lines = [curve for curve in curves if not curve.single]
    columns = [raster.columns(curve, along, 2 * inner, up.log) for curve in lines]
    if not columns:
        return raster.blank(rows, inner)
    if look.stacked:
        signs = "".join(map(palette.sign, STACKED))
        return raster.stack(columns, up.high, rows, signs)
    return raster.draw(columns, *up.ends, rows)


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
    at_row = {cell_at(1 - up.at(value), rows): text for value, text in axis.ticks(up, _count(rows))}
    wide = max(map(len, at_row.values()), default=0)
    if not wide or wide + 1 > width // 2:
        return ("",) * rows
    marks = {True: palette.sign("tick"), False: palette.sign("row")}
    return tuple(at_row.get(row, "").rjust(wide) + marks[row in at_row] for row in range(rows))


def _line_beneath(along: Axis, look: PlotOptions, width: int) -> str:
    """The labels of the x axis, each centred under its place, and the name of the axis at the
    right."""
    name = "  " + look.along
    room = width - len(name) if width > 4 * len(name) else width
    line = [" "] * width
    if look.clock:
        ticks = axis.clock_ticks(along, max(2, width // 10))
    else:
        ticks = axis.ticks(along, max(2, width // 11), whole=not (look.parts or look.log))
    free = 0
    for value, text in ticks:
        start = max(0, cell_at(along.at(value), width) - len(text) // 2)
        if free <= start <= room - len(text):
            line[start : start + len(text)] = text
            free = start + len(text) + 2
    return "".join(line[:room]) + (name if room < width else "")
