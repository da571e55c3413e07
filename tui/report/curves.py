"""Curves of groups: the mean over runs, with the range of the runs as a band."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.figure import Figure

from remote.metrics.points import Points
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


def smooth(values: Floats) -> Floats:
    """Return the means of neighbours, leaving out what is not finite.

    Each mean is over so many that about `MOST_POINTS` of them are independent.
    """
    if not len(values):
        return values
    # As wide as a point of the picture: narrower noise is not seen.
    window_width = max(1, len(values) // MOST_POINTS)
    is_known = np.isfinite(values)
    window = np.ones(window_width)
    # A single NaN would make the means of its whole window NaN.
    window_sums = np.convolve(np.where(is_known, values, 0.0), window, "same")
    window_counts = np.convolve(is_known.astype(float), window, "same")
    return np.where(window_counts > 0, window_sums / np.maximum(window_counts, 1), np.nan)


def average_curve(label: str, all_points: Sequence[Points]) -> MeanCurve | None:
    """Return the mean of curves, such as those of runs; None if none has a point."""
    known_points = [(x, run_values) for x, run_values in all_points if len(x)]
    if not known_points:
        return None
    grid = _common_grid([x for x, _ in known_points])
    run_values = np.array(
        [_interpolate(grid, x, smooth(run_values)) for x, run_values in known_points]
    )
    with warnings.catch_warnings():
        # Where no run has a value, the mean is NaN.
        warnings.simplefilter("ignore", RuntimeWarning)
        middle = np.nanmean(run_values, axis=0)
        low = np.nanmin(run_values, axis=0)
        high = np.nanmax(run_values, axis=0)
    return MeanCurve(label, grid, middle, low, high)


def _common_grid(xs: Sequence[Floats]) -> Floats:
    """Return where a curve has its points: from where the last run begins to where the first one
    ends, so that all runs count at each."""
    grid_start = max(x[0] for x in xs)
    grid_end = min(x[-1] for x in xs)
    all_places: Floats = np.unique(np.concatenate(xs))
    all_places = all_places[(all_places >= grid_start) & (all_places <= grid_end)]
    if 1 < len(all_places) <= MOST_POINTS:
        return all_places
    if grid_end > grid_start:
        return np.linspace(grid_start, grid_end, MOST_POINTS)
    return np.array([grid_start])


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
    least_top: float | None = None
    """With it the chart begins at 0 and goes up to that at least."""

    def of(self, curves: Sequence[MeanCurve]) -> ReportPicture:
        """Return the picture of these curves."""
        labels = [curve.label for curve in curves]
        return ReportPicture(self.name, self.title, labels, lambda: self._draw(curves))

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
            # The band is the range of the runs; of a single run it has no height.
            axes.fill_between(curve.x, curve.low, curve.high, color=style.colour, alpha=0.18, lw=0)
        # An empty chart looks like a mistake of ours.
        if not any(np.isfinite(curve.middle).any() for curve in curves):
            axes.text(0.5, 0.5, "no finite value", transform=axes.transAxes, ha="center")
        if self.x_title == STEP:
            mark_whole_numbers(axes)
        if self.least_top is not None:
            axes.set_ylim(0, max(self.least_top, 1.05 * axes.dataLim.y1))
        if len(curves) > 1:
            add_legend(figure, axes)
        return figure


def _choose_markers(num_points: int) -> list[int]:
    """Return which of so many points have a marker."""
    marked_places = np.linspace(0, max(0, num_points - 1), min(num_points, MOST_MARKERS))
    return list(dict.fromkeys(map(int, marked_places)))
