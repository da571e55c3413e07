"""The looks of values in the tables of a report."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

from remote.format import UNKNOWN, fixed, number, percent
from remote.lab import spec
from remote.metrics.doubt import Doubt
from remote.statistics.comparison import Comparison
from remote.statistics.interval import Interval, IntervalMethod
from training.formatting import format_loss

SAME = "equal within rounding"
TOO_FEW = "not known: too few runs"
DOUBT_NOTE = "?: in doubt, do not use it; the beginning of the report says why."


write_ratio = partial(fixed, decimals=2)
"""Write a ratio: "1.42"."""


def format_value(
    value: Interval | None, write: Callable[[float], str], doubt: Doubt | None = None
) -> str:
    """Format the value of an interval: "1.42", or "19.10 ?" if it is in doubt."""
    if value is None:
        return UNKNOWN
    return f"{write(value.value)} ?" if doubt else write(value.value)


def format_bounds(value: Interval | None, write: Callable[[float], str]) -> str:
    """Format the bounds of an interval: "1.38 to 1.47". What is exact has none."""
    if value is None or value.method is IntervalMethod.EXACT:
        return UNKNOWN
    if not (math.isfinite(value.low) and math.isfinite(value.high)):
        return UNKNOWN
    return f"{write(value.low)} to {write(value.high)}"


def format_final(value: float, *, is_share: bool) -> str:
    """Format a final loss, or an accuracy in percent."""
    if not is_share:
        return format_loss(value)
    # A host may report any accuracy; if it is not known, it is NaN, of which `max` would make 0.
    known_share = value if math.isnan(value) else min(1.0, max(0.0, value))
    return percent(known_share, 1)


def format_difference(value: float, *, is_share: bool) -> str:
    """Format a difference of losses or accuracies: "+0.012", "-1.5 points"."""
    if not math.isfinite(value):
        return UNKNOWN
    return f"{format_signed(value * 100)} points" if is_share else format_signed(value)


def format_signed(value: float) -> str:
    """Format a number with its sign, such as "+0.012"."""
    return f"+{number(value)}" if value > 0 else number(value)


def format_extent(value: float, *, is_share: bool) -> str:
    """Format the extent of a difference: "0.012", "1.5 points"."""
    return f"{number(value * 100)} points" if is_share else number(value)


def format_p(comparison: Comparison | None) -> str:
    """Format the p-value of a comparison."""
    if comparison is None or not math.isfinite(comparison.p):
        return UNKNOWN
    return f"{comparison.p:.2g}"


def format_finding(comparison: Comparison | None) -> str:
    """Format what a comparison of times shows: "faster", "no difference shown"."""
    if comparison is None:
        return UNKNOWN
    return TOO_FEW if math.isnan(comparison.ratio.low) else comparison.finding.value


def format_link(rate: float) -> str:
    """Format a rate in bytes per second as --link has it: "1gbit"."""
    return spec.show(round(8 * rate)) if rate else UNKNOWN
