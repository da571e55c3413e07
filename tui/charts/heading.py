"""What is written above a chart: the newest values, or those at the cursor."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from remote.format import duration, loss
from remote.run.series.definitions import SERIES, Scope, Unit
from remote.sanitise import plain
from tui.charts.axis import Axis, bound
from tui.charts.chart_lines import ChartLine
from tui.charts.chart_view import ChartView, CurveMode, XAxis
from tui.charts.drawing import Drawing
from tui.charts.kinds import ChartKind
from tui.charts.units import format_value
from tui.charts.x_labels import NOTE_LETTER
from tui.kit import palette
from tui.kit.inks import LINE, TEST

MIN_COLUMNS_FOR_NAMES = 20
"""With fewer columns left, no names of curves follow the values at the cursor."""
CURSOR_STEPS = 60
"""Key presses that move the cursor once through what is in view, at most."""

ColouredTexts = list[tuple[str, int]]
"""Texts with their colours, or -1 for the usual one."""


SPREADS = (
    "mean {mean}  min {low} ({scope} {lowest})  max {high} ({scope} {highest})",
    "mean {mean}  min {low}  max {high}",
    "{mean} ({low} to {high})",
)
"""How a mean at the cursor is written with the least and the greatest value, ever shorter."""


def heading(drawing: Drawing, kind: ChartKind, view: ChartView, room: int) -> ColouredTexts:
    """Return what stands above a chart in `room` columns.

    These are the values at the cursor, or the newest one and how the chart is drawn, and then the
    names of the curves.
    """
    if view.cursor is not None:
        text = _fitting_cursor_text(drawing, kind, view, room)
    elif kind.stacked:
        phases = _heading_of_phases(drawing, kind, room)
        if not drawing.staleness:
            return phases
        return [*phases, ("  " if phases else "", -1), (drawing.staleness, -1)]
    else:
        texts = [
            _newest_value(drawing, kind),
            drawing.staleness,
            _baseline(drawing, kind),
            *_view_notes(drawing, view),
        ]
        text = "  ".join(filter(None, texts))
    room_left = room - len(text) - 2
    parts = [(text, -1)]
    if not kind.stacked and (view.cursor is None or room_left > MIN_COLUMNS_FOR_NAMES):
        names = legend(drawing, view, room_left)
        if names:
            parts += [("  ", -1), *names]
    return parts


def _newest_value(drawing: Drawing, kind: ChartKind) -> str:
    """Return the newest value of a chart, and whose it is if that is not clear."""
    if not math.isfinite(drawing.newest):
        return ""
    average = "" if drawing.is_headline else _average(drawing)
    words = [drawing.newest_name, average, format_newest(drawing, kind)]
    text = " ".join(filter(None, words))
    if math.isfinite(drawing.limit):
        text += f" of {format_value(drawing.limit, kind.unit)}"
    if drawing.capacity:
        text += f" of {drawing.capacity}"
    return text


def format_newest(drawing: Drawing, kind: ChartKind) -> str:
    """Return the newest value of a chart, written as the header writes it."""
    if drawing.is_headline:
        return loss(drawing.newest)
    return format_value(drawing.newest, kind.unit)


def _average(drawing: Drawing) -> str:
    """Name the average that is drawn, such as "ema .9"; "" for the values themselves."""
    return f"ema {drawing.smoothing:g}".replace("0.", ".") if drawing.smoothing else ""


def _baseline(drawing: Drawing, kind: ChartKind) -> str:
    """Return the name of the baseline, and its value at the newest x."""
    if not math.isfinite(drawing.baseline):
        return ""
    value = format_value(drawing.baseline, kind.unit)
    text = f"{palette.sign('ghost')} {drawing.baseline_name} {value}"
    difference = _difference(drawing, kind)
    return f"{text} ({difference})" if difference else text


def _difference(drawing: Drawing, kind: ChartKind) -> str:
    """Return how far the newest value is from that of the baseline: "+12%", of shares "-3.1"."""
    newest = drawing.newest
    if kind.stacked:
        newest = math.fsum(value for value in drawing.step_phases if math.isfinite(value))
    if not math.isfinite(newest):
        return ""
    if kind.unit is Unit.SHARE:
        return f"{newest - drawing.baseline:+.1f}"
    if drawing.baseline <= 0:
        return ""
    return f"{newest / drawing.baseline - 1:+.0%}"


def _heading_of_phases(drawing: Drawing, kind: ChartKind, room: int) -> ColouredTexts:
    """Return the newest value of all bars with its parts, and the baseline's if there is room."""
    baseline = _baseline(drawing, kind)
    if baseline:
        parts = _newest_of_phases(drawing, kind, room - len(baseline) - 2)
        if len(parts) > 1:
            return [*parts, (f"  {baseline}", -1)]
    return _newest_of_phases(drawing, kind, room)


