"""The looks of values in the tables of a report."""

from __future__ import annotations

import math

from remote.format import UNKNOWN, number, percent, seconds
from remote.lab import spec
from remote.statistics.comparison import Comparison
from remote.statistics.interval import Interval
from training.formatting import format_loss

SAME = "equal within rounding"
TOO_FEW = "not known: too few runs"
DOUBT_NOTE = "?: in doubt, do not use it; the beginning of the report says why."


def format_ratio(value: Interval | None, *, is_doubtful: bool = False) -> str:
    """Format a ratio: "1.42", or "19.10 ?" if it is in doubt."""
    if value is None or math.isnan(value.value):
        return UNKNOWN
    return mark_doubt(f"{value.value:.2f}", is_doubtful=is_doubtful)


def mark_doubt(figure: str, *, is_doubtful: bool) -> str:
    """Return a figure, with a mark if it is in doubt."""
    return f"{figure} ?" if is_doubtful else figure


def format_ratio_bounds(value: Interval | None) -> str:
    """Format the interval of a ratio: "1.38 to 1.47"."""
    if value is None or not has_width(value):
        return UNKNOWN
    return f"{value.low:.2f} to {value.high:.2f}"


def has_width(value: Interval) -> bool:
    """Return True if the bounds of an interval are known, and apart."""
    return math.isfinite(value.low) and value.low != value.high


def format_seconds_bounds(value: Interval) -> str:
    """Format the interval of seconds."""
    if math.isfinite(value.low) and math.isfinite(value.high):
        return f"{seconds(value.low)} to {seconds(value.high)}"
    return UNKNOWN


def format_final(value: float, *, is_share: bool) -> str:
    """Format a final loss, or an accuracy in percent."""
    return percent(value, 2) if is_share else format_loss(value)


def format_final_bounds(value: Interval, *, is_share: bool) -> str:
    """Format the interval of a final loss or accuracy."""
    low = value.low
    high = value.high
    if not math.isfinite(low):
        return UNKNOWN
    if is_share:
        low = max(0.0, low)
        high = min(1.0, high)
    return f"{format_final(low, is_share=is_share)} to {format_final(high, is_share=is_share)}"


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
