"""How long the runs that are left may take, by the runs so far."""

from __future__ import annotations

import math
import re
import statistics
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from remote.format import count, duration
from remote.plan.plan import Script
from remote.record.layout import recorded
from remote.record.overview import check_number
from remote.record.read import summarized
from remote.study.progress import StudyProgress
from remote.study.study import REPETITION, UNITS, Cell
from training.job import Job, JobError
from training.registry import UnknownName

LOOKED_AT = 200
"""Recorded runs that are looked at, the newest first."""


class PastRun(NamedTuple):
    """A run that has finished, and how many seconds it took."""

    work: Job | Script
    ranks: int
    elapsed: float


def estimate_text(progress: StudyProgress, runs_dir: Path) -> str:
    """The number of runs that are left, and about how long they take."""
    study = progress.study
    left = [trial.cell for trial in study.trials() if not progress.is_settled(trial)]
    if not left:
        return "no run is left"
    runs = count(len(left), "run")
    stop = f"one that takes {format_limit(study.limit)} is stopped"
    past = list(_past(runs_dir))
    known = {key: _of(cell, past) for key, cell in {cell.key: cell for cell in left}.items()}
    measured = [seconds for seconds in known.values() if seconds is not None]
    if not measured:
        return f"{runs}, and none yet to estimate from; {stop}"
    usual = statistics.median(measured)
    total = sum(seconds if (seconds := known[cell.key]) is not None else usual for cell in left)
    return f"{runs}, about {duration(total)} by runs so far; {stop}"


def format_limit(seconds: float) -> str:
    """A time as one writes it in a study: "90 s", "10 min", "2 h"."""
    unit = next((one for one in ("h", "min") if seconds % UNITS[one] == 0), "s")
    return f"{seconds / UNITS[unit]:g} {unit}"


def remaining_seconds(progress: StudyProgress, elapsed: float = 0.0) -> float:
    """About how many seconds the planned runs that are left take, by those of this study; NaN where
    none has ended. `elapsed`: the seconds of the run under way."""
    known = {
        key: statistics.median(times)
        for key, cell in progress.cells.items()
        if (times := [end.seconds for end in cell.counted.values() if end.seconds])
    }
    if not known:
        return math.nan
    usual = statistics.median(known.values())
    left = [one.cell.key for one in progress.study.trials() if not progress.is_settled(one)]
    running = next((key for key, cell in progress.cells.items() if cell.running), None)
    done = min(elapsed, known.get(running, usual)) if running in left else 0.0
    return sum(known.get(key, usual) for key in left) - done


def _past(runs_dir: Path) -> Iterator[PastRun]:
    """The newest runs that have finished."""
    for folder in list(reversed(recorded(runs_dir)))[:LOOKED_AT]:
        found = summarized(folder)
        ranks = found.get("ranks")
        elapsed = check_number(found.get("elapsed"))
        if found.get("verdict") != "finished" or not elapsed or not isinstance(ranks, list):
            continue
        with suppress(JobError, UnknownName, TypeError, AttributeError):
            script = found.get("script")
            work = Script(tuple(map(str, script))) if script else Job.of(found.get("job") or {})
            yield PastRun(work, len(ranks), elapsed)


def _of(cell: Cell, past: list[PastRun]) -> float | None:
    """The median time of the runs with the settings of a cell, in seconds; None of none."""
    times = [one.elapsed for one in past if _is_like(cell, one)]
    return statistics.median(times) if times else None


def _is_like(cell: Cell, one: PastRun) -> bool:
    """Whether a run trained as much of the same on as many ranks."""
    if one.ranks != cell.place.ranks:
        return False
    past = one.work
    now = cell.work
    if isinstance(past, Script) and isinstance(now, Script):
        return _repeats(past.words, now.words)
    if not (isinstance(past, Job) and isinstance(now, Job)):
        return False
    return not past.differs(now) and (past.steps, past.epochs) == (now.steps, now.epochs)


def _repeats(past: Sequence[str], now: Sequence[str]) -> bool:
    """Whether words are those of a script with the number of some repetition."""
    pattern = re.escape("\0".join(now)).replace(re.escape(REPETITION), r"\d+")
    return bool(re.fullmatch(pattern, "\0".join(past), re.DOTALL))
