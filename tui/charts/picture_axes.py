"""What the pictures of a chart have in common: their axes, their names, their marks."""

from __future__ import annotations

import numpy as np

from tui.charts import axis
from tui.charts.axis import Axis
from tui.charts.axis_limits import y_limits
from tui.charts.chart_view import ChartView
from tui.charts.drawing import Drawing
from tui.charts.kinds import ChartKind
from tui.charts.raster import Curve

Y_TICKS = 6


def picture_axes(drawing: Drawing, kind: ChartKind, view: ChartView) -> tuple[Axis, Axis] | None:
    """Return the x and the y axis of what is in view, or None if there is nothing to see."""
    options = drawing.options
    x_range = options.window or drawing.x_range
    if x_range is None:
        return None
    low, high = x_range
    x_axis = Axis(low, high, log=options.log) if low < high else axis.exact_axis(low, high)
    is_log = view.log_y and not kind.stacked
    curves = stack_curves(drawing.curves) if kind.stacked else drawing.curves
    limits = y_limits(curves, is_log, x_axis, options.warm)
    if limits is None:
        return None
    low, high = limits
    if is_log:
        return x_axis, axis.log_axis(low, high)
    if options.from_zero or kind.stacked:
        low = min(low, 0)
    return x_axis, axis.linear_axis(low, high, Y_TICKS)


def y_title(kind: ChartKind) -> str:
    """Return what y is, with its unit."""
    unit = kind.unit.value
    has_unit = not unit or "/" in kind.title
    return kind.title if has_unit else f"{kind.title} ({unit})"


def letters_in_view(drawing: Drawing, x_axis: Axis) -> dict[float, str]:
    """Return the letters of the marks in view, by their x."""
    letters: dict[float, str] = {}
    for x, letter in drawing.marks:
        if x_axis.low <= x <= x_axis.high:
            letters[x] = letters.get(x, "") + letter
    return letters


def legend_label(curve: Curve, drawing: Drawing) -> str:
    """Return what a curve is called in a legend."""
    line = next((line for line in drawing.lines if line.name == curve.label), None)
    if line is None:
        return curve.label
    if line.row >= 0 and line.name == str(line.row):
        return f"rank {curve.label}"
    has_band = line.row < 0 and drawing.curves[0].band
    return f"{curve.label}, min to max" if has_band else curve.label


def stack_curves(curves: tuple[Curve, ...]) -> tuple[Curve, ...]:
    """Return the curves on top of each other, from the uppermost on.

    The low end of each is the curve beneath it.
    """
    if not curves:
        return ()
    total = np.zeros(len(curves[0].x))
    stacked = []
    for curve in curves:
        below = total
        total = total + np.nan_to_num(curve.mean)
        stacked.append(Curve(curve.label, curve.colour, curve.x, below, total, total))
    return tuple(reversed(stacked))
