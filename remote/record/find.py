"""Finds a recorded run by what a person calls it."""

from __future__ import annotations

import os
from collections.abc import Sequence
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
    given, run = run, _within(run, runs_dir)
    folders = recorded(runs_dir)
    if run == LAST and not (runs_dir / LAST / PLAN).exists():
        return next(filter(has_begun, reversed(folders)), next(reversed(folders), None))
    names = [folder.name for folder in folders]
    if run and run not in names:
        named = [folder.name for folder in folders if marks.name(folder) == run]
        _check_one(run, named, "have this name")
        run = next(iter(named), run)
    name = meant(run, names)
    if not name and given != run:
        raise _missing(given, runs_dir)
    return runs_dir / name if name else None


def _within(run: str, runs_dir: Path) -> str:
    """The name of a run that is given by its path, as it is printed. Raises: PlanError."""
    path = Path(run).absolute()
    if "/" not in run:
        return run
    if os.path.realpath(path.parent) == os.path.realpath(runs_dir):
        return path.name
    if (path / PLAN).exists():
        raise PlanError(f"{run} is not in {runs_dir}: add --runs-dir {Path(run).parent}")
    raise _missing(run, runs_dir)


def _missing(run: str, runs_dir: Path) -> PlanError:
    what = "is not a run" if Path(run).exists() else "there is no such file or folder"
    return PlanError(f"{run}: {what}; rankboard runs lists the runs in {runs_dir}")


def meant(run: str, names: Sequence[str]) -> str:
    """Which of these names, the newest last, somebody means by `run`: that one, the one that
    begins so, or (`last`) the newest; "" where there is none. Raises: PlanError, where several
    begin so."""
    if run == LAST or run in names:
        return run if run in names else next(reversed(names), "")
    fits = [name for name in names if name.startswith(run)]
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
