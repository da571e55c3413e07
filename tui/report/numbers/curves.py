"""Curves of groups: the mean over runs, with the range of the runs as a band."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from remote.metrics.points import Points
from remote.metrics.run import RunFigures
from remote.metrics.steps import Floats

POINTS = 160
"""Points of a curve at most: more are not seen."""


@dataclass(frozen=True, eq=False)
class Curve:
    """A curve. `low` and `high` are the range over runs; equal to `middle` of a single run."""

    label: str
    along: Floats
    middle: Floats
    low: Floats
    high: Floats
    runs: int


def smoothed(values: Floats) -> Floats:
    """The means of neighbours, so many that about `POINTS` of them are independent. What is not
    finite is left out."""
    if not len(values):
        return values
    width = max(1, len(values) // POINTS)
    known = np.isfinite(values)
    window = np.ones(width)
    sums = np.convolve(np.where(known, values, 0.0), window, "same")
    counts = np.convolve(known.astype(float), window, "same")
    return np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)


def curve(
    label: str, runs: Sequence[RunFigures], points: Callable[[RunFigures], Points]
) -> Curve | None:
    """The curve of a group; None where no run has a point."""
    found = [points(run) for run in runs]
    found = [(along, values) for along, values in found if len(along)]
    if not found:
        return None
    grid = _grid([along for along, _ in found])
    values = np.array([_on(grid, along, smoothed(one)) for along, one in found])
    known = np.isfinite(values)
    counts = known.sum(axis=0)
    sums = np.where(known, values, 0.0).sum(axis=0)
    middle = np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)
    low = np.where(known, values, np.inf).min(axis=0)
    high = np.where(known, values, -np.inf).max(axis=0)
    low, high = (np.where(counts > 0, one, np.nan) for one in (low, high))
    return Curve(label, grid, middle, low, high, len(found))


def _grid(found: Sequence[Floats]) -> Floats:
    """Where the curve has its points: up to the end of the shortest run, so that at each point all
    runs count."""
    start = max(one[0] for one in found)
    end = min(one[-1] for one in found)
    points: Floats = np.unique(np.concatenate(found))
    points = points[(points >= start) & (points <= end)]
    if 1 < len(points) <= POINTS:
        return points
    return np.linspace(start, end, POINTS) if end > start else np.array([start])


def _on(grid: Floats, along: Floats, values: Floats) -> Floats:
    known = np.isfinite(values)
    if not known.any():
        return np.full(len(grid), np.nan)
    found = np.interp(grid, along[known], values[known], right=np.nan)
    return np.asarray(found, dtype=np.float64)
