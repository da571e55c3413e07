"""Where an axis begins and ends, and its ticks at round numbers. Knows no curves and no cells."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from remote.format import duration

HUGE = 1e150
"""Values are clipped to plus and minus this, so that differences and squares stay finite."""
TINY = 1e-150
"""Smaller values lie here on a log axis."""
MAX_POWERS_WITH_TICKS_BETWEEN = 5
MIN_LOG_TICKS = 3
"""Ticks that even a short log axis may have."""
CLOCK_STEPS = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 28800, 86400)
"""Seconds between the ticks of a time axis."""

Tick = tuple[float, str]
"""A value and its label."""


class Axis(Struct, frozen=True):
    """A range of values. The axis is logarithmic with `log`, and then both ends are over 0."""

    low: float
    high: float
    log: bool = False

    @property
    def ends(self) -> tuple[float, float]:
        """`low` and `high`, as their decimal logarithms on a log axis."""
        if self.log:
            return math.log10(self.low), math.log10(self.high)
        return self.low, self.high

    def share_of(self, value: float) -> float:
        """Return how far along the axis a value lies: 0 at `low`, 1 at `high`."""
        low, high = self.ends
        if self.log:
            value = math.log10(value)
        return (value - low) / (high - low)

    def shares_of(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return `share_of` for an array. It is NaN for values that the axis does not have."""
        low, high = self.ends
        known = bound(values)
        if self.log:
            known = np.log10(np.where(known > 0, known, np.nan))
        return np.asarray((known - low) / (high - low))

    def has(self, values: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Return which of these values lie on the axis."""
        shares = self.shares_of(values)
        return np.asarray((shares >= 0) & (shares <= 1))

    def value_at(self, share: float) -> float:
        """Return the value that lies at a share of the axis."""
        low, high = self.ends
        position = low + share * (high - low)
        return float(10.0**position) if self.log else position


def bound(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return finite values of bounded size, else NaN."""
    return np.where(np.isfinite(values), values, np.nan).clip(-HUGE, HUGE)


def linear_axis(low: float, high: float, tick_count: int) -> Axis:
    """Return an axis whose ends are rounded outwards, to halves of the steps between ticks."""
    low, high = widen_if_empty(low, high)
    step = round_step((high - low) / max(2 * tick_count, 1))
    rounded_low = math.floor(low / step) * step
    rounded_high = math.ceil(high / step) * step
    return Axis(*widen_if_empty(rounded_low, rounded_high))


def log_axis(low: float, high: float) -> Axis:
    """Return a log axis that is a little wider than from `low` to `high`, both over 0."""
    low = min(max(low, TINY), HUGE)
    high = min(max(high, TINY), HUGE)
    # If all values are equal, the logarithm is 0, and an axis needs a length all the same.
    margin = max(0.02, 0.04 * math.log10(high / low))
    return Axis(low / 10**margin, high * 10**margin, log=True)


def exact_axis(low: float, high: float) -> Axis:
    """Return the axis from `low` to `high`."""
    return Axis(*widen_if_empty(low, high))


def steady_axis(low: float, high: float, columns: int) -> Axis:
    """Return an axis for a growing x, which changes seldom.

    Columns begin at multiples of their width, and the width is 16 to 31 times a power of two, so
    that curves already drawn stay where they are, and at most a sixteenth of the columns is empty.
    """
    low, high = widen_if_empty(low, high)
    columns = max(columns, 1)
    least_width = (high - low) / columns
    grain = 2.0 ** (math.floor(math.log2(least_width)) - 4)
    factor = math.ceil(least_width / grain)
    while True:
        width = factor * grain
        begin = math.floor(low / width) * width
        end = begin + columns * width
        if end > high or not math.isfinite(end) or factor > 64:
            return Axis(*widen_if_empty(begin, end))
        # Rounding the begin down may have left `high` outside: then columns are a little wider.
        factor += 1


def widen_if_empty(low: float, high: float) -> tuple[float, float]:
    """Return the range, or a small one around its only value."""
    low = max(-HUGE, min(low, HUGE))
    high = max(-HUGE, min(high, HUGE))
    least_size = max(abs(low), abs(high)) * 1e-9 + 1e-150
    if high - low > least_size:
        return low, high
    half = max(abs(low) * 0.05, 1e-140) if low else 0.5
    return low - half, low + half


def round_step(least: float) -> float:
    """Return the smallest of 1, 2, 2.5 or 5 times a power of ten that is not under `least`."""
    power = 10.0 ** math.floor(math.log10(least))
    for factor in (1, 2, 2.5, 5, 10):
        # A step that is too small by a rounding error only is still the right one.
        if factor * power >= least * (1 - 1e-9):
            return factor * power
    return 100 * power


def number_ticks(axis: Axis, max_count: int, *, whole: bool = False) -> list[Tick]:
    """Return at most about `max_count` ticks at round numbers, or only at whole ones."""
    log_values = _log_tick_values(axis, max_count) if axis.log else []
    if log_values:
        return [(value, tick_label(value)) for value in log_values]
    step = round_step((axis.high - axis.low) / max(max_count, 1))
    if whole:
        step = max(1.0, math.ceil(step))
    return [(value, tick_label(value, step)) for value in _multiples(axis, step)]


def clock_ticks(axis: Axis, max_count: int) -> list[Tick]:
    """Return at most about `max_count` ticks at round times, with labels such as 45 s and 1:30."""
    least_step = (axis.high - axis.low) / max(max_count, 1)
    fitting_steps = [step for step in CLOCK_STEPS if step >= least_step]
    step = float(fitting_steps[0]) if fitting_steps else round_step(least_step)
    return [(value, duration(value)) for value in _multiples(axis, step)]


def _multiples(axis: Axis, step: float) -> list[float]:
    """Return at most 101 multiples of `step` on the axis."""
    # So that a tick at an end of the axis is not lost to a rounding error.
    first = math.ceil(axis.low / step - 1e-6)
    last = math.floor(axis.high / step + 1e-6)
    values = [index * step for index in range(first, min(last, first + 100) + 1)]
    if axis.log:
        return [value for value in values if value > 0]
    return values


def _log_tick_values(axis: Axis, max_count: int) -> list[float]:
    """Return powers of ten, or multiples of them, or nothing if the axis is too short for that."""
    low, high = axis.ends
    powers = range(math.floor(low), math.ceil(high) + 1)
    # Powers are taken by their remainder below, so they stay when the axis grows at an end.
    stride = max(1, math.ceil((len(powers) - 1) / max(max_count, 1)))
    candidates = [[10.0**power for power in powers if power % stride == 0]]
    if len(powers) <= MAX_POWERS_WITH_TICKS_BETWEEN:
        for factors in ((1, 2, 5), range(1, 10)):
            # Each goes to the front, so that the densest ticks that fit are taken.
            candidates.insert(0, [factor * 10.0**power for power in powers for factor in factors])
    for values in candidates:
        inside = [value for value in values if axis.low <= value <= axis.high]
        if 2 <= len(inside) <= max(max_count, MIN_LOG_TICKS):
            return inside
    return []


def log_tick_labels(values: Sequence[float]) -> list[str]:
    """Return the labels of ticks on a log axis in one notation: if some are great or small, those
    are powers, such as 1e5, and so are those next to them."""
    least_power = 1e3 if max(values, default=0.0) >= 1e5 else math.inf
    greatest_power = 1e-3 if min(values, default=1.0) < 1e-4 else 0.0
    labels = []
    for value in values:
        if greatest_power < value < least_power:
            labels.append(f"{value:g}")
            continue
        mantissa, _, power = f"{value:.2e}".partition("e")
        labels.append(f"{float(mantissa):g}e{int(power)}")
    return labels


def tick_label(value: float, step: float = 0.0) -> str:
    """Return a short number such as 0.25, 12k or 3e-05, with the decimals that `step` needs."""
    size = max(abs(value), step)
    if size == 0 or (value == 0 and step):
        return "0"
    if size >= 1e13 or size < 1e-4:
        return f"{value:.3g}"
    for least, unit, letter in ((1e9, 1e9, "G"), (1e6, 1e6, "M"), (1e4, 1e3, "k")):
        if size >= least:
            return f"{value / unit:.4g}{letter}"
    if not step:
        return f"{value:.4g}"
    has_half_digit = f"{step:.1e}"[2] != "0"  # a step such as 2.5 needs one decimal more
    decimals = max(0, -math.floor(math.log10(step)) + has_half_digit)
    return f"{value:.{decimals}f}"
