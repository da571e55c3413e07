"""Seconds per iteration against the axis of a study that has quantities, such as nodes or links; a
line per method. Against nodes, speed-up beside the ideal line, too, as the reference has them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from remote.format import number, seconds
from remote.statistics.interval import Interval
from tui.report.document import Picture
from tui.report.numbers.timing import Timed
from tui.report.pictures.style import INK, Look, canvas, label, legend, whole
from tui.report.subject import Along

Lines = Mapping[str, Sequence[tuple[float, Interval]]]
"""By name, the points of a line: the place on the axis and a value."""
WIDE = 20
"""How many times as large as the least the greatest value is where the scale is logarithmic."""


def pictures(rows: Sequence[Timed], baseline: Timed | None, along: Along) -> list[Picture]:
    """The pictures; none where no method ran at several places of the axis."""
    base = None if along.marks else baseline
    times = _lines(rows, base, lambda row: row.seconds)
    if not times:
        return []
    by = along.name if along.marks else "the number of nodes"
    found = [
        Picture(
            "scaling",
            f"Seconds per iteration by {by}",
            f"Lines{_bounds(times)}. Seconds per iteration {_said(times, seconds, along)}.",
            lambda: _draw(times, along, "seconds per iteration"),
        )
    ]
    speed_ups = _lines(rows, base, lambda row: None if row.speed_up_doubt else row.speed_up)
    if speed_ups and not along.marks:
        found.append(
            Picture(
                "speed-up",
                f"Speed-up by {by}, beside the ideal",
                f"Lines{_bounds(speed_ups)}, and one that is ideal. "
                f"Speed-up {_said(speed_ups, number, along)}.{_left_out(rows)}",
                lambda: _draw(speed_ups, along, "speed-up", ideal=True),
            )
        )
    return found


def _left_out(rows: Sequence[Timed]) -> str:
    """That figures are left out which nobody should use."""
    is_any = any(row.speed_up_doubt for row in rows)
    return " Speed-ups that are in doubt are left out." if is_any else ""


def _lines(
    rows: Sequence[Timed], baseline: Timed | None, of: Callable[[Timed], Interval | None]
) -> Lines:
    """The lines of several measured points. That of the baseline begins the others, where it has
    fewer nodes and is not on one itself."""
    found: dict[str, dict[float, Interval]] = {}
    for row in rows:
        value = of(row)
        if value and math.isfinite(row.group.at):
            found.setdefault(row.group.line, {})[row.group.at] = value
    first = of(baseline) if baseline else None
    if baseline and first and len(found.get(baseline.group.line, ())) == 1:
        for points in found.values():
            if baseline.group.at < min(points):
                points[baseline.group.at] = first
    real = {row.group.line for row in rows if _varies(rows, row)}
    return {line: sorted(points.items()) for line, points in found.items() if line in real}


def _varies(rows: Sequence[Timed], row: Timed) -> bool:
    """Whether the line of a group has several places."""
    return len({one.group.at for one in rows if one.group.line == row.group.line}) > 1


def _bounds(lines: Lines) -> str:
    """Whether there are intervals to be seen."""
    values = [value for points in lines.values() for _, value in points]
    return " with 95% intervals" if any(value.low < value.high for value in values) else ""


def _said(lines: Lines, written: Callable[[float], str], along: Along) -> str:
    def point(at: float, value: Interval) -> str:
        where = f"at {along.marks[int(at)]}" if along.marks else f"on {at:.0f}"
        return f"{written(value.value)} {where}"

    return "; ".join(
        f"{line}: {', '.join(point(at, value) for at, value in points)}"
        for line, points in lines.items()
    )


def _draw(lines: Lines, along: Along, up: str, ideal: bool = False) -> Figure:
    series = [*map(label, lines), *(["ideal"] if ideal else [])]
    figure, axes = canvas(along.name, up, series=series)
    for place, (line, points) in enumerate(lines.items()):
        _line(axes, Look.of(place), label(line), points)
    if ideal:
        most = max(at for points in lines.values() for at, _ in points)
        nodes = range(1, int(most) + 1)
        axes.errorbar(nodes, nodes, color=INK, linewidth=1, linestyle=":", label="ideal")
    values = [value.value for points in lines.values() for _, value in points]
    if max(values) > WIDE * min(values):
        axes.set_yscale("log")
    else:
        axes.set_ylim(bottom=0)
    if along.marks:
        axes.set_xticks(range(len(along.marks)), along.marks)
    else:
        whole(axes)
    if len(series) > 1:
        legend(figure, axes)
    return figure


def _line(axes: Axes, look: Look, name: str, points: Sequence[tuple[float, Interval]]) -> None:
    across = [at for at, _ in points]
    values = [value.value for _, value in points]
    bounds = [
        [value.value - value.low if math.isfinite(value.low) else 0 for _, value in points],
        [value.high - value.value if math.isfinite(value.high) else 0 for _, value in points],
    ]
    axes.errorbar(
        across,
        values,
        bounds,
        color=look.colour,
        marker=look.marker,
        linestyle=look.dashes,
        capsize=3,
        label=name,
    )
