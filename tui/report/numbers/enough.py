"""Why a cell has no interval."""

from __future__ import annotations

from remote.statistics.interval import FEWEST
from tui.report.subject import Subject


def sentence(subject: Subject) -> list[str]:
    """Why cells have no interval, where some have none."""
    counts = {len(group.runs) for group in subject.measured if len(group.runs) < FEWEST}
    if not subject.is_study or not counts:
        return []
    runs = "2 runs of a cell are" if 2 in counts else "1 run of a cell is"
    return [f"{runs} too few for an interval of its own: {FEWEST} are the least."]
