"""Moving averages of values that are noisy: numpy only."""

from __future__ import annotations

import math

import numpy as np

from remote.run.series.downsampling import Floats
from tui.charts.axis import bound

MIN_TURNS = 3
MIN_TURN_SHARE = 0.2
"""Values are noisy if they turn at so many of them: of pure noise, at two of three."""
SMOOTHED_STEPS = 500
"""In runs of up to so many steps, smoothing counts single steps."""


def is_noisy(values: Floats) -> bool:
    """Return True if values go up and down so often that a trend is hard to see."""
    known = values[np.isfinite(values)]
    rises = np.sign(np.diff(known))
    turns = np.count_nonzero(rises[1:] * rises[:-1] < 0)
    return bool(turns >= max(MIN_TURNS, MIN_TURN_SHARE * known.size))


def smooth(steps: Floats, values: Floats, weight: float) -> Floats:
    """Return the exponential moving average of values.

    What lies n steps back counts `weight` to the power of n. In long runs, what lies n times as
    many steps back does. NaN stays a gap, and the average goes on behind it.
    """
    known = bound(values)
    if not weight or not len(steps):
        return known
    size = max(float(steps[-1] - steps[0]) / SMOOTHED_STEPS, 1.0)
    unit = 2.0 ** math.floor(math.log2(size))  # changes seldom, so that what is drawn stays
    fades = weight ** (np.diff(steps, prepend=steps[:1]).clip(0) / unit)
    total = count = 0.0
    averages = []
    for value, fade in zip(known.tolist(), fades.tolist(), strict=True):
        total *= fade
        count *= fade
        is_known = not math.isnan(value)
        if is_known:
            total += value
            count += 1
        # Divided by all weights so far; otherwise the average would begin near 0.
        averages.append(total / count if is_known else math.nan)
    return np.array(averages)


def newest_known(values: Floats) -> float:
    """Return the last of the values that is a number, or NaN."""
    known = values[np.isfinite(values)]
    return float(known[-1]) if known.size else math.nan
