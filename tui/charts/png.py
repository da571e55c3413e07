"""A chart as PNG, by matplotlib, which the extra `report` installs."""

from __future__ import annotations

import io

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from tui.charts.chart_view import ChartView
from tui.charts.drawing import Drawing
from tui.charts.kinds import ChartKind
from tui.charts.picture_axes import axes as axes_of
from tui.charts.picture_axes import label, lettered, quantity
from tui.kit import palette

INCHES = (8, 4.5)
DPI = 160


def picture(drawn: Drawing, kind: ChartKind, view: ChartView, run: str = "") -> bytes:
    """The chart as it is seen; colours are those on a light ground."""
    figure = Figure(INCHES, layout="constrained")
    axes = figure.subplots()
    title = f"{kind.title}\n{run}" if run else kind.title
    axes.set_title(title, loc="left", pad=18, parse_math=False)  # above the letters of marks
    axes.set_xlabel("time (s)" if drawn.look.clock else drawn.look.along)
    axes.set_ylabel(quantity(kind), parse_math=False)
    axes.set_yscale("log" if view.log_y and not kind.stacked else "linear")
    axes.set_xscale("log" if drawn.look.log else "linear")
    _draw(axes, drawn, kind)
    found = axes_of(drawn, kind, view)
    if found:
        along, up = found
        axes.set_xlim(along.low, along.high)
        axes.set_ylim(up.low, up.high)
        for x, letters in lettered(drawn, along).items():
            axes.axvline(x, color="#999999", linestyle=":", linewidth=1)
            axes.annotate(
                *(letters, (x, 1), (0, 3)),
                xycoords=("data", "axes fraction"),
                textcoords="offset points",
                ha="center",
            )
    if axes.get_legend_handles_labels()[0]:
        axes.legend()
    png = io.BytesIO()
    figure.savefig(png, format="png", dpi=DPI, metadata={"Software": None})
    return png.getvalue()


def _draw(axes: Axes, drawn: Drawing, kind: ChartKind) -> None:
    if kind.stacked and drawn.curves:
        colours = [palette.colour(curve.colour, dark=False) for curve in drawn.curves]
        values = [curve.mean for curve in drawn.curves]
        labels = [curve.label for curve in drawn.curves]
        axes.stackplot(drawn.curves[0].x, values, labels=labels, colors=colours)
        return
    for curve in drawn.curves:
        colour = palette.colour(curve.colour, dark=False)
        if curve.band:
            axes.fill_between(curve.x, curve.low, curve.high, color=colour, alpha=0.2, linewidth=0)
        line, marker = ("none", "D") if curve.single else ("-", "")
        name = "_" if curve.faint or not len(curve.x) else label(curve, drawn).replace("_", " ")
        faint = 0.4 if curve.faint else 1.0
        axes.plot(
            *(curve.x, curve.mean),
            linestyle=line,
            marker=marker,
            color=colour,
            alpha=faint,
            label=name,
        )
