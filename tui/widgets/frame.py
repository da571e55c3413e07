"""What a chart of a given size shows: its picture and the labels around it. Pure; knows no colours
and no terminal."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from tui import palette
from tui.widgets import axis, raster
from tui.widgets.axis import Axis
from tui.widgets.raster import Cells, Curve, Picture


@dataclass(frozen=True)
class Look:
    """`along` names the x axis: whole steps, or with `clock` seconds. `from_zero`: a linear y axis
    begins there."""

    along: str
    clock: bool = False
    from_zero: bool = False


@dataclass(frozen=True)
class Frame:
    """The picture, the label at the left of each of its rows, and the row of labels beneath (empty:
    none)."""

    picture: Picture
    rows: tuple[str, ...]
    beneath: str

    def differing(self, other: Frame) -> Iterable[int]:
        """The rows that are not the same on another frame; all where it has another shape."""
        if other.picture.dots.shape != self.picture.dots.shape or bool(other.beneath) != bool(
            self.beneath
        ):
            return range(len(self.rows) + bool(self.beneath))
        pairs = zip(_layers(self.picture), _layers(other.picture), strict=True)
        same = np.logical_and.reduce([(one == two).all(1) for one, two in pairs])
        rows = [
            row for row, label in enumerate(self.rows) if not same[row] or other.rows[row] != label
        ]
        return rows + [len(self.rows)] * (self.beneath != other.beneath)


def _layers(picture: Picture) -> tuple[Cells, Cells, Cells]:
    return picture.dots, picture.curve, picture.band


def frame(
    curves: Sequence[Curve],
    look: Look,
    width: int,
    height: int,
    log: bool = False,
    marks: Sequence[float] = (),
) -> Frame | None:
    """The frame of `width` x `height` cells, or None where there is nothing to see. Labels that do
    not fit are left out.

    `marks`: the x of what is marked.
    """
    along, limits = raster.x_axis(curves), raster.limits(curves, log)
    if along is None or limits is None or width < 1 or height < 1:
        return None
    rows = height - (height >= 3)
    up = _y_axis(*limits, rows, log, look.from_zero)
    labels = _row_labels(up, rows, width)
    inner = width - len(labels[0])
    columns = [raster.columns(curve, along, 2 * inner, log) for curve in curves]
    beneath = "" if rows == height else " " * len(labels[0]) + _line_beneath(along, look, inner)
    marked = [_nearest(along.at(x), inner) for x in marks if along.low <= x <= along.high]
    return Frame(raster.draw(columns, *up.ends, rows, marks=marked), labels, beneath)


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
    ticks = (
        axis.clock_ticks(along, max(2, width // 10))
        if look.clock
        else axis.ticks(along, max(2, width // 11), whole=True)
    )
    free = 0
    for value, text in ticks:
        start = max(0, _nearest(along.at(value), width) - len(text) // 2)
        if free <= start <= room - len(text):
            line[start : start + len(text)] = text
            free = start + len(text) + 2
    return "".join(line[:room]) + (name if room < width else "")
