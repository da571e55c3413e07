"""When a run will have ended, in words: a point first, and a range only where the pace varies."""

from __future__ import annotations

import math
from typing import NamedTuple

from remote.format import UNKNOWN, approximate, between, clock, moment
from remote.run.run_state import RunState

CLOCK_FROM = 120.0
"""Seconds that are left from which on the time of day is told, too."""
DAY = 20 * 3600.0
"""Seconds that are left from which on a time of day needs its date."""


class EtaText(NamedTuple):
    """The time that is left."""

    point: str = UNKNOWN
    """Such as "~7 min (14:52)"."""
    spread: str = ""
    """Such as "5 to 9 min"; "" unless the pace varies much."""


def describe_eta(run: RunState, now: float) -> EtaText:
    """Say when a run will have ended. Of one that stands still, such as a replay, it is not
    known."""
    left = math.nan if run.is_held else run.eta(now)
    if not math.isfinite(left):
        return EtaText()
    point = approximate(left)
    if left >= CLOCK_FROM:
        end = now + left
        point += f" ({clock(end)[:5] if left < DAY else moment(end)})"
    least, most = run.eta_between(now)
    return EtaText(point, between(least, most) if least < most else "")
