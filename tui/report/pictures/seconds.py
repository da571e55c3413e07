"""Seconds per iteration of each group, with their intervals."""

from __future__ import annotations

import math
from collections.abc import Sequence

from matplotlib.figure import Figure

from remote.format import seconds
from tui.report.document import Picture
from tui.report.numbers.timing import Timed
from tui.report.pictures.style import INK, Look, canvas, names

MOST = 1.6
"""How far beyond the slowest run the chart goes: a wider interval is cut."""


def picture(rows: Sequence[Timed]) -> Picture | None:
    """The picture; None of a single group."""
    if len(rows) < 2:
        return None
    said = "; ".join(f"{row.group.label} {_said(row)}" for row in rows)
    has_intervals = any(math.isfinite(row.seconds.low) for row in rows)
    intervals = "95% intervals and " if has_intervals else ""
    return Picture(
        "seconds",
        f"Seconds per iteration, with {intervals}single runs",
        f"Dots{' with intervals' if has_intervals else ''}. Seconds per iteration: {said}.",
        lambda: _draw(rows),
    )


def _said(row: Timed) -> str:
    middle, low, high = (
        seconds(one) for one in (row.seconds.value, row.seconds.low, row.seconds.high)
    )
    return f"{middle} ({low} to {high})" if math.isfinite(row.seconds.low) else middle


def _draw(rows: Sequence[Timed]) -> Figure:
    figure, axes = canvas("seconds per iteration", height=1.1 + 0.34 * len(rows))
    end = _end(rows)
    lines = list(dict.fromkeys(row.group.line for row in rows))
    for place, row in enumerate(rows):
        look = Look.of(lines.index(row.group.line))
        value = row.seconds
        single = [run.step_seconds() for run in row.group.all]
        if math.isfinite(value.low):
            if value.high > end:
                axes.plot(end, place, ">", color=look.colour, clip_on=False)
            axes.plot([value.low, value.high], [place, place], color=look.colour, linewidth=3)
        axes.plot(single, [place + 0.22] * len(single), "|", color=INK, markersize=6)
        axes.plot(value.value, place, look.marker, color=look.colour, markeredgecolor=INK)
    names(axes, [row.group.label for row in rows])
    axes.set_xlim(0, end)
    return figure


def _end(rows: Sequence[Timed]) -> float:
    """Where the chart ends: an interval of few runs may be so wide that nothing else is seen."""
    runs = [run.step_seconds() for row in rows for run in row.group.all]
    highs = [row.seconds.high for row in rows if math.isfinite(row.seconds.high)]
    return 1.05 * max(max(runs), min(max(highs, default=0.0), MOST * max(runs)))
