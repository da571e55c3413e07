"""One chart as files: a table of its points, and pictures."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterator
from pathlib import Path
from xml.sax.saxutils import escape

import numpy as np
from numpy.typing import NDArray

from training.writing import write_whole
from tui.charts import axis
from tui.charts.axis import Axis
from tui.charts.chart_view import ChartView
from tui.charts.drawing import Drawing
from tui.charts.kinds import ChartKind
from tui.charts.picture_axes import (
    Y_TICKS,
    legend_label,
    letters_in_view,
    picture_axes,
    stack_curves,
    y_title,
)
from tui.charts.raster import Curve, Floats
from tui.kit import palette

X_TICKS = 8
WIDTH = 800
HEIGHT = 450
# The margins around the curves.
LEFT = 70
TOP = 58
RIGHT = 20
BOTTOM = 50
LEGEND_LETTER_WIDTH = 7.3
"""An upper bound of the width of a letter of the legend."""
FARTHEST = 9.0
"""How many widths or heights away points outside of the picture are drawn at most."""
COLUMNS = ("series", "of", "step", "time", "mean", "low", "high", "lowest", "highest")


def save_chart(
    folder: Path, name: str, drawing: Drawing, kind: ChartKind, view: ChartView, run: str = ""
) -> list[Path]:
    """Write a chart as NAME.csv, NAME.svg and, if matplotlib is installed, NAME.png.

    `run` says of which run it is.

    Raises: OSError.
    """
    files = {
        "csv": to_csv(drawing).encode(),
        "svg": to_svg(drawing, kind, view, run).encode(),
    }
    try:
        from tui.charts import png
    except ImportError:  # it needs the extra `report`
        pass
    else:
        files["png"] = png.draw_png(drawing, kind, view, run)
    paths = []
    for extension, data in files.items():
        path = folder / f"{name}.{extension}"
        write_whole(path, data)
        paths.append(path)
    return paths


def to_csv(drawing: Drawing) -> str:
    """Return all points of a chart as CSV, whether they are in view or not.

    Times are in seconds since the run began.
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for line in drawing.lines:
        points = line.points
        columns = (
            points.step,
            points.time,
            points.mean,
            points.low,
            points.high,
            points.lowest,
            points.highest,
        )
        for row in zip(*columns, strict=True):
            numbers = [f"{value:.10g}" for value in row]
            writer.writerow((line.series, line.name, *numbers))
    return text.getvalue()


def to_svg(drawing: Drawing, kind: ChartKind, view: ChartView, run: str = "") -> str:
    """Return the chart as an SVG of what is in view."""
    axes = picture_axes(drawing, kind, view)
    if axes is None:
        return _svg([_text(WIDTH / 2, HEIGHT / 2, "no data")])
    x_axis, y_axis = axes
    parts = [_text(LEFT, 22, kind.title, "start", 16), _text(LEFT, 38, run, "start")]
    parts += _axes(x_axis, y_axis, drawing)
    middle = (TOP + HEIGHT - BOTTOM) / 2
    parts.append(f'<g transform="rotate(-90 14 {middle})">{_text(14, middle, y_title(kind))}</g>')
    parts.append('<g clip-path="url(#inside)">')
    curves = stack_curves(drawing.curves) if kind.stacked else drawing.curves
    for curve in curves:
        parts += _curve(curve, x_axis, y_axis, is_area=kind.stacked)
    parts += ["</g>", *_legend(drawing)]
    return _svg(parts)


def _axes(x_axis: Axis, y_axis: Axis, drawing: Drawing) -> Iterator[str]:
    bottom = HEIGHT - BOTTOM
    right = WIDTH - RIGHT
    yield f'<path d="M{LEFT},{TOP}V{bottom}H{right}" fill="none" stroke="#555"/>'
    for value, label in axis.number_ticks(y_axis, Y_TICKS):
        y = _y(y_axis.share_of(value))
        yield f'<path d="M{LEFT},{y:.1f}H{right}" stroke="#ddd"/>'
        yield _text(LEFT - 6, y + 4, label, "end")
    make_ticks = axis.clock_ticks if drawing.options.clock else axis.number_ticks
    for value, label in make_ticks(x_axis, X_TICKS):
        yield _text(_x(x_axis.share_of(value)), bottom + 18, label)
    yield _text((LEFT + right) / 2, HEIGHT - 12, drawing.options.along)
    for value, letters in letters_in_view(drawing, x_axis).items():
        x = _x(x_axis.share_of(value))
        yield f'<path d="M{x:.1f},{TOP}V{bottom}" stroke="#999" stroke-dasharray="2 4"/>'
        yield _text(x, TOP - 3, letters)


