"""The seconds of an iteration and its phases."""

from __future__ import annotations

import math

from tui.report.subject import Group

PHASES = ("data", "compute", "sync")


def phases(group: Group) -> dict[str, float]:
    """Seconds of an iteration and its phases, as means over runs; 0 where not known."""
    found = [run.phases() for run in group.all]
    return {
        name: sum(one[name] for one in found if math.isfinite(one[name])) / max(1, len(found))
        for name in ("seconds", *PHASES)
    }