def _newest_of_phases(drawing: Drawing, kind: ChartKind, room: int) -> ColouredTexts:
    """Return the time of a step as the sum of its phases.

    Without room, the names go, which stand at the left of the bars as well, and then the parts.
    """
    newest = drawing.step_phases
    known = [index for index, value in enumerate(newest) if math.isfinite(value)]
    if not known:
        return []
    total = format_value(float(np.sum(bound(np.array(newest)[known]))), kind.unit)
    for has_names in (True, False):
        parts: ColouredTexts = [(total, -1)]
        for index in known:
            name = f"{drawing.lines[index].name} " if has_names else ""
            text = name + format_value(newest[index], kind.unit)
            parts += [(" = " if len(parts) == 1 else " + ", -1)]
            parts += [(text, drawing.curves[index].colour)]
        if _total_length(parts) <= room:
            return parts
    return parts[:1]


# The cursor


def _fitting_cursor_text(drawing: Drawing, kind: ChartKind, view: ChartView, room: int) -> str:
    texts = [cursor_text(drawing, kind, view, brevity) for brevity in range(len(SPREADS))]
    return next((text for text in texts if len(text) <= room), texts[-1])


def cursor_text(drawing: Drawing, kind: ChartKind, view: ChartView, brevity: int = 0) -> str:
    """Return the x of the cursor and the values of the points there.

    `brevity` is an index of `SPREADS`: how few words are made of them.
    """
    assert view.cursor is not None
    parts: list[str] = []
    for line in drawing.lines:
        point = nearest_point(line, view.cursor)
        if point is None:
            continue
        if not parts:
            parts.append(_x_text(float(line.x[point]), drawing, view))
        parts.append(_point_text(line, point, kind, brevity))
    parts += _notes_at(drawing, view.cursor)
    return "  ".join(parts)


def _notes_at(drawing: Drawing, x: float) -> list[str]:
    """Return the notes of which no point of the chart is nearer to an x than that at theirs."""
    line = drawing.lines[0] if drawing.lines else None
    if line is None:
        return []
    point = nearest_point(line, x)
    return [
        f"{NOTE_LETTER} {plain(note.text)}"
        for note_x, note in drawing.notes
        if nearest_point(line, note_x) == point
    ]


def nearest_point(line: ChartLine, x: float) -> int | None:
    """Return the point of a line that is nearest to an x, or None if the line has none."""
    known = np.flatnonzero(np.isfinite(line.x))
    if not known.size:
        return None
    distances = np.abs(line.x[known] - x)
    return int(known[np.argmin(distances)])


def _x_text(x: float, drawing: Drawing, view: ChartView) -> str:
    if drawing.options.clock:
        return duration(x)
    if view.along is XAxis.EPOCH:
        return f"epoch {x:.2f}"
    return f"{view.along.value} {x:.0f}"


def _point_text(line: ChartLine, point: int, kind: ChartKind, brevity: int) -> str:
    points = line.points
    low, mean, high = (
        format_value(float(values[point]), kind.unit)
        for values in (points.low, points.mean, points.high)
    )
    if kind.stacked and brevity == len(SPREADS) - 1:
        return f"{palette.sign(line.series)}{mean}"
    is_spread = line.row < 0 and points.low[point] != points.high[point]
    if kind.stacked or not is_spread:
        return f"{line.name} {mean}"
    return SPREADS[brevity].format(
        mean=mean,
        low=low,
        high=high,
        scope="rank" if SERIES[line.series].scope is Scope.RANK else "host",
        lowest=points.lowest[point],
        highest=points.highest[point],
    )


