"""Finds a recorded run by what a person calls it."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from remote.plan.plan import PlanError
from remote.record import marks
from remote.record.layout import PLAN, recorded
from remote.record.read import has_begun
from training.agent.layout import LAST

LISTED = 5
"""Runs that are named where several are meant."""


def find(run: str, runs_dir: Path) -> Path | None:
    """The folder of the run that is recorded here by this name, by the name that a person gave it,
    by a name that begins so, or (`last`) as the newest that has begun; None where there is none.
    Its path is a name, too. Raises: PlanError, where several are meant, or where a path leads
    elsewhere."""
    given = run
    run = _within(run, runs_dir)
    folders = recorded(runs_dir)
    if run == LAST and not (runs_dir / LAST / PLAN).exists():
        return next(filter(has_begun, reversed(folders)), next(reversed(folders), None))
    if run in [folder.name for folder in folders]:
        return runs_dir / run
    name = meant(run, labels(runs_dir))
    if not name and given != run:
        raise _missing(given, runs_dir)
    return runs_dir / name if name else None


def is_path(run: str) -> bool:
    """Return whether a run is given by its path, and so is one that is recorded here."""
    return "/" in run


def labels(runs_dir: Path) -> dict[str, str]:
    """Return the runs that are recorded here, the newest last, with the name that a person gave
    each ("": none)."""
    return {folder.name: marks.name(folder) for folder in recorded(runs_dir)}


def _within(run: str, runs_dir: Path) -> str:
    """The name of a run that is given by its path, as it is printed. Raises: PlanError."""
    path = Path(run).absolute()
    if not is_path(run):
        return run
    if os.path.realpath(path.parent) == os.path.realpath(runs_dir):
        return path.name
    if (path / PLAN).exists():
        raise PlanError(f"{run} is not in {runs_dir}: add --runs-dir {Path(run).parent}")
    raise _missing(run, runs_dir)


def _missing(run: str, runs_dir: Path) -> PlanError:
    what = "is not a run" if Path(run).exists() else "there is no such file or folder"
    return PlanError(f"{run}: {what}; rankboard runs lists the runs in {runs_dir}")


def meant(run: str, labels: Mapping[str, str]) -> str:
    """Return which of these runs, the newest last, somebody means: the run with this name, the one
    that a person gave this name, or the one whose name begins so; "" where there is none. Raises:
    PlanError, where there are several."""
    if run in labels:
        return run
    named = [name for name, label in labels.items() if run and label == run]
    if named:
        _check_one(run, named, "have this name")
        return named[0]
    fits = [name for name in labels if name.startswith(run)]
    _check_one(run, fits, "begin so; write more of the name")
    return next(iter(fits), "")


def _check_one(run: str, fits: Sequence[str], why: str) -> None:
    """Raises: PlanError, where several fit."""
    if len(fits) > 1:
        newest = "".join(f"\n  {name}" for name in fits[: -LISTED - 1 : -1])
        more = (
            f"\n  and {len(fits) - LISTED} more; rankboard ps lists them"
            if len(fits) > LISTED
            else ""
        )
        raise PlanError(f"{run}: {len(fits)} runs {why}:{newest}{more}")
