"""From how many runs an interval says something."""

from __future__ import annotations

import math
from dataclasses import replace

from remote.statistics.interval import Interval, Method
from tui.report.subject import Subject

FEWEST = 3
"""Runs of a cell from which its own interval is shown: by t, that of two is 13 times as wide as the
runs are apart, and reaches from losses below zero to some beyond any that was seen."""


def known(value: Interval) -> Interval:
    """The interval, without bounds where it rests on too few runs."""
    if value.runs >= FEWEST or value.method is Method.EXACT:
        return value
    return replace(value, low=math.nan, high=math.nan, method=Method.NONE)


def sentence(subject: Subject) -> list[str]:
    """Why cells have no interval, where some have none."""
    counts = {len(group.runs) for group in subject.measured if len(group.runs) < FEWEST}
    if not subject.is_study or not counts:
        return []
    runs = "2 runs of a cell are" if 2 in counts else "1 run of a cell is"
    return [f"{runs} too few for an interval of its own: {FEWEST} are the least."]
