"""Find a recorded run by what a person calls it."""

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
"""How many runs a message names if several are meant."""


def find(run: str, runs_dir: Path) -> Path | None:
    """Return the folder of a run that is recorded here; None if there is none.

    A run is given by its name, the name that a person gave it, the beginning of its name, its path,
    or as `last`: the newest one that has begun. Raises: PlanError, if several are meant, or if a
    path leads elsewhere.
    """
    folders = recorded(runs_dir)
    name = _name_of_path(run, runs_dir) if is_path(run) else run
    if name == LAST and not (runs_dir / LAST / PLAN).exists():
        folders.reverse()
        begun = filter(has_begun, folders)  # looked at one by one, as that takes a while
        return next(begun, folders[0] if folders else None)
    if name in [folder.name for folder in folders]:
        return runs_dir / name
    full_name = meant(name, labels(runs_dir))
    if not full_name and is_path(run):
        raise _missing(run, runs_dir)
    return runs_dir / full_name if full_name else None


def is_path(run: str) -> bool:
    """Return True if a run is given by its path, which may be that of a recorded run."""
    return "/" in run


def labels(runs_dir: Path) -> dict[str, str]:
    """Return the runs that are recorded here, the newest last, with the name that a person gave
    each ("": none)."""
    return {folder.name: marks.name(folder) for folder in recorded(runs_dir)}


def _name_of_path(run: str, runs_dir: Path) -> str:
    """Return the name of a run that is given by its path. Raises: PlanError."""
    path = Path(run).absolute()
    if os.path.realpath(path.parent) == os.path.realpath(runs_dir):
        return path.name
    if (path / PLAN).exists():
        raise PlanError(f"{run} is not in {runs_dir}: add --runs-dir {Path(run).parent}")
    raise _missing(run, runs_dir)


def _missing(run: str, runs_dir: Path) -> PlanError:
    problem = "is not a run" if Path(run).exists() else "there is no such file or folder"
    return PlanError(f"{run}: {problem}; rankboard runs lists the runs in {runs_dir}")


def meant(run: str, labels: Mapping[str, str]) -> str:
    """Return which of these runs, the newest last, is meant: the run with this name, the one that a
    person gave this name, or the one whose name begins so; "" if there is none.

    Raises: PlanError, if there are several.
    """
    if run in labels:
        return run
    named = [name for name, label in labels.items() if run and label == run]
    if named:
        _check_single(run, named, "have this name")
        return named[0]
    matching = [name for name in labels if name.startswith(run)]
    _check_single(run, matching, "begin so; write more of the name")
    return matching[0] if matching else ""


def _check_single(run: str, matching: Sequence[str], why: str) -> None:
    """Raises: PlanError, if several runs match."""
    if len(matching) <= 1:
        return
    lines = [f"{run}: {len(matching)} runs {why}:"]
    lines += [f"  {name}" for name in matching[: -LISTED - 1 : -1]]
    if len(matching) > LISTED:
        lines.append(f"  and {len(matching) - LISTED} more; rankboard ps lists them")
    raise PlanError("\n".join(lines))
