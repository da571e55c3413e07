"""From where to where the axes of a chart go: numpy only, no terminal."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

from tui.charts.axis import HUGE, Axis
from tui.charts.raster import Curve, Floats

CUT = (0.01, 0.99)
"""The shares of the values between which the limits of a chart lie that cuts off peaks."""
GAIN = 1.3
"""How many times lower a chart becomes at least where peaks are cut off."""
FEW = 16
"""Points of a curve of which none is cut off."""
SAMPLE = 8192
"""Values of which the shares are taken, at most."""


def x_limits(curves: Sequence[Curve], log: bool = False) -> tuple[float, float] | None:
    """The least and the greatest x, with `log` of those over 0; None where there is no point."""
    fit = [curve.x[np.isfinite(curve.x) & ((curve.x > 0) | (not log))] for curve in curves]
    found = [x for x in fit if x.size]
    if not found:
        return None
    return float(min(x.min() for x in found)), float(max(x.max() for x in found))


def y_limits(
    curves: Sequence[Curve], log: bool, along: Axis | None = None, warm: float | None = None
) -> tuple[float, float] | None:
    """The lowest and highest finite value of all curves and bands, for `log` of those over 0; None
    where there is none. `along`: of what is in view.

    `warm`: without peaks, if much is gained by that, and without what is before that x.
    """
    found = [part for curve in curves for part in _parts(curve, log, along)]
    if not found:
        return None
    every = [one for _, one, _ in found]
    whole = float(min(one.min() for one in every)), float(max(one.max() for one in every))
    if warm is None:
        return whole
    stride = 1 + sum(one.size for one in every) // SAMPLE
    late = [one[::stride][x[::stride] >= warm] for x, one, single in found if not single]
    lasting = np.concatenate([np.empty(0), *late])
    if lasting.size < FEW:
        return whole
    low, high = np.quantile(lasting, CUT)
    awaited = [end for _, one, single in found if single for end in (one.min(), one.max())]
    low = float(min([low, *awaited]))
    high = float(max([high, *awaited]))
    return (low, high) if _size(whole, log) > GAIN * _size((low, high), log) else whole


def _size(span: tuple[float, float], log: bool) -> float:
    low, high = (math.log10(one) if log else max(-HUGE, min(one, HUGE)) for one in span)
    return high - low


def _parts(curve: Curve, log: bool, along: Axis | None) -> Iterator[tuple[Floats, Floats, bool]]:
    """The x and the values of a curve, and of its band, that are to be seen; whether they are
    single points."""
    inside = np.ones(curve.x.shape, bool)
    if along is not None:
        places = along.places(np.where(np.isfinite(curve.x), curve.x, np.nan))
        inside = (places >= 0) & (places <= 1)
    for values in (curve.mean, curve.low, curve.high) if curve.band else (curve.mean,):
        fit = inside & np.isfinite(values) & ((values > 0) | (not log))
        if fit.any():
            yield curve.x[fit], values[fit], curve.single
