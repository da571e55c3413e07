"""A chart as SVG and PNG, by matplotlib, which the extra `report` installs."""

from __future__ import annotations

import io
import warnings
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from msgspec import structs

from tui.charts.axis import bound
from tui.charts.drawing import Drawing
from tui.charts.kinds import ChartKind
from tui.charts.plot_frame import picture_axes
from tui.charts.raster import Curve
from tui.kit.inks import LIGHT, is_dashed

INCHES = (8, 4.5)
DPI = 160
SETTINGS: Any = {"svg.fonttype": "none", "svg.hashsalt": "rankboard"}
"""Text stays text, and equal charts give equal files."""
NO_METADATA = dict.fromkeys(("Creator", "Date", "Format", "Type"))


def draw_pictures(drawing: Drawing, kind: ChartKind, run: str = "") -> dict[str, bytes]:
    """Return the chart of what is in view, in colours for a light ground, by the endings of files.

    `run` says of which run it is.
    """
    with matplotlib.rc_context(SETTINGS), warnings.catch_warnings():
        # The font may lack a character of a name.
        warnings.simplefilter("ignore")
        figure = Figure(INCHES, layout="constrained")
        _draw_chart(figure.subplots(), drawing, kind, run)
        svg = _save(figure, format="svg", metadata=NO_METADATA)
        png = _save(figure, format="png", metadata={"Software": None}, dpi=DPI)
    return {"svg": svg, "png": png}


def _save(figure: Figure, **settings: Any) -> bytes:
    file = io.BytesIO()
    figure.savefig(file, **settings)
    return file.getvalue()


def _draw_chart(axes: Axes, drawing: Drawing, kind: ChartKind, run: str) -> None:
    title = f"{kind.title}\n{run}" if run else kind.title
    axes.set_title(title, loc="left", pad=18, parse_math=False)  # above the letters of marks
    options = drawing.options
    axes.set_xlabel("time (s)" if options.clock else options.along)
    # A script may print a value with $ in its name, which would begin a formula.
    axes.set_ylabel(_y_title(kind), parse_math=False)
    axes.set_yscale("log" if options.log_y else "linear")
    axes.set_xscale("log" if options.log_x else "linear")
    if kind.stacked:
        _draw_areas(axes, drawing.curves)
    else:
        for curve in drawing.curves:
            _draw_curve(axes, curve, drawing)
    window = options.window or drawing.x_range
    # As if not live: that axis is rounded to columns of dots, of which a picture has none.
    limits = picture_axes(drawing.curves, structs.replace(options, window=window, growing=False))
    if limits:
        x_axis, y_axis = limits
        axes.set_xlim(x_axis.low, x_axis.high)
        axes.set_ylim(y_axis.low, y_axis.high)
        _draw_marks(axes, drawing, x_axis.low, x_axis.high)
    # A legend without labels is a warning and an empty box.
    if axes.get_legend_handles_labels()[0]:
        axes.legend()


def _y_title(kind: ChartKind) -> str:
    """Return what y is, with its unit."""
    unit = kind.unit.value
    return f"{kind.title} ({unit})" if unit and "/" not in kind.title else kind.title


def _draw_areas(axes: Axes, curves: tuple[Curve, ...]) -> None:
    if curves:
        axes.stackplot(
            curves[0].x,
            [curve.mean for curve in curves],
            labels=[curve.label for curve in curves],
            colors=[LIGHT.by_number(curve.colour) for curve in curves],
        )


def _draw_curve(axes: Axes, curve: Curve, drawing: Drawing) -> None:
    colour = LIGHT.by_number(curve.colour)
    low, mean, high = map(bound, (curve.low, curve.mean, curve.high))
    if curve.band:
        axes.fill_between(curve.x, low, high, color=colour, alpha=0.2, linewidth=0)
    # matplotlib leaves labels that begin with an underscore out of the legend.
    label = "_"
    if len(curve.x) and not curve.faint:
        label = _legend_label(curve, drawing).replace("_", " ")
    axes.plot(
        curve.x,
        mean,
        linestyle="--" if is_dashed(curve.colour) else "-",
        marker="D" if curve.signed else "",
        markevery=list(curve.signed) or None,
        color=colour,
        alpha=0.4 if curve.faint else 1.0,
        label=label,
    )


def _legend_label(curve: Curve, drawing: Drawing) -> str:
    """Return what a curve is called in a legend. Names of ranks are only their numbers."""
    for line in drawing.lines:
        if line.name == curve.label and line.row < 0 and drawing.curves[0].band:
            return f"{curve.label}, min to max"
        if line.name == curve.label == str(line.row):
            return f"rank {curve.label}"
    return curve.label


def _draw_marks(axes: Axes, drawing: Drawing, low: float, high: float) -> None:
    """Draw a line at each mark in view. The letters of marks at one place stand together."""
    letters: dict[float, str] = {}
    for x, letter in drawing.marks:
        if low <= x <= high:
            letters[x] = letters.get(x, "") + letter
    for x, text in letters.items():
        axes.axvline(x, color="#999999", linestyle=":", linewidth=1)
        axes.annotate(
            text,
            (x, 1),
            (0, 3),
            xycoords=("data", "axes fraction"),
            textcoords="offset points",
            ha="center",
            parse_math=False,
        )
