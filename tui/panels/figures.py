"""Figures and phases in the few cells that a table has for them. What is not known yet is a
dash."""

from __future__ import annotations

import math

from tui.widgets import palette
from tui.widgets.axis import clock
from tui.widgets.table import Cell

PHASES = {
    "waiting": ("wait", "table--dim"),
    "connecting": ("work", "table--work"),
    "deploying": ("work", "table--work"),
    "starting": ("work", "table--work"),
    "importing": ("work", "table--work"),
    "loading": ("work", "table--work"),
    "rendezvous": ("work", "table--work"),
    "joining": ("work", "table--work"),
    "ready": ("live", "table--good"),
    "training": ("live", "table--good"),
    "serving": ("live", "table--good"),
    "saving": ("live", "table--work"),
    "evaluating": ("live", "table--work"),
    "silent": ("wait", "table--work"),
    "stalled": ("bad", "table--bad"),
    "stopping": ("work", "table--work"),
    "stopped": ("ended", "table--dim"),
    "ended": ("ended", "table--dim"),
    "finished": ("good", "table--good"),
    "victim": ("bad", "table--work"),
    "failed": ("bad", "table--bad"),
    "refused": ("bad", "table--bad"),
    "lost": ("bad", "table--bad"),
}
"""The sign and the colour of every phase of a run, a host and a rank."""

DASH = "-"


def phase(name: str) -> Cell:
    """A phase as sign and word."""
    sign, ink = PHASES[name]
    return Cell(f"{palette.sign(sign)} {name}", ink)


def number(value: float) -> str:
    """A number with three digits that count, at most six cells wide: 2.31, 0.0052, 123, 4e-7."""
    if math.isnan(value):
        return DASH
    if math.isinf(value):
        return "inf" if value > 0 else "-inf"
    size = abs(value)
    if size >= 99_999 or 0 < size < 0.0005:
        return f"{value:.0e}".replace("e-0", "e-").replace("e+0", "e").replace("e+", "e")
    decimals = 2 if size == 0 else min(4, max(0, 2 - math.floor(math.log10(size))))
    return f"{value:.{decimals}f}"


def percent(share: float) -> str:
    """A share of 1 in percent."""
    return DASH if math.isnan(share) else f"{share * 100:.0f}%"


def memory(size: int) -> str:
    """Bytes in the unit that leaves up to four digits."""
    if not size:
        return DASH
    value, unit = float(size), "B"
    for unit in ("B", "K", "M", "G", "T"):
        if value < 1000 or unit == "T":
            break
        value /= 1024
    return f"{value:.1f}{unit}" if value < 100 and unit not in "BK" else f"{value:.0f}{unit}"


def duration(seconds: float) -> str:
    """A time as 45s, 1:30 or 2:00:00."""
    return DASH if math.isnan(seconds) else clock(seconds)


def age(seconds: float) -> str:
    """How long something has been as it is: "for 6s"."""
    return f"for {duration(seconds)}"


def count(value: int) -> str:
    """A count, or a dash for none."""
    return str(value) if value else DASH
