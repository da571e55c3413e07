"""From where to where the axes of a chart go: numpy only, no terminal."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from tui.charts.axis import HUGE, Axis
from tui.charts.raster import Curve, Floats
from tui.kit.inks import TEST

PEAK_QUANTILES = (0.01, 0.99)
"""Where peaks are cut off, the limits lie at these quantiles of the values."""
MIN_GAIN = 1.3
"""Peaks are cut off only if the chart becomes at least this many times lower."""
MIN_POINTS_TO_CUT = 16
"""Curves with fewer points keep all of them."""
MAX_SAMPLED_VALUES = 8192
"""Quantiles are taken of about so many values at most."""
MIN_DECADES = 1.5
"""Powers of ten from which on a linear axis would show only the greatest values."""
MIN_DECADES_IF_LOW = 1.0
"""The same where a chart has few rows."""


class _VisibleValues(NamedTuple):
    """The finite values of a curve, or of an edge of its band, that are in view."""

    x: Floats
    values: Floats
    is_complete: bool
    """Whether none of them may be cut off as a peak."""


def x_limits(curves: Sequence[Curve], log: bool = False) -> tuple[float, float] | None:
    """Return the least and the greatest x, or None if there is no point.

    On a log axis, only an x over 0 counts.
    """
    ends = []
    for curve in curves:
        fits = np.isfinite(curve.x)
        if log:
            fits &= curve.x > 0
        x = curve.x[fits]
        if x.size:
            ends += [float(x.min()), float(x.max())]
    return (min(ends), max(ends)) if ends else None


def y_limits(
    curves: Sequence[Curve], log: bool, x_axis: Axis | None = None, warm: float | None = None
) -> tuple[float, float] | None:
    """Return the lowest and the highest value of all curves and bands, or None.

    `x_axis` restricts that to what is in view. With `warm`, the limits leave out peaks and
    everything before the x `warm`, if much is gained by that.
    """
    parts = [part for curve in curves for part in _visible_values(curve, log, x_axis)]
    if not parts:
        return None
    low = float(min(part.values.min() for part in parts))
    high = float(max(part.values.max() for part in parts))
    if warm is None:
        return low, high
    without_peaks = _limits_without_peaks(parts, warm)
    if without_peaks is None:
        return low, high
    gains_much = _size((low, high), log) > MIN_GAIN * _size(without_peaks, log)
    return without_peaks if gains_much else (low, high)


def count_decades(values: Floats, *, with_peaks: bool = False) -> float:
    """Return how many powers of ten lie between values, with or without peaks: 0 if some are not
    over 0."""
    known = values[np.isfinite(values)]
    sampled = known[:: 1 + known.size // MAX_SAMPLED_VALUES]
    if not sampled.size:
        return 0.0
    low, high = (known.min(), known.max()) if with_peaks else _quantiles(sampled)
    return math.log10(high) - math.log10(low) if low > 0 else 0.0


def _limits_without_peaks(
    parts: Sequence[_VisibleValues], warm: float
) -> tuple[float, float] | None:
    """Return limits that leave out peaks, or None if there are too few values to judge."""
    stride = 1 + sum(part.values.size for part in parts) // MAX_SAMPLED_VALUES
    samples = [np.empty(0)]
    complete_values = []
    for part in parts:
        if part.is_complete:
            is_warm = part.x >= warm
            values = part.values[is_warm] if is_warm.any() else part.values
            complete_values += [values.min(), values.max()]
        else:
            is_warm = part.x[::stride] >= warm
            samples.append(part.values[::stride][is_warm])
    sampled = np.concatenate(samples)
    # Of so few points, each is more than the hundredth that a quantile cuts off.
    if sampled.size < MIN_POINTS_TO_CUT:
        return None
    low, high = _quantiles(sampled)
    return float(min([low, *complete_values])), float(max([high, *complete_values]))


def _quantiles(values: Floats) -> tuple[float, float]:
    """Return the quantiles between which most of these values lie, as `np.quantile` does, which
    would load numpy's masked arrays before the first frame."""
    shares = np.linspace(0, 1, values.size)
    low, high = np.interp(PEAK_QUANTILES, shares, np.sort(values))
    return float(low), float(high)


def _size(limits: tuple[float, float], log: bool) -> float:
    low, high = limits
    if log:
        return math.log10(high) - math.log10(low)
    return min(high, HUGE) - max(low, -HUGE)


def _visible_values(curve: Curve, log: bool, x_axis: Axis | None) -> Iterator[_VisibleValues]:
    in_view = x_axis.has(curve.x) if x_axis else np.ones(curve.x.shape, bool)
    all_values = (curve.mean, curve.low, curve.high) if curve.band else (curve.mean,)
    for values in all_values:
        fits = in_view & np.isfinite(values)
        if log:
            fits &= values > 0
        if fits.any():
            is_complete = bool(curve.signed) or curve.colour == TEST
            yield _VisibleValues(curve.x[fits], values[fits], is_complete)
