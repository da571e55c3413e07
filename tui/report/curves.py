"""Curves of groups: the mean over runs, with the range of the runs as a band."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.figure import Figure

from remote.format import number
from remote.metrics.points import Points
from remote.metrics.run import RunFigures
from remote.metrics.steps import Floats
from tui.report.document import ReportPicture
from tui.report.picture_style import (
    SeriesStyle,
    add_legend,
    empty_chart,
    mark_whole_numbers,
    shorten_label,
)

MOST_POINTS = 160
"""Points of a curve at most: more are not seen."""
MOST_MARKERS = 8
STEP = "step"
"""The title of an axis that has whole numbers only."""


@dataclass(frozen=True, eq=False)
class MeanCurve:
    """A curve with the range over runs. Of a single run, the range is the curve itself."""

    label: str
    x: Floats
    middle: Floats
    low: Floats
    high: Floats
    runs: int


def smooth(values: Floats) -> Floats:
    """Return the means of neighbours, leaving out what is not finite.

    Each mean is over so many that about `MOST_POINTS` of them are independent.
    """
    if not len(values):
        return values
    width = max(1, len(values) // MOST_POINTS)
    is_known = np.isfinite(values)
    window = np.ones(width)
    sums = np.convolve(np.where(is_known, values, 0.0), window, "same")
    counts = np.convolve(is_known.astype(float), window, "same")
    return np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)


def single_curve(label: str, x: Floats, values: Floats) -> MeanCurve:
    """Return the curve of one run."""
    return MeanCurve(label, x, values, values, values, 1)


def average_curve(
    label: str, runs: Sequence[RunFigures], points_of: Callable[[RunFigures], Points]
) -> MeanCurve | None:
    """Return the curve of a group; None if no run has a point."""
    all_points = [points_of(run) for run in runs]
    points = [(x, values) for x, values in all_points if len(x)]
    if not points:
        return None
    grid = _common_grid([x for x, _ in points])
    values = np.array([_interpolate(grid, x, smooth(values)) for x, values in points])
    is_known = np.isfinite(values)
    counts = is_known.sum(axis=0)
    has_value = counts > 0
    sums = np.where(is_known, values, 0.0).sum(axis=0)
    lows = np.where(is_known, values, np.inf).min(axis=0)
    highs = np.where(is_known, values, -np.inf).max(axis=0)
    return MeanCurve(
        label,
        grid,
        middle=np.where(has_value, sums / np.maximum(counts, 1), np.nan),
        low=np.where(has_value, lows, np.nan),
        high=np.where(has_value, highs, np.nan),
        runs=len(points),
    )


def _common_grid(xs: Sequence[Floats]) -> Floats:
    """Return where a curve has its points: from where the last run begins to where the first one
    ends, so that all runs count at each."""
    start = max(x[0] for x in xs)
    end = min(x[-1] for x in xs)
    points: Floats = np.unique(np.concatenate(xs))
    points = points[(points >= start) & (points <= end)]
    if 1 < len(points) <= MOST_POINTS:
        return points
    return np.linspace(start, end, MOST_POINTS) if end > start else np.array([start])


def _interpolate(grid: Floats, x: Floats, values: Floats) -> Floats:
    is_known = np.isfinite(values)
    if not is_known.any():
        return np.full(len(grid), np.nan)
    # Beyond its last known value a run does not count.
    return np.asarray(np.interp(grid, x[is_known], values[is_known], right=np.nan))


# The picture --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class CurvePicture:
    """The frame of a picture of curves."""

    name: str
    title: str
    x_title: str
    y_title: str
    format_value: Callable[[float], str] = number
    least_top: float | None = None
    """With it the chart begins at 0 and goes up to that at least."""

    def of(self, curves: Sequence[MeanCurve]) -> ReportPicture:
        """Return the picture of these curves."""
        ends = "; ".join(f"{curve.label} {self._describe_ends(curve)}" for curve in curves)
        alt = f"Curves of {self.y_title} by {self.x_title}. From first to last: {ends}."
        if any(curve.runs > 1 for curve in curves):
            alt += " Bands are the range over runs."
        return ReportPicture(self.name, self.title, alt, lambda: self._draw(curves))

    def _describe_ends(self, curve: MeanCurve) -> str:
        known = curve.middle[np.isfinite(curve.middle)]
        if not known.size:
            return "no finite value"
        first = self.format_value(float(known[0]))
        last = self.format_value(float(known[-1]))
        return f"{first} to {last} at {number(float(curve.x[-1]))}"

    def _draw(self, curves: Sequence[MeanCurve]) -> Figure:
        labels = [shorten_label(curve.label) for curve in curves]
        figure, axes = empty_chart(self.x_title, self.y_title, series=labels)
        for index, curve in enumerate(curves):
            style = SeriesStyle.of(index)
            axes.plot(
                curve.x,
                curve.middle,
                color=style.colour,
                linestyle=style.dashes,
                marker=style.marker,
                markevery=_choose_markers(len(curve.x)),
                markersize=5,
                label=labels[index],
            )
            if curve.runs > 1:
                axes.fill_between(
                    curve.x, curve.low, curve.high, color=style.colour, alpha=0.18, lw=0
                )
        if not any(np.isfinite(curve.middle).any() for curve in curves):
            axes.text(0.5, 0.5, "no finite value", transform=axes.transAxes, ha="center")
        if self.x_title == STEP:
            mark_whole_numbers(axes)
        if self.least_top is not None:
            axes.set_ylim(0, max(self.least_top, 1.05 * axes.dataLim.y1))
        if len(curves) > 1:
            add_legend(figure, axes)
        return figure


def _choose_markers(count: int) -> list[int]:
    """Return which of so many points have a marker."""
    places = np.linspace(0, max(0, count - 1), min(count, MOST_MARKERS))
    return list(dict.fromkeys(map(int, places)))
