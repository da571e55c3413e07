"""What a chart of a given size shows: its picture and the labels around it.

Knows no colours and no terminal.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from remote.run.series.definitions import Unit
from tui.charts import axis, raster
from tui.charts.annotations import (
    Mark,
    PointLabel,
    put_cursor,
    put_marks,
    put_names,
    put_peak,
    put_peaks,
    put_point_label,
    put_signs,
)
from tui.charts.axis import Axis
from tui.charts.axis_limits import x_limits, y_limits
from tui.charts.bars import Lane, draw_bars, make_lanes
from tui.charts.raster import Cells, Curve, DotPicture, cell_at, row_at
from tui.charts.units import axis_scale, format_tick, value_ticks
from tui.kit import palette

MIN_WIDTH_FOR_NAMES = 70
"""Cells from which on a chart has room for the whole name of a lane."""
SHORT_NAME = 4
"""Characters of it where there is less room."""
PICTURE_ROWS = 17
"""The axes of a picture end where those of a frame with as many rows would."""


class PlotOptions(Struct, frozen=True):
    """How curves are drawn."""

    along: str
    """The name of the x axis, which has whole steps by default."""
    clock: bool = False
    """Whether x is in seconds."""
    parts: bool = False
    """Whether x may be fractions, as of epochs."""
    log_x: bool = False
    """Whether the x axis is logarithmic."""
    log_y: bool = False
    """Whether the y axis is logarithmic."""
    unit: Unit = Unit.NUMBER
    """The unit of y."""
    from_zero: bool = False
    """Whether a linear y axis begins at 0."""
    stacked: bool = False
    """Whether the curves are bars, in lanes over each other."""
    window: tuple[float, float] | None = None
    """The x in view, or None for all."""
    growing: bool = False
    """Whether x still grows: then the axis changes seldom, and may be a little too long."""
    warm: float | None = None
    """Limit y to what comes from this x on, without peaks."""
    cursor: float | None = None
    """An x that is marked with a line."""
    point_label: PointLabel | None = None
    """A point that is named, such as the best one."""
    named: bool = False
    """Whether the label of each curve stands on it, if there is room."""


class PlotFrame(Struct, frozen=True):
    """A drawn chart with its labels."""

    picture: DotPicture
    row_labels: tuple[str, ...]
    """The label at the left of each row of the picture."""
    bottom_labels: str
    """The row of labels beneath the picture, or "" if there is no room for one."""
    x_axis: Axis
    y_axis: Axis | None = None
    """That of lines. Lanes of bars have none."""

    @property
    def left(self) -> int:
        """The cells at the left of the picture."""
        return len(self.row_labels[0]) if self.row_labels else 0

    def x_at(self, column: float) -> float:
        """Return the x at a column of cells of the whole frame."""
        width = self.picture.dots.shape[1]
        share = (column - self.left) / max(width, 1)
        return self.x_axis.value_at(min(max(share, 0.0), 1.0))

    def changed_rows(self, other: PlotFrame) -> dict[int, tuple[int, int]]:
        """Return the rows that differ from another frame, with their first cell and their end."""
        layers = _layers(self.picture)
        other_layers = _layers(other.picture)
        same_labels = (self.row_labels, self.bottom_labels) == (
            other.row_labels,
            other.bottom_labels,
        )
        if not same_labels or layers.shape != other_layers.shape:
            whole_row = (0, self.left + layers.shape[2])
            row_count = len(self.row_labels) + bool(self.bottom_labels)
            return dict.fromkeys(range(row_count), whole_row)
        changed_rows = {}
        for row, is_changed in enumerate((layers != other_layers).any(axis=0)):
            columns = np.flatnonzero(is_changed).tolist()
            if columns:
                changed_rows[row] = (self.left + columns[0], self.left + columns[-1] + 1)
        return changed_rows


def _layers(picture: DotPicture) -> Cells:
    """Return what is seen of a picture, as an array of layers."""
    upper, lower = picture.band[0::2], picture.band[1::2]
    return np.array((picture.curve, upper, lower, picture.dots, picture.sign))


def make_frame(
    curves: Sequence[Curve],
    options: PlotOptions,
    width: int,
    height: int,
    marks: Sequence[Mark] = (),
) -> PlotFrame | None:
    """Draw a chart of `width` x `height` cells, or return None if there is nothing to see.

    Labels that do not fit are left out.
    """
    x_range = options.window or x_limits(curves, options.log_x)
    if x_range is None or width < 1 or height < 1:
        return None
    # As wide as the chart for now: how wide its labels are follows from what is in view.
    view = _x_axis(x_range, options, width) if options.window else None
    rows = height - 1 if height >= 3 else height
    make_plot = _make_bars if options.stacked else _make_lines
    plot = make_plot(curves, options, view, rows)
    if plot is None:
        return None
    row_labels = _row_labels(plot.row_texts(width), rows, width)
    left = len(row_labels[0])
    inner_width = width - left
    x_axis = _x_axis(x_range, options, inner_width)
    picture = plot.draw(x_axis, inner_width)
    # In this order, as each may cover what was put before; the cursor takes only what is free.
    if options.named:
        put_names(picture, [curve for curve in curves if not (curve.faint or curve.signed)])
    put_marks(picture, marks, x_axis)
    plot.put_values(picture, x_axis)
    if options.cursor is not None:
        put_cursor(picture, x_axis, options.cursor)
    bottom_labels = ""
    if rows < height:
        bottom_labels = " " * left + _bottom_labels(x_axis, options, inner_width)
    return PlotFrame(picture, row_labels, bottom_labels, x_axis, plot.y_axis)


# Lines and bars


class _Lines(Struct, frozen=True):
    """Curves as lines over each other."""

    curves: Sequence[Curve]
    y_axis: Axis
    rows: int
    options: PlotOptions

    def row_texts(self, width: int) -> dict[int, str]:
        """Return the texts at the left of rows: the ticks of the y axis."""
        ticks = value_ticks(self.y_axis, _y_tick_count(self.rows), self.options.unit)
        return {row_at(self.y_axis.share_of(value), self.rows): text for value, text in ticks}

    def draw(self, x_axis: Axis, width: int) -> DotPicture:
        """Return the picture of the curves."""
        all_columns = [
            raster.to_columns(curve, x_axis, 2 * width, self.y_axis.log) for curve in self.curves
        ]
        if not all_columns:
            return raster.blank_picture(self.rows, width)
        return raster.draw_lines(all_columns, *self.y_axis.ends, self.rows)

    def put_values(self, picture: DotPicture, x_axis: Axis) -> None:
        """Put the signs of points, and the values of peaks."""
        for curve in self.curves:
            put_signs(picture, curve, x_axis, self.y_axis)
        if self.options.point_label:
            put_point_label(picture, self.options.point_label, x_axis, self.y_axis)
        put_peaks(picture, self.curves, x_axis, self.y_axis, self.options.unit)


class _Bars(Struct, frozen=True):
    """Curves as bars, each in a lane of its own."""

    curves: Sequence[Curve]
    lanes: Sequence[Lane]
    rows: int
    unit: Unit
    y_axis: None = None

    def row_texts(self, width: int) -> dict[int, str]:
        """Return the texts at the left of rows: the name of each lane and the value of its top."""
        texts = {}
        for lane in self.lanes:
            name = self.curves[lane.curve].label
            if width < MIN_WIDTH_FOR_NAMES:
                name = name[:SHORT_NAME]
            texts[lane.top] = f"{name} {format_tick(lane.high, self.unit)}"
        return texts

    def draw(self, x_axis: Axis, width: int) -> DotPicture:
        """Return the picture of the curves."""
        all_columns = [
            raster.to_columns(curve, x_axis, 2 * width, log=False) for curve in self.curves
        ]
        return draw_bars(all_columns, self.lanes, self.rows, width)

    def put_values(self, picture: DotPicture, x_axis: Axis) -> None:
        """Put the values of what is higher than its lane."""
        for lane in self.lanes:
            curve = replace(self.curves[lane.curve], band=False)
            lane_axis = Axis(0.0, lane.high)
            unit = self.unit if lane.rows > 1 else None
            put_peak(picture, lane.top, [curve], x_axis, lane_axis, unit, sign="max ")


def _make_lines(
    curves: Sequence[Curve], options: PlotOptions, view: Axis | None, rows: int
) -> _Lines | None:
    limits = y_limits(curves, options.log_y, None, options.warm)
    if limits is None:
        return None
    if view:
        # If all in view is a gap, the limits of the whole run are better than no chart.
        limits = y_limits(curves, options.log_y, view, options.warm) or limits
    return _Lines(curves, _y_axis(*limits, rows, options), rows, options)


def _make_bars(
    curves: Sequence[Curve], options: PlotOptions, view: Axis | None, rows: int
) -> _Bars | None:
    limits = [y_limits([curve], False, view, options.warm) for curve in curves]
    if not any(limits):
        return None
    highs = [min(known[1], axis.HUGE) if known else 0.0 for known in limits]
    return _Bars(curves, make_lanes(highs, rows), rows, options.unit)


# Axes


def picture_axes(curves: Sequence[Curve], options: PlotOptions) -> tuple[Axis, Axis] | None:
    """Return the axes of a picture of the window, which is no frame of cells; None if it has no
    values."""
    if options.window is None:
        return None
    x_axis = _x_axis(options.window, options, 0)
    shown = [_total(curves)] if options.stacked else curves
    limits = y_limits(shown, options.log_y, x_axis, options.warm)
    if limits is None:
        return None
    return x_axis, _y_axis(*limits, PICTURE_ROWS, options)


def _x_axis(x_range: tuple[float, float], options: PlotOptions, width: int) -> Axis:
    low, high = x_range
    if options.log_x:
        low = min(max(low, axis.TINY), axis.HUGE)
        high = min(max(high, axis.TINY), axis.HUGE)
        return Axis(low, high if high > low else low * 1.1, log=True)
    if options.growing:
        return axis.steady_axis(low, high, 2 * width)
    return axis.exact_axis(low, high)


def _y_axis(low: float, high: float, rows: int, options: PlotOptions) -> Axis:
    if options.log_y:
        return axis.log_axis(low, high)
    if options.from_zero or options.stacked:
        low = min(low, 0.0)
    scale, _ = axis_scale(max(abs(low), abs(high)), options.unit)
    scaled = axis.linear_axis(low / scale, high / scale, _y_tick_count(rows))
    return Axis(scaled.low * scale, scaled.high * scale)


def _total(curves: Sequence[Curve]) -> Curve:
    """Return the upper edge of curves that are stacked."""
    with np.errstate(invalid="ignore", over="ignore"):
        # A script may print any number: a sum that is none is a gap, and no warning.
        total = np.sum([curve.mean for curve in curves], axis=0)
    return Curve("", 0, curves[0].x, total, total, total)


# Labels


def _y_tick_count(rows: int) -> int:
    """Return how many ticks are readable at the left of so many rows."""
    return max(2, (rows + 1) // 3)


def _row_labels(text_of_row: dict[int, str], rows: int, width: int) -> tuple[str, ...]:
    """Return a label of one width for each row, blank but for texts, and a line behind it.

    They are empty if they would take half of the width.
    """
    text_width = max(map(len, text_of_row.values()), default=0)
    if not text_width or text_width + 1 > width // 2:
        return ("",) * rows
    labels = []
    for row in range(rows):
        line = palette.sign("tick" if row in text_of_row else "row")
        labels.append(text_of_row.get(row, "").rjust(text_width) + line)
    return tuple(labels)


def _bottom_labels(x_axis: Axis, options: PlotOptions, width: int) -> str:
    """Return the ticks of the x axis, each centred under its place, and the axis' name."""
    name = "  " + options.along
    has_name = width > 4 * len(name)
    room = width - len(name) if has_name else width
    if options.clock:
        ticks = axis.clock_ticks(x_axis, max(2, width // 10))
    else:
        only_whole = not (options.parts or options.log_x)
        ticks = axis.number_ticks(x_axis, max(2, width // 11), whole=only_whole)
    line = [" "] * width
    free_from = 0
    for value, text in ticks:
        center = cell_at(x_axis.share_of(value), width)
        start = max(0, center - len(text) // 2)
        if free_from <= start <= room - len(text):
            line[start : start + len(text)] = text
            free_from = start + len(text) + 2
    return "".join(line[:room]) + (name if has_name else "")
