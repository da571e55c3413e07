"""How sizes, durations and numbers look in every message, table and chart.

A value that is not known is `UNKNOWN`. No library: these run in every frame of the dashboard, and
must keep to the few cells of a column.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress

from training.formatting import format_loss

UNKNOWN = "-"
"""Stands for a value that is not known."""
IN_DOUBT = "in doubt"
"""Stands in place of a number that nobody should use."""
_SIZES = ("B", "KiB", "MiB", "GiB", "TiB")
_SPANS = ((120.0, 5.0, 1, "s"), (7_200.0, 1.0, 60, "min"), (math.inf, 0.5, 3_600, "h"))
"""Up to how many seconds a span is told in steps of so many units, each of so many seconds."""
_AGES = ((172_800, 86_400, "d"), (5_970, 3_600, "h"), (99.5, 60, "min"))
"""From how many seconds on an age is told in this unit, of so many seconds: the smaller unit would
have three digits then, for which a column of ages has no room."""


def size(count: float) -> str:
    """Format a number of bytes: "900 B", "64 KiB", "3.2 GiB"."""
    if not math.isfinite(count):
        return UNKNOWN
    value, unit = _scaled(count)
    return f"{value} {unit}"


def short_size(count: float) -> str:
    """Format a number of bytes for a narrow column: `size` as "900B", "64K", "3.2G".

    0 is written as "-": figures that a host does not report are 0.
    """
    if not count or not math.isfinite(count):
        return UNKNOWN
    value, unit = _scaled(count)
    return f"{value}{unit.removesuffix('iB')}"


def _scaled(count: float) -> tuple[str, str]:
    """Scale bytes to the unit that leaves at most four digits."""
    value = float(count)
    unit = _SIZES[0]
    for unit in _SIZES:
        if value < 1000 or unit == _SIZES[-1]:
            break
        value /= 1024
    exact = unit == "B" or value >= 100 or value == round(value)
    return f"{value:.0f}" if exact else f"{value:.1f}", unit


def duration(seconds: float) -> str:
    """Format a time span: "45 s", "1:30", "2:03:45"."""
    if not math.isfinite(seconds):
        return UNKNOWN
    whole = round(seconds)
    minutes, rest = divmod(abs(whole), 60)
    hours, minutes = divmod(minutes, 60)
    sign = "-" if whole < 0 else ""
    if hours:
        return f"{sign}{hours}:{minutes:02}:{rest:02}"
    return f"{sign}{minutes}:{rest:02}" if minutes else f"{sign}{rest} s"


def exact_duration(seconds: float) -> str:
    """Format a time span as `duration` does, but "5.2 s" below a minute: where two of them stand
    beside each other, whole seconds would not tell how far they are apart."""
    return f"{seconds:.1f} s" if abs(seconds) < 59.95 else duration(seconds)


def approximate(seconds: float) -> str:
    """Format a time span that is known roughly: "~45 s", "~7 min", "~2.5 h"."""
    if not math.isfinite(seconds):
        return UNKNOWN
    if seconds < 120:
        return f"~{seconds:.0f} s"
    minutes = seconds / 60
    return f"~{minutes:.0f} min" if minutes < 120 else f"~{minutes / 60:.1f} h"


def between(least: float, most: float) -> str:
    """Format a time span that is not known well: "12 to 18 min"; as `duration` where it is."""
    if not least < most:
        return duration(least)
    _, step, length, unit = next(span for span in _SPANS if most < span[0])
    low = math.floor(least / length / step) * step
    high = math.ceil(most / length / step) * step
    return f"{low:g} to {high:g} {unit}" if low > 0 else f"up to {high:g} {unit}"


def age(seconds: float) -> str:
    """Format how long ago something was, in its largest unit: "42 s", "5 min", "3 h", "7 d"."""
    for least_seconds, length, unit in _AGES:
        if seconds >= least_seconds:
            return f"{seconds / length:.0f} {unit}"
    return f"{seconds:.0f} s"


def ago(seconds: float) -> str:
    """Format how long ago something was: "42 s ago", "3 h ago"."""
    return f"{age(seconds)} ago"


def moment(when: float, *, exact: bool = False) -> str:
    """Format a Unix time, which may be any number, as local date and time: "11-23 04:20"; `exact`:
    with its seconds."""
    form = "%m-%d %H:%M:%S" if exact else "%m-%d %H:%M"
    return (_format_time(form, when) if when else "") or UNKNOWN


def clock(when: float) -> str:
    """Format a Unix time, which may be any number, as local time of day: "04:20:59"."""
    return _format_time("%H:%M:%S", when) or "--:--:--"


def _format_time(form: str, when: float) -> str:
    """Format a Unix time; return "" for one that the system does not know."""
    with suppress(OverflowError, ValueError, OSError):
        return time.strftime(form, time.localtime(when))
    return ""


def number(value: float) -> str:
    """Format a number with three significant digits: "2.31", "0.0052", "123", "4e-7"."""
    if math.isnan(value):
        return UNKNOWN
    if math.isinf(value):
        return "inf" if value > 0 else "-inf"
    extent = abs(value)
    if extent >= 99_999 or 0 < extent < 0.0005:
        return f"{value:.0e}".replace("e-0", "e-").replace("e+0", "e").replace("e+", "e")
    decimals = 2 if extent == 0 else min(4, max(0, 2 - math.floor(math.log10(extent))))
    return f"{value:.{decimals}f}"


def figure(value: float) -> str:
    """Format a loss for a sentence, with no more digits than one reads there: "2.3", "0.29",
    "17655", "3.7e30"."""
    if abs(value) >= 99_999:
        return format_loss(value)
    if abs(value) >= 1000:
        return f"{value:.0f}"  # as losses are written everywhere
    return f"{value:.2g}" if 0.1 <= abs(value) < 10 else number(value)


def fixed(value: float, decimals: int, unit: str = "") -> str:
    """Format a number with a fixed number of decimals: "0.050", "12.30 s"."""
    return f"{value:,.{decimals}f}{unit}" if math.isfinite(value) else UNKNOWN


def seconds(value: float) -> str:
    """Format the seconds of an iteration without their unit: "0.0052", "1.250", "312"."""
    return fixed(value, 4 if value < 0.1 else 3 if value < 100 else 0)


def step_time(value: float, *, exact: bool = False) -> str:
    """Format the seconds of a step with their unit: "0.8 ms", "52 ms", "1.25 s"; `exact`: with
    three significant digits."""
    if not math.isfinite(value):
        return UNKNOWN
    scaled, unit = (value, "s") if value >= 0.9995 else (1000 * value, "ms")
    if exact:
        return f"{number(scaled)} {unit}"
    # Three digits of a second, and as many of a millisecond: more would only flicker.
    decimals = 2 if unit == "s" and scaled < 99 else 1 if 0 < scaled < 9.95 else 0
    return f"{scaled:.{decimals}f} {unit}"


def rate(value: float) -> str:
    """Format a number per second: "3.25", "64.1", "1,250"."""
    return f"{value:.3g}" if value < 100 else fixed(value, 0)


def percent(share: float, decimals: int = 0) -> str:
    """Format a share of 1 as a percentage: "45%"."""
    return f"{share:.{decimals}%}" if math.isfinite(share) else UNKNOWN


def loss(value: float | None) -> str:
    """Format a loss; None is not known. One that is NaN is: the run has diverged."""
    return UNKNOWN if value is None else format_loss(value)


def count(number: float, noun: str, plural: str = "") -> str:
    """Format a number of things: "1 rank", "1,200 ranks", "0.5 cores", "2 processes"."""
    digits = f"{number:,.0f}" if number == round(number) else f"{number:g}"
    return f"{digits} {noun if number == 1 else plural or f'{noun}s'}"


def listed(names: Sequence[str], most: int = 4) -> str:
    """Join names: "node1, node2 and node3"; of more than `most`, "node1, node2 and 7 more"."""
    if len(names) > most:
        return f"{', '.join(names[: most - 1])} and {len(names) - most + 1} more"
    *others, last = names or [""]
    return f"{', '.join(others)} and {last}" if others else last


def or_unknown(value: object) -> str:
    """Format a value, where 0 and "" mean that it is not known."""
    return str(value) if value else UNKNOWN


def spans(numbers: Iterable[int]) -> list[tuple[int, int]]:
    """Return the first and the last of each series of consecutive numbers, in order."""
    members = set(numbers)
    firsts = (number for number in members if number - 1 not in members)
    lasts = (number for number in members if number + 1 not in members)
    return list(zip(sorted(firsts), sorted(lasts), strict=True))


def ranks_text(ranks: Sequence[int]) -> str:
    """Format ranks in words, runs of three and more joined: "rank 3", "ranks 0, 2 and 4 to 7"."""
    words: list[str] = []
    for first, last in spans(ranks):
        if last - first > 1:
            words.append(f"{first} to {last}")
        else:
            words += map(str, range(first, last + 1))
    noun = "rank" if len(ranks) == 1 else "ranks"
    return f"{noun} {listed(words, len(words))}"


def short_ranks(ranks: Iterable[int]) -> str:
    """Format ranks for a narrow column: "0-3,5"."""
    return ",".join(
        f"{first}-{last}" if last > first else f"{first}" for first, last in spans(ranks)
    )
