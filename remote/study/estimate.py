"""How long the missing runs may take, by those that have ended."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence

from remote.format import count, duration
from remote.study.progress import StudyProgress
from remote.study.study import UNITS


def estimate_text(progress: StudyProgress) -> str:
    """Return how many runs are missing, and about how long they take."""
    missing = len(progress.missing_trials())
    if not missing:
        return "no run is left"
    runs = count(missing, "run")
    stop = f"one that takes {format_limit(progress.study.limit)} is stopped"
    remaining = remaining_seconds(progress)
    if math.isnan(remaining):
        return f"{runs}, and none yet to estimate from; {stop}"
    return f"{runs}, about {duration(remaining)} by runs so far; {stop}"


def _sum_times(seconds_of_cells: Mapping[str, float], keys: Sequence[str]) -> float:
    """Return how long runs of these cells take. An unknown one takes the median of the others."""
    usual = statistics.median(seconds_of_cells.values())
    return sum(seconds_of_cells.get(key, usual) for key in keys)


def format_limit(seconds: float) -> str:
    """Return a time as a study file has it: "90 s", "10 min", "2 h"."""
    unit = "s"
    for larger in ("h", "min"):
        if seconds % UNITS[larger] == 0:
            unit = larger
            break
    return f"{seconds / UNITS[unit]:g} {unit}"


def remaining_seconds(progress: StudyProgress, elapsed: float = 0.0) -> float:
    """Return about how many seconds the missing runs take, by those of this study.

    `elapsed` are the seconds of the run under way. Return NaN if no run has ended.
    """
    seconds_of_cells = {}
    for key, cell in progress.cells.items():
        times = [end.seconds for end in cell.counted.values() if end.seconds]
        if times:
            seconds_of_cells[key] = statistics.median(times)
    if not seconds_of_cells:
        return math.nan
    missing = [trial.cell.key for trial in progress.missing_trials()]
    remaining = _sum_times(seconds_of_cells, missing)
    running = progress.running_cell
    if running in missing:
        # A run that takes longer than usual does not shorten the others.
        remaining -= min(elapsed, _sum_times(seconds_of_cells, [running]))
    return remaining
