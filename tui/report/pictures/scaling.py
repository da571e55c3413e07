"""The reference's figures of scaling: seconds per iteration, and speed-up beside the ideal line,
against the number of nodes; a line per method."""

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

Lines = Mapping[str, Sequence[tuple[int, Interval]]]
"""By name, the points of a line: nodes and a value."""


def pictures(rows: Sequence[Timed], baseline: Timed | None) -> list[Picture]:
    """Both pictures; none where no method ran on several numbers of nodes."""
    times = _lines(rows, baseline, lambda row: row.seconds)
    if not times:
        return []
    found = [
        Picture(
            "scaling",
            "Seconds per iteration by the number of nodes",
            f"A line per method. Seconds per iteration {_said(times, seconds)}.",
            lambda: _draw(times, "seconds per iteration"),
        )
    ]
    speed_ups = _lines(rows, baseline, lambda row: row.speed_up)
    if speed_ups:
        found.append(
            Picture(
                "speed-up",
                "Speed-up by the number of nodes, beside the ideal",
                f"A line per method, and one that is ideal. Speed-up {_said(speed_ups, number)}.",
                lambda: _draw(speed_ups, "speed-up", ideal=True),
            )
        )
    return found


def _lines(
    rows: Sequence[Timed], baseline: Timed | None, of: Callable[[Timed], Interval | None]
) -> Lines:
    """The lines of several points. That of the baseline begins the others, where it has fewer nodes
    and is not on one itself."""
    found: dict[str, dict[int, Interval]] = {}
    for row in rows:
        value = of(row)
        if value:
            found.setdefault(row.group.line, {})[row.group.nodes] = value
    first = of(baseline) if baseline else None
    if baseline and first and len(found.get(baseline.group.line, ())) == 1:
        for points in found.values():
            if baseline.group.nodes < min(points):
                points[baseline.group.nodes] = first
    own = {baseline.group.line} if baseline else set()
    real = {row.group.line for row in rows if _varies(rows, row)} or own
    return {line: sorted(points.items()) for line, points in found.items() if line in real}


def _varies(rows: Sequence[Timed], row: Timed) -> bool:
    """Whether the line of a group has several numbers of nodes."""
    return len({one.group.nodes for one in rows if one.group.line == row.group.line}) > 1


def _said(lines: Lines, written: Callable[[float], str]) -> str:
    return "; ".join(
        f"{line}: " + ", ".join(f"{written(value.value)} on {nodes}" for nodes, value in points)
        for line, points in lines.items()
    )


def _draw(lines: Lines, up: str, ideal: bool = False) -> Figure:
    series = [*map(label, lines), *(["ideal"] if ideal else [])]
    figure, axes = canvas("nodes", up, series=series)
    most = max(nodes for points in lines.values() for nodes, _ in points)
    for place, (line, points) in enumerate(lines.items()):
        _line(axes, Look.of(place), label(line), points)
    if ideal:
        axes.errorbar([1, most], [1, most], color=INK, linewidth=1, linestyle=":", label="ideal")
    axes.set_ylim(bottom=0)
    whole(axes)
    legend(figure, axes)
    return figure


def _line(axes: Axes, look: Look, name: str, points: Sequence[tuple[int, Interval]]) -> None:
    across = [nodes for nodes, _ in points]
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
