"""A chart as PNG, by matplotlib, which the extra `report` installs."""

from __future__ import annotations

import io

from matplotlib.figure import Figure

from tui import palette
from tui.charts.drawing import Drawing
from tui.charts.kinds import Kind
from tui.charts.view import View

INCHES = (8, 4.5)
DPI = 160


def picture(drawn: Drawing, kind: Kind, view: View) -> bytes:
    """The chart as it is seen; colours are those on a light ground."""
    figure = Figure(INCHES, layout="constrained")
    axes = figure.subplots()
    axes.set_title(kind.title, parse_math=False)
    axes.set_xlabel(drawn.look.along)
    if kind.stacked and drawn.curves:
        colours = [palette.colour(curve.colour, dark=False) for curve in drawn.curves]
        values = [curve.mean for curve in drawn.curves]
        labels = [curve.label for curve in drawn.curves]
        axes.stackplot(drawn.curves[0].x, values, labels=labels, colors=colours)
    for curve in drawn.curves if not kind.stacked else ():
        colour = palette.colour(curve.colour, dark=False)
        if curve.band:
            axes.fill_between(curve.x, curve.low, curve.high, color=colour, alpha=0.2, linewidth=0)
        line, marker = ("", "D") if curve.single else ("-", "")
        label = "_" if curve.faint or not len(curve.x) else curve.label.replace("_", " ")
        faint = 0.4 if curve.faint else 1.0
        axes.plot(curve.x, curve.mean, line, marker=marker, color=colour, alpha=faint, label=label)
    if drawn.look.window:
        axes.set_xlim(*drawn.look.window)
    if view.log_y and not kind.stacked:
        axes.set_yscale("log")
    if drawn.look.log:
        axes.set_xscale("log")
    if axes.get_legend_handles_labels()[0]:
        axes.legend()
    png = io.BytesIO()
    figure.savefig(png, format="png", dpi=DPI, metadata={"Software": None})
    return png.getvalue()
