"""What is written above a chart: the newest values, or those at the cursor."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from itertools import accumulate

import numpy as np

from remote.format import duration, number, short_size
from remote.run.series.definitions import SERIES, Scope, Unit
from tui.charts.axis import Axis
from tui.charts.chart_view import ChartView, CurveMode, XAxis
from tui.charts.drawing import ChartLine, Drawing
from tui.charts.kinds import ChartKind
from tui.charts.plot_frame import STACKED
from tui.kit import palette

LEAST = 20
"""DotColumns below which no names of curves follow the values at the cursor."""
AT = 60
"""DotColumns of dots in which a key moves the cursor once through what is in view."""


def written(value: float, unit: Unit) -> str:
    """A value of a chart."""
    if unit in (Unit.BYTES, Unit.BYTES_PER_SECOND):
        return short_size(value)
    return f"{number(value)}%" if unit is Unit.SHARE else number(value)


Parts = list[tuple[str, int]]
"""Texts with their colours; -1 is the usual one."""


def heading(drawn: Drawing, kind: ChartKind, view: ChartView, room: int) -> Parts:
    """What stands above a chart, in so many columns: the values at the cursor, or the newest one
    and how it is drawn; then the names of the curves."""
    if view.cursor is not None:
        told = [at_cursor(drawn, kind, view, brevity) for brevity in Brevity]
        said = next((text for text in told if len(text) <= room), told[-1])
    elif kind.stacked:
        return _phases(drawn, kind, room)
    else:
        said = "  ".join(filter(None, (newest(drawn, kind), *notes(view))))
    left = room - len(said) - 2
    is_named = not kind.stacked and (view.cursor is None or left > LEAST)
    named = legend(drawn, view, left) if is_named else []
    return [(said, -1), *([("  ", -1), *named] if named else [])]


def newest(drawn: Drawing, kind: ChartKind) -> str:
    """The newest value that a chart tells, and whose it is where that may be asked."""
    if not np.isfinite(drawn.newest):
        return ""
    return f"{drawn.whose} {written(drawn.newest, kind.unit)}".strip()


def _phases(drawn: Drawing, kind: ChartKind, room: int) -> Parts:
    """The newest value of each area, after its sign and its name; where there is little room,
    without the values."""
    found = []
    for place, (line, sign) in enumerate(zip(drawn.lines, STACKED, strict=False)):
        known = line.points.mean[np.isfinite(line.points.mean)]
        if known.size:
            value = written(float(known[-1]), kind.unit)
            found.append((place, palette.sign(sign), line.name, value))
    full = _apart([(f"{sign} {name} {value}", place) for place, sign, name, value in found])
    names = _apart([(f"{sign} {name}", place) for place, sign, name, _ in found])
    return full if sum(len(text) for text, _ in full) <= room else names


class Brevity(IntEnum):
    """How few words are made of the values at the cursor."""

    FULL = 0
    WITHOUT_RANKS = 1
    FIGURES = 2


def at_cursor(
    drawn: Drawing, kind: ChartKind, view: ChartView, brevity: Brevity = Brevity.FULL
) -> str:
    """The values of the points at the cursor."""
    assert view.cursor is not None
    parts: list[str] = []
    for place, line in enumerate(drawn.lines):
        at = nearest(line, view.cursor)
        if at is None:
            continue
        if not parts:
            parts.append(_where(line, at, view))
        parts.append(_told(line, at, kind, brevity, bounds=place == 0 and not kind.stacked))
    return "  ".join(parts)


def nearest(line: ChartLine, x: float) -> int | None:
    """The point of a line that is nearest to an x."""
    known = np.flatnonzero(np.isfinite(line.x))
    if not known.size:
        return None
    return int(known[np.argmin(np.abs(line.x[known] - x))])


def _where(line: ChartLine, at: int, view: ChartView) -> str:
    x = float(line.x[at])
    match view.along:
        case XAxis.TIME:
            return duration(x)
        case XAxis.EPOCH:
            return f"epoch {x:.2f}"
    return f"{view.along.value} {x:.0f}"


def _told(line: ChartLine, at: int, kind: ChartKind, brevity: Brevity, *, bounds: bool) -> str:
    points = line.points
    mean, low, high = (
        written(float(column[at]), kind.unit) for column in (points.mean, points.low, points.high)
    )
    if line.row >= 0 or not bounds or points.low[at] == points.high[at]:
        is_named = brevity < Brevity.FIGURES or not kind.stacked
        return f"{line.name} {mean}" if is_named else f"{palette.sign(line.series)}{mean}"
    if brevity is Brevity.FIGURES:
        return f"{mean} ({low} to {high})"
    if brevity is Brevity.WITHOUT_RANKS:
        return f"mean {mean}  min {low}  max {high}"
    whose = "rank" if SERIES[line.series].scope is Scope.RANK else "host"
    of = [f"({whose} {int(one[at])})" for one in (points.lowest, points.highest)]
    return f"mean {mean}  min {low} {of[0]}  max {high} {of[1]}"


def moved(drawn: Drawing, view: ChartView, axis: Axis, by: int) -> float | None:
    """Where the cursor is after a key: at the next point that is a little away; at first, at the
    last one in view. None where there is no point."""
    if not drawn.lines:
        return None
    x = drawn.lines[0].x
    x = x[np.isfinite(x) & (x >= axis.low) & (x <= axis.high)]
    if not x.size:
        return None
    if view.cursor is None:
        return float(x[-1])
    places = axis.places(x)
    here = min(max(axis.at(max(view.cursor, axis.low)), 0.0), 1.0)
    beyond = np.flatnonzero(by * (places - here) > 1 / AT / 2)
    if not beyond.size:
        return float(x[-1] if by > 0 else x[0])
    return float(x[beyond[0] if by > 0 else beyond[-1]])


def legend(drawn: Drawing, view: ChartView, room: int) -> Parts:
    """The names of the curves with their colours, as many as fit; a last one says that there are
    more."""
    if view.mode is CurveMode.MEAN and len(drawn.lines) < 2:
        return _parts_of_one(drawn, room)
    colours = {curve.label: curve.colour for curve in drawn.curves}
    sign = palette.sign("curve")
    named = [(f"{sign}{line.name} ", colours.get(line.name, -1)) for line in drawn.lines]
    lengths = list(accumulate(len(name) for name, _ in named))
    if not drawn.hidden and (not lengths or lengths[-1] <= room + 1):
        return named
    return [*named[: max(1, sum(length < room for length in lengths))], ("…", -1)]


def _parts_of_one(drawn: Drawing, room: int) -> Parts:
    """What belongs to a single curve: the mean over ranks or hosts with its band, and tests. Where
    there is little room, what is least known by itself."""
    found: Parts = []
    if any(curve.single and len(curve.x) for curve in drawn.curves):
        found.append((f"{palette.sign('test')} test", 1))
    if drawn.lines and drawn.lines[0].row < 0 and len(drawn.lines[0].points):
        found.insert(0, (f"{palette.sign('band')} min to max", 0))
        found.insert(0, (f"{palette.sign('curve')} mean", 0))
    while found and sum(len(text) for text, _ in _apart(found)) > room:
        found.pop(0)
    return _apart(found)


def _apart(parts: Parts) -> Parts:
    """The same, with room between them."""
    return [*((f"{text}  ", colour) for text, colour in parts[:-1]), *parts[-1:]]


def notes(view: ChartView) -> Sequence[str]:
    """How a chart is drawn, where that is not as usual."""
    found = ["log"] if view.log_y else []
    if view.log_x:
        found.append("log x")
    if not view.is_whole:
        found.append("live" if view.tail else "zoom")
    if view.smoothing:
        found.append(f"ema {view.smoothing:g}".replace("0.", "."))
    return found