def _curve(curve: Curve, x_axis: Axis, y_axis: Axis, *, is_area: bool) -> Iterator[str]:
    colour = palette.rank_colour(curve.colour, dark=False)
    x_shares = x_axis.shares_of(np.where(np.isfinite(curve.x), curve.x, np.nan))
    mean = y_axis.shares_of(_bounded(curve.mean))
    is_known = np.isfinite(x_shares) & np.isfinite(mean)
    if curve.single:
        for x_share, y_share in zip(x_shares[is_known], mean[is_known], strict=True):
            x, y = _x(x_share), _y(y_share)
            yield f'<path d="M{x:.1f},{y - 5:.1f}l5,5l-5,5l-5,-5z" fill="{colour}"/>'
        return
    low = y_axis.shares_of(_bounded(curve.low))
    high = y_axis.shares_of(_bounded(curve.high))
    for part in _known_parts(is_known):
        x_part = x_shares[part]
        if curve.band:
            upper_edge = _points(x_part, high[part])
            lower_edge = _points(x_part[::-1], low[part][::-1])
            outline = "L".join(upper_edge + lower_edge)
            opacity = 1.0 if is_area else 0.2
            yield f'<path d="M{outline}z" fill="{colour}" fill-opacity="{opacity}"/>'
        width = 1.0 if curve.faint else 1.5
        opacity = 0.4 if curve.faint else 1.0
        yield (
            f'<path d="M{"L".join(_points(x_part, mean[part]))}" fill="none" stroke="{colour}" '
            f'stroke-width="{width}" stroke-opacity="{opacity}"/>'
        )


def _bounded(values: Floats) -> Floats:
    return np.where(np.isfinite(values), values, np.nan).clip(-axis.HUGE, axis.HUGE)


def _points(x_shares: Floats, y_shares: Floats) -> list[str]:
    points = []
    for x_share, y_share in zip(x_shares, y_shares, strict=True):
        if math.isfinite(x_share) and math.isfinite(y_share):
            points.append(f"{_x(x_share):.1f},{_y(y_share):.1f}")
    return points


def _known_parts(is_known: NDArray[np.bool_]) -> Iterator[slice]:
    """Yield the parts without a gap."""
    padded = np.r_[0, is_known.astype(int), 0]
    edges = np.flatnonzero(np.diff(padded)).tolist()
    for start, end in zip(edges[::2], edges[1::2], strict=True):
        yield slice(start, end)


def _legend(drawing: Drawing) -> Iterator[str]:
    """Yield names of the curves in their colours, from right to left, as far as there is room."""
    x = float(WIDTH - RIGHT)
    for curve in reversed(drawing.curves):
        if curve.faint or not len(curve.x):
            continue
        colour = palette.rank_colour(curve.colour, dark=False)
        label = legend_label(curve, drawing)
        yield _text(x, 22, label, "end")
        x -= LEGEND_LETTER_WIDTH * len(label) + 14
        yield f'<rect x="{x}" y="13" width="10" height="10" fill="{colour}"/>'
        x -= 14
        if x < WIDTH / 3:
            return


def _x(share: float) -> float:
    return LEFT + min(max(share, -FARTHEST), FARTHEST) * (WIDTH - LEFT - RIGHT)


def _y(share: float) -> float:
    return HEIGHT - BOTTOM - min(max(share, -FARTHEST), FARTHEST) * (HEIGHT - TOP - BOTTOM)


def _text(x: float, y: float, text: str, anchor: str = "middle", size: int = 12) -> str:
    place = f'x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}"'
    return f"<text {place}>{escape(text)}</text>"


def _svg(parts: list[str]) -> str:
    inside = f'x="{LEFT}" y="{TOP}" width="{WIDTH - LEFT - RIGHT}" height="{HEIGHT - TOP - BOTTOM}"'
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
        'font-family="sans-serif" fill="#222">'
        f'<clipPath id="inside"><rect {inside}/></clipPath>'
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>'
    )
    return "\n".join((head, *parts, "</svg>\n"))
