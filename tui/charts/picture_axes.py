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

TICKS = 6


def axes(drawn: Drawing, kind: ChartKind, view: ChartView) -> tuple[Axis, Axis] | None:
    """The axes of what is seen, x and y; None where there is nothing to see."""
    log = view.log_y and not kind.stacked
    curves = stacked(drawn.curves) if kind.stacked else drawn.curves
    span = drawn.look.window or drawn.ends
    if span is None:
        return None
    along = Axis(*span, log=drawn.look.log) if span[0] < span[1] else axis.exact(*span)
    limits = y_limits(curves, log, along, drawn.look.warm)
    if limits is None:
        return None
    low, high = limits
    from_zero = (drawn.look.from_zero or kind.stacked) and not log
    up = (
        axis.logarithmic(low, high)
        if log
        else axis.linear(min(low, 0) if from_zero else low, high, TICKS)
    )
    return along, up


def quantity(kind: ChartKind) -> str:
    """What y is, with its unit."""
    unit = kind.unit.value
    return kind.title if not unit or "/" in kind.title else f"{kind.title} ({unit})"


def lettered(drawn: Drawing, along: Axis) -> dict[float, str]:
    """The marks in view: the letters at each x."""
    found: dict[float, str] = {}
    for x, letter in drawn.marks:
        if along.low <= x <= along.high:
            found[x] = found.get(x, "") + letter
    return found


def label(curve: Curve, drawn: Drawing) -> str:
    """What a curve is called in a legend."""
    line = next((line for line in drawn.lines if line.name == curve.label), None)
    if line and line.row >= 0 and line.name == str(line.row):
        return f"rank {curve.label}"
    is_mean = line is not None and line.row < 0 and drawn.curves[0].band
    return f"{curve.label}, min to max" if is_mean else curve.label


def stacked(curves: tuple[Curve, ...]) -> tuple[Curve, ...]:
    """The curves over each other, from the uppermost on: each with the one beneath as its low
    end."""
    total = np.zeros(len(curves[0].x)) if curves else np.empty(0)
    found = []
    for curve in curves:
        below = total
        total = total + np.nan_to_num(curve.mean)
        found.append(Curve(curve.label, curve.colour, curve.x, below, total, total))
    return tuple(reversed(found))
