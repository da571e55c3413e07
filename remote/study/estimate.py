"""How long the missing runs may take, by the runs so far."""

from __future__ import annotations

import math
import re
import statistics
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from remote.format import count, duration
from remote.plan.plan import Script
from remote.record.layout import recorded
from remote.record.overview import check_number
from remote.record.read import summarized
from remote.study.progress import StudyProgress
from remote.study.study import REPETITION, UNITS, Cell, is_same_training
from training.job import Job, JobError
from training.registry import UnknownName

MOST_PAST_RUNS = 200
"""Recorded runs that are looked at, the newest first."""


class PastRun(NamedTuple):
    """A run that has finished, and how many seconds it took."""

    work: Job | Script
    ranks: int
    elapsed: float


def estimate_text(progress: StudyProgress, runs_dir: Path) -> str:
    """Return how many runs are missing, and about how long they take."""
    study = progress.study
    cells = [trial.cell for trial in progress.missing_trials()]
    if not cells:
        return "no run is left"
    runs = count(len(cells), "run")
    stop = f"one that takes {format_limit(study.limit)} is stopped"
    past_runs = list(_read_past_runs(runs_dir))
    seconds_of_cells = {}
    for cell in dict.fromkeys(cells):
        times = [past.elapsed for past in past_runs if _is_like(cell, past)]
        if times:
            seconds_of_cells[cell.key] = statistics.median(times)
    if not seconds_of_cells:
        return f"{runs}, and none yet to estimate from; {stop}"
    total = _sum_times(seconds_of_cells, [cell.key for cell in cells])
    return f"{runs}, about {duration(total)} by runs so far; {stop}"


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


def _read_past_runs(runs_dir: Path) -> Iterator[PastRun]:
    """Yield the newest runs that have finished."""
    newest_first = list(reversed(recorded(runs_dir)))
    for folder in newest_first[:MOST_PAST_RUNS]:
        past = _read_past_run(summarized(folder))
        if past:
            yield past


def _read_past_run(summary: Mapping[str, Any]) -> PastRun | None:
    """Return a run from its summary, or None if it has not finished or cannot be read."""
    ranks = summary.get("ranks")
    elapsed = check_number(summary.get("elapsed"))
    if summary.get("verdict") != "finished" or not elapsed or not isinstance(ranks, list):
        return None
    script = summary.get("script")
    # The file may be of another version, or somebody has changed it.
    with suppress(JobError, UnknownName, TypeError, AttributeError):
        work = Script(tuple(map(str, script))) if script else Job.of(summary.get("job") or {})
        return PastRun(work, len(ranks), elapsed)
    return None


def _is_like(cell: Cell, past: PastRun) -> bool:
    """Return whether a run trained as much of the same on as many ranks."""
    if past.ranks != cell.place.ranks:
        return False
    if isinstance(past.work, Script) and isinstance(cell.work, Script):
        return _is_repetition(past.work.words, cell.work.words)
    if isinstance(past.work, Job) and isinstance(cell.work, Job):
        return is_same_training(past.work, cell.work)
    return False


def _is_repetition(past: Sequence[str], words: Sequence[str]) -> bool:
    """Return whether words are those of a script with the number of some repetition."""
    pattern = re.escape("\0".join(words)).replace(re.escape(REPETITION), r"\d+")
    return bool(re.fullmatch(pattern, "\0".join(past), re.DOTALL))