def next_cursor(drawing: Drawing, view: ChartView, axis: Axis, direction: int) -> float | None:
    """Return where the cursor goes after a key, or None if there is no point in view.

    It goes to the next point that is a little away, and at first to the last point.
    """
    if not drawing.lines:
        return None
    x = drawing.lines[0].x
    x = x[np.isfinite(x) & (x >= axis.low) & (x <= axis.high)]
    if not x.size:
        return None
    if view.cursor is None:
        return float(x[-1])
    cursor_share = min(max(axis.share_of(max(view.cursor, axis.low)), 0.0), 1.0)
    distances = direction * (axis.shares_of(x) - cursor_share)
    beyond = x[distances > 1 / CURSOR_STEPS / 2]
    if not beyond.size:
        return float(x[-1] if direction > 0 else x[0])
    return float(beyond[0] if direction > 0 else beyond[-1])


# Names


def legend(drawing: Drawing, view: ChartView, room: int) -> ColouredTexts:
    """Return the names of the curves, as many as fit. An ellipsis stands for the others."""
    if view.mode is CurveMode.MEAN and len(drawing.lines) < 2:
        return _legend_of_mean(drawing, room)
    colours = {curve.label: curve.colour for curve in drawing.curves}
    sign = palette.sign("curve")
    # Among others, a name without a space belongs to its sign at a glance.
    gap = " " if len(drawing.lines) == 1 else ""
    names = [(f"{sign}{gap}{line.name} ", colours.get(line.name, -1)) for line in drawing.lines]
    if not drawing.hidden and _total_length(names) <= room + 1:
        return names
    fitting: ColouredTexts = []
    for name in names:
        if fitting and _total_length([*fitting, name]) >= room:
            break
        fitting.append(name)
    return [*fitting, ("…", -1)]


def _legend_of_mean(drawing: Drawing, room: int) -> ColouredTexts:
    """Return the signs of a mean and its band, and the newest value of tests.

    With little room, the mean goes first, whose end has a name, and the band last of all that has
    no other name.
    """
    means: ColouredTexts = []
    band: ColouredTexts = []
    line = drawing.lines[0] if drawing.lines else None
    if line and line.row < 0 and len(line.points):
        if any(curve.is_raw for curve in drawing.curves):
            means += [(f"{palette.sign('raw')} step", LINE)]
        average = "mean"
        if drawing.smoothing:
            average = _average(drawing) if drawing.is_headline else "ema"
        means += [(f"{palette.sign('curve')} {average}", LINE)]
        if any(curve.band for curve in drawing.curves):
            band = [(f"{palette.sign('band')} {drawing.band_name}", LINE)]
    tests, brief_tests = _legend_of_tests(drawing)
    choices = (
        [*means, *band, *tests],
        [*means[1:], *band, *tests],
        [*band, *tests],
        [*band, *brief_tests],
        tests,
        brief_tests,
    )
    fitting = (parts for parts in map(_spaced, choices) if _total_length(parts) <= room)
    return next(fitting, [])


def _legend_of_tests(drawing: Drawing) -> tuple[ColouredTexts, ColouredTexts]:
    """Return the newest value of tests, and if it is the best, that; and the same in brief. An
    earlier best one has its value beside its sign in the chart."""
    # The header's best is the accuracy, and that test may have had another loss.
    best_word = "best" if drawing.options.unit is Unit.SHARE else "lowest"
    for curve in drawing.curves:
        if curve.colour == TEST:
            test_text = f"{curve.end_name} {curve.end_value}"
            if not curve.signed or curve.end_value != drawing.best_test:
                return [(test_text, TEST)], [(test_text, TEST)]
            newest = f"{palette.sign('test')} {test_text}"
            return [(f"{newest} ({best_word})", TEST)], [(newest, TEST)]
    return [], []


def _spaced(parts: ColouredTexts) -> ColouredTexts:
    """Return the same texts with two spaces between them."""
    return [*((f"{text}  ", colour) for text, colour in parts[:-1]), *parts[-1:]]


def _total_length(parts: ColouredTexts) -> int:
    return sum(len(text) for text, _ in parts)


def _view_notes(drawing: Drawing, view: ChartView) -> Iterator[str]:
    """Yield how a chart is drawn, as far as that is not the usual way."""
    if drawing.options.log_y:
        yield "log"
    if view.log_x:
        yield "log x"
    if not view.is_whole:
        yield "live" if view.tail else "zoom"
