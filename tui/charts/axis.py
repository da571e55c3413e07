"""Where an axis begins and ends, and its ticks at nice numbers. Pure; knows neither curves nor
cells."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from remote.format import duration

HUGE = 1e150
"""Values are clipped to plus and minus this, so that differences and squares stay finite."""
TINY = 1e-150
"""On a log axis smaller values lie here."""
FEWEST = 3
"""Ticks that a log axis may have, however short it is."""
CLOCK_STEPS = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 28800, 86400)


@dataclass(frozen=True)
class Axis:
    """A range of values, `low` < `high`. `log`: positions are those of the logarithms, and both
    ends are over 0."""

    low: float
    high: float
    log: bool = False

    @property
    def ends(self) -> tuple[float, float]:
        """`low` and `high` as positions: their decimal logarithms on a log axis."""
        return (math.log10(self.low), math.log10(self.high)) if self.log else (self.low, self.high)

    def at(self, value: float) -> float:
        """Where a value lies: 0 at `low`, 1 at `high`."""
        low, high = self.ends
        return ((math.log10(value) if self.log else value) - low) / (high - low)

    def places(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Where many values lie, see `at`; NaN for those with no place on a log axis."""
        low, high = self.ends
        if self.log:
            values = np.log10(np.where(values > 0, values, np.nan))
        return np.asarray((values - low) / (high - low))

    def value(self, place: float) -> float:
        """The value that lies at this place."""
        low, high = self.ends
        position = low + place * (high - low)
        return float(10.0**position) if self.log else position


def linear(low: float, high: float, count: int) -> Axis:
    """The axis from `low` to `high`, both rounded outwards to multiples of half of a nice step of
    which `count` fit in."""
    low, high = _apart(low, high)
    step = nice_step((high - low) / max(2 * count, 1))
    return Axis(*_apart(math.floor(low / step) * step, math.ceil(high / step) * step))


def logarithmic(low: float, high: float) -> Axis:
    """The log axis from `low` to `high` (both > 0), a little wider."""
    low = min(max(low, TINY), HUGE)
    high = min(max(high, TINY), HUGE)
    margin = max(0.02, 0.04 * math.log10(high / low))
    return Axis(low / 10**margin, high * 10**margin, log=True)


def exact(low: float, high: float) -> Axis:
    """The axis from `low` to `high`."""
    return Axis(*_apart(low, high))


def divided(low: float, high: float, columns: int) -> Axis:
    """An axis of steps or seconds in so many columns, from `low` on. It seldom moves, and what is
    drawn stays where it is: columns begin at multiples of their width, which is one of 4 to 7 times
    a power of two."""
    low, high = _apart(low, high)
    columns = max(columns, 1)
    least = (high - low) / columns
    grain = 2.0 ** (math.floor(math.log2(least)) - 2)
    factor = math.ceil(least / grain)
    while True:
        width = factor * grain
        begin = math.floor(low / width) * width
        end = begin + columns * width
        if end > high or not math.isfinite(end) or factor > 16:
            return Axis(*_apart(begin, end))
        factor += 1


def _apart(low: float, high: float) -> tuple[float, float]:
    """The same range, or a small one around its only value."""
    low = max(-HUGE, min(low, HUGE))
    high = max(-HUGE, min(high, HUGE))
    if high - low > max(abs(low), abs(high)) * 1e-9 + 1e-150:
        return low, high
    half = max(abs(low) * 0.05, 1e-140) if low else 0.5
    return low - half, low + half


def nice_step(least: float) -> float:
    """The smallest of 1, 2, 2.5, 5 times a power of ten that is not under `least` (> 0)."""
    power = 10.0 ** math.floor(math.log10(least))
    return next(
        factor * power for factor in (1, 2, 2.5, 5, 10, 100) if factor * power >= least * (1 - 1e-9)
    )


def ticks(axis: Axis, count: int, whole: bool = False) -> list[tuple[float, str]]:
    """At most about `count` nice values on the axis, with their labels. `whole`: only whole
    numbers."""
    if axis.log and (found := _log_ticks(axis, count)):
        return [(value, label(value)) for value in found]
    step = nice_step((axis.high - axis.low) / max(count, 1))
    if whole:
        step = max(1.0, math.ceil(step))
    return [
        (value, label(value, step)) for value in _multiples(axis, step) if value > 0 or not axis.log
    ]


def clock_ticks(axis: Axis, count: int) -> list[tuple[float, str]]:
    """At most about `count` round times, in seconds, with labels such as 45 s, 1:30 and 2:00:00."""
    least = (axis.high - axis.low) / max(count, 1)
    step = next((float(step) for step in CLOCK_STEPS if step >= least), nice_step(least))
    found = _multiples(axis, step)
    return [(value, duration(value)) for value in found if value > 0 or not axis.log]


def _multiples(axis: Axis, step: float) -> list[float]:
    first = math.ceil(axis.low / step - 1e-6)
    last = math.floor(axis.high / step + 1e-6)
    return [index * step for index in range(first, min(last, first + 100) + 1)]


def _log_ticks(axis: Axis, count: int) -> list[float]:
    """Powers of ten, every so many, or with multiples of them; nothing where the axis is too short
    for that."""
    low = math.floor(axis.ends[0])
    high = math.ceil(axis.ends[1])
    stride = max(1, math.ceil((high - low) / max(count, 1)))
    powers = [10.0**power for power in range(low, high + 1) if power % stride == 0]
    fine = [
        [factor * 10.0**power for power in range(low, high + 1) for factor in factors]
        for factors in (range(1, 10), (1, 2, 5))
    ]
    for candidates in (*(fine if high - low <= 4 else ()), powers):
        inside = [value for value in candidates if axis.low <= value <= axis.high]
        if 2 <= len(inside) <= max(count, FEWEST):
            return inside
    return []


def label(value: float, step: float = 0.0) -> str:
    """A tick's number, short, with the decimals that `step` between ticks needs: 0.25, 12k,
    3e-05."""
    size = max(abs(value), step)
    if size == 0 or (value == 0 and step):
        return "0"
    if size >= 1e13 or size < 1e-4:
        return f"{value:.3g}"
    for limit, divisor, suffix in ((1e9, 1e9, "G"), (1e6, 1e6, "M"), (1e4, 1e3, "k")):
        if size >= limit:
            return f"{value / divisor:.4g}{suffix}"
    if not step:
        return f"{value:.4g}"
    decimals = max(0, -math.floor(math.log10(step)) + (f"{step:.1e}"[2] != "0"))
    return f"{value:.{decimals}f}"
