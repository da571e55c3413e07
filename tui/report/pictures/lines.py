"""Curves of groups, with bands over their runs."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from matplotlib.figure import Figure

from remote.format import number
from tui.report.document import Picture
from tui.report.numbers.curves import Curve
from tui.report.pictures.style import Look, canvas, label, legend, spaced, whole

STEP = "step"
"""The axis that has whole numbers only."""


def picture(
    name: str,
    title: str,
    across: str,
    up: str,
    curves: Sequence[Curve],
    written: Callable[[float], str] = number,
    least_top: float | None = None,
) -> Picture:
    """The picture of these curves. `written` writes their values. With `least_top` the chart begins
    at 0 and goes up to that at least."""
    said = "; ".join(f"{one.label} {_ends(one, written)}" for one in curves)
    band = " Bands are the range over runs." if any(one.runs > 1 for one in curves) else ""
    return Picture(
        name,
        title,
        f"Curves of {up} by {across}. From first to last: {said}.{band}",
        lambda: _draw(across, up, curves, least_top),
    )


def _ends(one: Curve, written: Callable[[float], str]) -> str:
    known = one.middle[np.isfinite(one.middle)]
    if not known.size:
        return "no finite value"
    end = one.along[-1]
    return f"{written(float(known[0]))} to {written(float(known[-1]))} at {number(float(end))}"


def _draw(across: str, up: str, curves: Sequence[Curve], least_top: float | None) -> Figure:
    figure, axes = canvas(across, up, series=[label(one.label) for one in curves])
    for place, one in enumerate(curves):
        look = Look.of(place)
        axes.plot(
            one.along,
            one.middle,
            color=look.colour,
            linestyle=look.dashes,
            marker=look.marker,
            markevery=spaced(len(one.along), 8),
            markersize=5,
            label=label(one.label),
        )
        if one.runs > 1:
            axes.fill_between(one.along, one.low, one.high, color=look.colour, alpha=0.18, lw=0)
    if not any(math.isfinite(value) for one in curves for value in one.middle):
        axes.text(0.5, 0.5, "no finite value", transform=axes.transAxes, ha="center")
    if across == STEP:
        whole(axes)
    if least_top is not None:
        axes.set_ylim(0, max(least_top, 1.05 * axes.dataLim.y1))
    if len(curves) > 1:
        legend(figure, axes)
    return figure
