"""How values look in the tables of a report."""

from __future__ import annotations

import math
import time
from contextlib import suppress

from remote.format import UNKNOWN, number, percent, seconds
from remote.lab import spec
from remote.statistics.equivalence import Equivalence
from remote.statistics.interval import Interval
from remote.statistics.ratio import Comparison, Finding
from training import figures

SAME = "equal within rounding"
TOO_FEW = "not known: too few runs"
DOUBTFUL = "?: in doubt, do not use it; the beginning of the report says why."


def times(value: Interval | None, decimals: int = 2, *, is_doubtful: bool = False) -> str:
    """A ratio: "1.42"; "19.10 ?" of one that is in doubt."""
    if value is None or math.isnan(value.value):
        return UNKNOWN
    return marked(f"{value.value:.{decimals}f}", is_doubtful=is_doubtful)


def marked(figure: str, *, is_doubtful: bool) -> str:
    """A figure, with a mark where it is in doubt."""
    return f"{figure} ?" if is_doubtful else figure


def bounds(value: Interval | None, decimals: int = 2) -> str:
    """The interval of a ratio: "1.38 to 1.47"."""
    if value is None or not math.isfinite(value.low):
        return UNKNOWN
    if value.low == value.high:
        return UNKNOWN
    return f"{value.low:.{decimals}f} to {value.high:.{decimals}f}"


def seconds_bounds(value: Interval) -> str:
    """The interval of seconds."""
    known = math.isfinite(value.low) and math.isfinite(value.high)
    return f"{seconds(value.low)} to {seconds(value.high)}" if known else UNKNOWN


def final(value: float, is_share: bool) -> str:
    """A loss, or an accuracy in percent."""
    return percent(value, 2) if is_share else figures.loss(value)


def final_bounds(value: Interval, is_share: bool) -> str:
    """The interval of a loss or an accuracy."""
    if not math.isfinite(value.low):
        return UNKNOWN
    low, high = (max(0.0, value.low), min(1.0, value.high)) if is_share else (value.low, value.high)
    return f"{final(low, is_share)} to {final(high, is_share)}"


def difference(value: float, is_share: bool) -> str:
    """How far losses or accuracies are apart: "+0.012", "-1.5 points"."""
    if not math.isfinite(value):
        return UNKNOWN
    said = f"{number(value * 100)} points" if is_share else number(value)
    return f"+{said}" if value > 0 else said


def finding(against: Comparison | None) -> str:
    """What a comparison shows: "1.52 times as slow", "no difference shown"."""
    if against is None:
        return UNKNOWN
    if math.isnan(against.ratio.low):
        return TOO_FEW
    if against.finding is Finding.NOT_SHOWN:
        return against.finding.value
    faster = against.finding is Finding.FASTER
    ratio = against.ratio.inverse() if faster else against.ratio
    return f"{ratio.value:.2f} times as {'fast' if faster else 'slow'}"


def equal(found: Equivalence | None, margin: float, is_share: bool) -> str:
    """Whether final values are the same: "equal within rounding", "equal within 0.012". What may
    differ by more than the `margin` is not called equal."""
    if found is None:
        return UNKNOWN
    if found.is_same:
        return SAME
    if math.isnan(found.within):
        return TOO_FEW
    if found.within <= margin:
        return f"equal within {_extent(found.within, is_share)}"
    return "not shown to be equal"


def _extent(value: float, is_share: bool) -> str:
    return f"{number(value * 100)} points" if is_share else number(value)


def link(rate: float) -> str:
    """A rate in bytes per second as --link has it: "1gbit"."""
    return spec.show(round(8 * rate)) if rate else UNKNOWN


def moment(when: float) -> str:
    """A Unix time, which may be any number, as local date and time."""
    with suppress(OverflowError, ValueError, OSError):
        return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(when)) if when else UNKNOWN
    return UNKNOWN
