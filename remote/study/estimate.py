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
    num_missing = len(progress.missing_trials())
    if not num_missing:
        return "no run is left"
    runs_text = count(num_missing, "run")
    limit_text = f"one that takes {format_limit(progress.study.limit)} is stopped"
    remaining = remaining_seconds(progress)
    if math.isnan(remaining):
        return f"{runs_text}, and none yet to estimate from; {limit_text}"
    return f"{runs_text}, about {duration(remaining)} by runs so far; {limit_text}"


def _sum_times(seconds_of_cells: Mapping[str, float], keys: Sequence[str]) -> float:
    """Return how long runs of these cells take. An unknown one takes the median of the others."""
    usual_seconds = statistics.median(seconds_of_cells.values())
    return sum(seconds_of_cells.get(key, usual_seconds) for key in keys)


def format_limit(seconds: float) -> str:
    """Return a time as a study file has it: "90 s", "10 min", "2 h"."""
    unit = "s"
    for larger_unit in ("h", "min"):
        if seconds % UNITS[larger_unit] == 0:
            unit = larger_unit
            break
    return f"{seconds / UNITS[unit]:g} {unit}"


def remaining_seconds(progress: StudyProgress, elapsed: float = 0.0) -> float:
    """Return about how many seconds the missing runs take, by those of this study.

    `elapsed` are the seconds of the run under way. Return NaN if no run has ended.
    """
    seconds_of_cells = {}
    for key, cell in progress.cells.items():
        run_times = [run_end.seconds for run_end in cell.counted.values() if run_end.seconds]
        if run_times:
            seconds_of_cells[key] = statistics.median(run_times)
    if not seconds_of_cells:
        return math.nan
    missing_keys = [trial.cell.key for trial in progress.missing_trials()]
    remaining_time = _sum_times(seconds_of_cells, missing_keys)
    running_key = progress.running_cell
    if running_key in missing_keys:
        # A run that takes longer than usual does not shorten the others.
        remaining_time -= min(elapsed, _sum_times(seconds_of_cells, [running_key]))
    return remaining_time
