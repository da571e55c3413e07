"""A chart as PNG, by matplotlib, which the extra `report` installs."""

from __future__ import annotations

import io

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from tui.charts.chart_view import ChartView
from tui.charts.drawing import Drawing
from tui.charts.kinds import ChartKind
from tui.charts.picture_axes import legend_label, letters_in_view, picture_axes, y_title
from tui.charts.raster import Curve
from tui.kit import palette

INCHES = (8, 4.5)
DPI = 160


def draw_png(drawing: Drawing, kind: ChartKind, view: ChartView, run: str = "") -> bytes:
    """Return the chart as a PNG of what is in view, in the colours for a light ground."""
    figure = Figure(INCHES, layout="constrained")
    axes = figure.subplots()
    title = f"{kind.title}\n{run}" if run else kind.title
    axes.set_title(title, loc="left", pad=18, parse_math=False)  # above the letters of marks
    axes.set_xlabel("time (s)" if drawing.options.clock else drawing.options.along)
    axes.set_ylabel(y_title(kind), parse_math=False)
    axes.set_yscale("log" if view.log_y and not kind.stacked else "linear")
    axes.set_xscale("log" if drawing.options.log else "linear")
    if kind.stacked:
        _draw_areas(axes, drawing)
    else:
        for curve in drawing.curves:
            _draw_curve(axes, curve, drawing)
    limits = picture_axes(drawing, kind, view)
    if limits:
        x_axis, y_axis = limits
        axes.set_xlim(x_axis.low, x_axis.high)
        axes.set_ylim(y_axis.low, y_axis.high)
        for x, letters in letters_in_view(drawing, x_axis).items():
            _draw_mark(axes, x, letters)
    handles, _ = axes.get_legend_handles_labels()
    if handles:
        axes.legend()
    png = io.BytesIO()
    # Without the version of matplotlib, equal charts give equal files.
    figure.savefig(png, format="png", dpi=DPI, metadata={"Software": None})
    return png.getvalue()


def _draw_areas(axes: Axes, drawing: Drawing) -> None:
    curves = drawing.curves
    if not curves:
        return
    axes.stackplot(
        curves[0].x,
        [curve.mean for curve in curves],
        labels=[curve.label for curve in curves],
        colors=[palette.rank_colour(curve.colour, dark=False) for curve in curves],
    )


def _draw_curve(axes: Axes, curve: Curve, drawing: Drawing) -> None:
    colour = palette.rank_colour(curve.colour, dark=False)
    if curve.band:
        axes.fill_between(curve.x, curve.low, curve.high, color=colour, alpha=0.2, linewidth=0)
    # matplotlib leaves labels that begin with an underscore out of the legend.
    label = "_"
    if len(curve.x) and not curve.faint:
        label = legend_label(curve, drawing).replace("_", " ")
    axes.plot(
        curve.x,
        curve.mean,
        linestyle="none" if curve.single else "-",
        marker="D" if curve.single else "",
        color=colour,
        alpha=0.4 if curve.faint else 1.0,
        label=label,
    )


def _draw_mark(axes: Axes, x: float, letters: str) -> None:
    axes.axvline(x, color="#999999", linestyle=":", linewidth=1)
    axes.annotate(
        letters,
        (x, 1),
        (0, 3),
        xycoords=("data", "axes fraction"),
        textcoords="offset points",
        ha="center",
    )
