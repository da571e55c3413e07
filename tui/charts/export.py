"""One chart as files: a table of what it shows, and a picture."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from xml.sax.saxutils import escape

import numpy as np
from numpy.typing import NDArray

from training.writing import write_whole
from tui.charts import axis, raster
from tui.charts.axis import Axis
from tui.charts.chart_view import ChartView
from tui.charts.drawing import Drawing
from tui.charts.kinds import ChartKind
from tui.charts.picture_axes import TICKS, axes, label, lettered, quantity, stacked
from tui.charts.raster import Curve
from tui.kit import palette

WIDTH = 800
HEIGHT = 450
LEFT = 70
TOP = 58
RIGHT = 20
BOTTOM = 50
"""The margins around the curves."""
LETTER = 7.3
"""How wide a letter of the legend is, at the most."""
COLUMNS = ("series", "of", "step", "time", "mean", "low", "high", "lowest", "highest")


def save(
    folder: Path, name: str, drawn: Drawing, kind: ChartKind, view: ChartView, run: str = ""
) -> list[Path]:
    """Write a chart as NAME.csv, NAME.svg and, where matplotlib is installed, NAME.png. `run` says
    of which run it is.

    Raises: OSError.
    """
    files = {
        "csv": table(drawn, kind).encode(),
        "svg": picture(drawn, kind, view, run).encode(),
    }
    try:
        from tui.charts import png
    except ImportError:  # it needs the extra `report`
        pass
    else:
        files["png"] = png.picture(drawn, kind, view, run)
    paths = [folder / f"{name}.{ending}" for ending in files]
    for path, data in zip(paths, files.values(), strict=True):
        write_whole(path, data)
    return paths


def table(drawn: Drawing, kind: ChartKind) -> str:
    """The points of a chart as CSV, whether they are in view or not; time in seconds since the run
    began."""
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    rows.writerow(COLUMNS)
    for line in drawn.lines:
        points = line.points
        columns = (points.step, points.time, points.mean, points.low, points.high)
        numbers = (points.lowest, points.highest)
        for row in zip(*columns, *numbers, strict=True):
            rows.writerow((line.series, line.name, *(f"{value:.10g}" for value in row)))
    return text.getvalue()


def picture(drawn: Drawing, kind: ChartKind, view: ChartView, run: str = "") -> str:
    """The chart as SVG, as it is seen."""
    curves = stacked(drawn.curves) if kind.stacked else drawn.curves
    found = axes(drawn, kind, view)
    if found is None:
        return _svg([_text(WIDTH / 2, HEIGHT / 2, "no data")])
    along, up = found
    parts = [_text(LEFT, 22, kind.title, "start", 16), _text(LEFT, 38, run, "start")]
    parts += _axes(along, up, drawn)
    middle = (TOP + HEIGHT - BOTTOM) / 2
    parts += [f'<g transform="rotate(-90 14 {middle})">{_text(14, middle, quantity(kind))}</g>']
    parts += ['<g clip-path="url(#inside)">']
    for curve in curves:
        parts += _curve(curve, along, up, areas=kind.stacked)
    parts += ["</g>", *_legend(drawn)]
    return _svg(parts)


def _axes(along: Axis, up: Axis, drawn: Drawing) -> Iterator[str]:
    bottom = HEIGHT - BOTTOM
    yield f'<path d="M{LEFT},{TOP}V{bottom}H{WIDTH - RIGHT}" fill="none" stroke="#555"/>'
    for value, text in axis.ticks(up, TICKS):
        y = _y(up.at(value))
        yield f'<path d="M{LEFT},{y:.1f}H{WIDTH - RIGHT}" stroke="#ddd"/>'
        yield _text(LEFT - 6, y + 4, text, "end")
    look = drawn.look
    marks = axis.clock_ticks(along, 8) if look.clock else axis.ticks(along, 8)
    for value, text in marks:
        yield _text(_x(along.at(value)), bottom + 18, text)
    yield _text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 12, look.along)
    for x, letters in lettered(drawn, along).items():
        at = _x(along.at(x))
        yield f'<path d="M{at:.1f},{TOP}V{bottom}" stroke="#999" stroke-dasharray="2 4"/>'
        yield _text(at, TOP - 3, letters)


def _curve(curve: Curve, along: Axis, up: Axis, *, areas: bool) -> Iterator[str]:
    colour = palette.colour(curve.colour, dark=False)
    x = along.places(np.where(np.isfinite(curve.x), curve.x, np.nan))
    low, high, mean = (up.places(_finite(one)) for one in (curve.low, curve.high, curve.mean))
    if curve.single:
        for at, y in zip(x, mean, strict=True):
            if math.isfinite(at) and math.isfinite(y):
                yield f'<path d="M{_x(at):.1f},{_y(y) - 5:.1f}l5,5l-5,5l-5,-5z" fill="{colour}"/>'
        return
    for start, end in _runs(np.isfinite(x) & np.isfinite(mean)):
        part = slice(start, end)
        if curve.band:
            edge = _points(x[part], high[part]) + _points(x[part][::-1], low[part][::-1])
            opacity = 1.0 if areas else 0.2
            yield f'<path d="M{"L".join(edge)}z" fill="{colour}" fill-opacity="{opacity}"/>'
        width, opacity = (1.0, 0.4) if curve.faint else (1.5, 1.0)
        yield (
            f'<path d="M{"L".join(_points(x[part], mean[part]))}" fill="none" stroke="{colour}" '
            f'stroke-width="{width}" stroke-opacity="{opacity}"/>'
        )


def _finite(values: raster.Floats) -> raster.Floats:
    return np.where(np.isfinite(values), values, np.nan).clip(-axis.HUGE, axis.HUGE)


def _points(x: raster.Floats, y: raster.Floats) -> list[str]:
    known = np.isfinite(x) & np.isfinite(y)
    return [f"{_x(at):.1f},{_y(up):.1f}" for at, up in zip(x[known], y[known], strict=True)]


def _runs(known: NDArray[np.bool_]) -> Iterator[tuple[int, int]]:
    """Where what is known begins and ends, part by part."""
    edges = np.flatnonzero(np.diff(np.r_[0, known.astype(int), 0]))
    for place, (start, end) in enumerate(pairwise(edges.tolist())):
        if place % 2 == 0:
            yield start, end


def _legend(drawn: Drawing) -> Iterator[str]:
    """Names of the curves in their colours, at the right of the picture's head."""
    x = float(WIDTH - RIGHT)
    for curve in reversed([curve for curve in drawn.curves if len(curve.x) and not curve.faint]):
        colour = palette.colour(curve.colour, dark=False)
        text = label(curve, drawn)
        yield _text(x, 22, text, "end")
        x -= LETTER * len(text) + 14
        yield f'<rect x="{x}" y="13" width="10" height="10" fill="{colour}"/>'
        x -= 14
        if x < WIDTH / 3:
            return


def _x(place: float) -> float:
    return LEFT + min(max(place, -9.0), 9.0) * (WIDTH - LEFT - RIGHT)


def _y(place: float) -> float:
    return HEIGHT - BOTTOM - min(max(place, -9.0), 9.0) * (HEIGHT - TOP - BOTTOM)


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
