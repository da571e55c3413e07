"""What a chart of a given size shows: its picture and the labels around it.

Knows no colours and no terminal.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from remote.run.series.definitions import Unit
from tui.charts import axis
from tui.charts.annotations import PointLabel, StepLabel, put_cursor
from tui.charts.axis import Axis
from tui.charts.axis_limits import x_limits, y_limits
from tui.charts.bars import make_lanes
from tui.charts.margin import MAX_SHARE_WITH_VALUES, EndName, Margin, Segments, make_margin
from tui.charts.plots import BarPlot, LinePlot
from tui.charts.raster import Cells, Curve, DotPicture
from tui.charts.row_scale import value_scale
from tui.charts.units import axis_scale
from tui.charts.x_labels import Mark, MarkRow, make_labels, make_mark_row
from tui.kit import palette

MIN_HEIGHT_FOR_BANDS = 10
"""Rows from which on a chart has bands and raw values behind an average: one of them has the x
axis, and in less than 9 rows they would be heavier than the lines."""
MAX_SHARE_OF_LANES = 1 / 3
"""The share of a chart that the values of lanes may take."""
PICTURE_TICKS = 6
"""The axes of a picture end as those with so many ticks."""


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
    log_y_if_low: bool = False
    """Whether it is also logarithmic where a chart has few rows."""
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
    point_labels: tuple[PointLabel, ...] = ()
    """Points that are named, such as the best one."""
    named: bool = False
    """Whether the label of each curve stands where it ends, if there is room."""
    dashed: bool = False
    """Whether curves have dashes, as where there are no colours. Else a gap looks like a value that
    is missing."""
    alarm: StepLabel | None = None
    """Where on the main curve something went wrong, and what."""
    mark_strides: Mapping[str, int] = {}
    """By letter, which n-th marks the given ones are, if not all."""
    has_end_values: bool = True
    """Whether values stand beside the names of curves: those of a chart that is not drawn at each
    tick would be older than what stands above it."""

    def for_height(self, height: int) -> PlotOptions:
        """Return the options of a chart with so many rows."""
        if self.log_y_if_low and _is_low(height):
            return replace(self, log_y=True)
        return self


def curves_for_height(curves: Sequence[Curve], height: int) -> Sequence[Curve]:
    """Return the curves of a chart with so many rows: a low one has lines alone."""
    if not _is_low(height):
        return curves
    return [
        replace(curve, band=False) if curve.band else curve for curve in curves if not curve.is_raw
    ]


def _is_low(height: int) -> bool:
    return height < MIN_HEIGHT_FOR_BANDS


class PlotFrame(Struct, frozen=True):
    """A drawn chart with its labels."""

    picture: DotPicture
    row_labels: tuple[str, ...]
    """The label at the left of each row of the picture."""
    row_ends: tuple[Segments, ...]
    """What stands at the right of each row."""
    mark_labels: str
    """The row of marks beneath the picture, or ""."""
    bottom_labels: str
    """The row of labels beneath that, or "" if there is no room for one."""
    x_axis: Axis
    y_axis: Axis | None = None
    """That of lines. Lanes of bars have none."""

    @property
    def left(self) -> int:
        """The cells at the left of the picture."""
        return len(self.row_labels[0]) if self.row_labels else 0

    @property
    def width(self) -> int:
        """The cells of a row."""
        right = sum(len(text) for text, _ in self.row_ends[0]) if self.row_ends else 0
        return self.left + int(self.picture.dots.shape[1]) + right

    @property
    def num_rows(self) -> int:
        """The rows with all labels."""
        return len(self.row_labels) + bool(self.mark_labels) + bool(self.bottom_labels)

    @property
    def _labels(self) -> tuple[object, ...]:
        return self.row_labels, self.row_ends, self.mark_labels, self.bottom_labels

    def x_at(self, column: float) -> float:
        """Return the x at a column of cells of the whole frame."""
        width = self.picture.dots.shape[1]
        share = (column - self.left) / max(width, 1)
        return self.x_axis.value_at(min(max(share, 0.0), 1.0))

    def changed_rows(self, other: PlotFrame) -> dict[int, tuple[int, int]]:
        """Return the rows that differ from another frame, with their first cell and their end."""
        layers = _layers(self.picture)
        other_layers = _layers(other.picture)
        if self._labels != other._labels or layers.shape != other_layers.shape:
            return dict.fromkeys(range(self.num_rows), (0, self.width))
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
    options = options.for_height(height)
    curves = curves_for_height(curves, height)
    if not options.has_end_values:
        curves = [replace(curve, end_value="") for curve in curves]
    if not options.dashed:
        curves = [replace(curve, dash=0) if curve.dash else curve for curve in curves]
    x_range = options.window or x_limits(curves, options.log_x)
    if x_range is None or width < 1 or height < 1:
        return None
    rows = height - 1 if height >= 3 else height
    # As wide as the chart for now: how wide its labels are follows from what is in view.
    rough_axis = _x_axis(x_range, options, width)
    mark_row = None
    if rows < height:
        mark_row = make_mark_row(
            marks, rough_axis, width, rows, options.along, options.mark_strides
        )
    if mark_row:
        rows -= 1
    view = rough_axis if options.window else None
    plot = _make_plot(curves, options, view, rows)
    if plot is None:
        return None
    row_labels = _row_labels(plot, rows, width)
    left = len(row_labels[0])
    names = plot.end_names(rough_axis)
    margin = _make_margin(plot, names, width - left)
    inner_width = width - left - margin.width
    x_axis = _x_axis(x_range, options, inner_width)
    picture = plot.draw(x_axis, inner_width)
    plot.annotate(picture, x_axis)
    # Where curves still grow, a name would move about with the end of its curve.
    if isinstance(plot, LinePlot) and options.named and not options.growing and margin.width:
        late_names = plot.put_early_names(picture, names, x_axis)
        if len(late_names) < len(names):
            margin = margin.with_names(late_names)
    if options.cursor is not None:
        put_cursor(picture, x_axis, options.cursor)
    mark_labels = bottom_labels = ""
    if mark_row:
        # With the same rows, but of the axis that was only rough before.
        mark_row = make_mark_row(
            marks, x_axis, inner_width, rows + 1, options.along, options.mark_strides
        )
        mark_labels = _mark_labels(mark_row, left, inner_width)
    if rows < height:
        bottom_labels = " " * left + make_labels(
            x_axis,
            options.along,
            mark_row.names if mark_row else "",
            inner_width,
            width - left,
            is_clock=options.clock,
            only_whole=not (options.parts or options.log_x),
        )
    return PlotFrame(
        picture, row_labels, margin.rows, mark_labels, bottom_labels, x_axis, plot.y_axis
    )


def _make_plot(
    curves: Sequence[Curve], options: PlotOptions, view: Axis | None, rows: int
) -> LinePlot | BarPlot | None:
    """Return the curves with their scales, or None if none of them has a value."""
    if options.stacked:
        all_limits = [y_limits([curve], False, view, options.warm) for curve in curves]
        if not any(all_limits):
            return None
        highs = [min(limits[1], axis.HUGE) if limits else 0.0 for limits in all_limits]
        return BarPlot(curves, make_lanes(highs, rows), rows, options.unit)
    limits = y_limits(curves, options.log_y, None, options.warm)
    if limits is None:
        return None
    if view:
        # If all in view is a gap, the limits of the whole run are better than no chart.
        limits = y_limits(curves, options.log_y, view, options.warm) or limits
    low, high = limits
    if options.from_zero and not options.log_y:
        low = min(low, 0.0)
    scale = value_scale(low, high, rows, options.unit, log=options.log_y)
    return LinePlot(
        curves, scale, rows, options.unit, options.point_labels, options.alarm, options.named
    )


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
    return x_axis, _picture_y_axis(*limits, options)


def _x_axis(x_range: tuple[float, float], options: PlotOptions, width: int) -> Axis:
    low, high = x_range
    if options.log_x:
        low = min(max(low, axis.TINY), axis.HUGE)
        high = min(max(high, axis.TINY), axis.HUGE)
        return Axis(low, high if high > low else low * 1.1, log=True)
    if options.growing:
        return axis.steady_axis(low, high, 2 * width)
    return axis.exact_axis(low, high)


def _picture_y_axis(low: float, high: float, options: PlotOptions) -> Axis:
    if options.log_y:
        return axis.log_axis(low, high)
    if options.from_zero or options.stacked:
        low = min(low, 0.0)
    scale, _ = axis_scale(max(abs(low), abs(high)), options.unit)
    scaled = axis.linear_axis(low / scale, high / scale, PICTURE_TICKS)
    return Axis(scaled.low * scale, scaled.high * scale)


def _total(curves: Sequence[Curve]) -> Curve:
    """Return the upper edge of curves that are stacked."""
    with np.errstate(invalid="ignore", over="ignore"):
        # A script may print any number: a sum that is none is a gap, and no warning.
        total = np.sum([curve.mean for curve in curves], axis=0)
    return Curve("", 0, curves[0].x, total, total, total)


# Labels


def _row_labels(plot: LinePlot | BarPlot, rows: int, width: int) -> tuple[str, ...]:
    """Return a label of one width for each row, blank but for texts, and the line of the axis
    behind it, where there is one.

    They are empty if they would take half of the width.
    """
    text_of_row = plot.row_texts()
    axis_rows = plot.axis_rows()
    tick_rows = plot.tick_rows()
    text_width = max(map(len, text_of_row.values()), default=0)
    if not text_width or text_width + 1 > width // 2:
        return ("",) * rows
    labels = []
    for row in range(rows):
        line = palette.sign("row") if row in axis_rows else " "
        if row in tick_rows:
            line = palette.sign("tick")
        labels.append(text_of_row.get(row, "").rjust(text_width) + line)
    return tuple(labels)


def _make_margin(plot: LinePlot | BarPlot, names: Sequence[EndName], width: int) -> Margin:
    if isinstance(plot, LinePlot):
        return make_margin(names, plot.rows, width, MAX_SHARE_WITH_VALUES)
    return make_margin(names, plot.rows, width, MAX_SHARE_OF_LANES)


def _mark_labels(mark_row: MarkRow | None, left: int, width: int) -> str:
    """Return the row of marks with the corner of the axes, blank if none is in view."""
    if mark_row is None:
        return " " * (left + width)
    corner = palette.sign("corner").rjust(left) if left else ""
    return corner + mark_row.text
