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


def find(asked_run: str, runs_dir: Path) -> Path | None:
    """Return the folder of a run that is recorded here; None if there is none.

    A run is given by its name, the name that a person gave it, the beginning of its name, its path,
    or as `last`: the newest one that has begun. A path may also lead to a run that is recorded
    elsewhere. Raises: PlanError, if several are meant, or if a path leads to none.
    """
    runs_dir = runs_dir_of(asked_run, runs_dir)
    folders = recorded(runs_dir)
    run_name = _name_of_path(asked_run, runs_dir) if is_path(asked_run) else asked_run
    if run_name == LAST and not (runs_dir / LAST / PLAN).exists():
        folders.reverse()
        begun_runs = filter(has_begun, folders)  # looked at one by one, as that takes a while
        return next(begun_runs, folders[0] if folders else None)
    # A whole name comes before all else: it may also be the beginning of another one.
    if run_name in [folder.name for folder in folders]:
        return runs_dir / run_name
    full_name = meant(run_name, labels(runs_dir))
    if not full_name and is_path(asked_run):
        raise _missing(asked_run, runs_dir)
    return runs_dir / full_name if full_name else None


def runs_dir_of(asked_run: str, runs_dir: Path) -> Path:
    """Return the folder of runs that is meant: another one than `runs_dir`, where the path of a run
    leads into it."""
    if not is_path(asked_run):
        return runs_dir
    parent = Path(asked_run).absolute().parent
    is_elsewhere = os.path.realpath(parent) != os.path.realpath(runs_dir)
    return parent if is_elsewhere and recorded(parent) else runs_dir


def is_path(run: str) -> bool:
    """Return True if a run is given by its path, which may be that of a recorded run."""
    return "/" in run


def labels(runs_dir: Path) -> dict[str, str]:
    """Return the runs that are recorded here, the newest last, with the name that a person gave
    each ("": none)."""
    return {folder.name: marks.name(folder) for folder in recorded(runs_dir)}


def _name_of_path(asked_run: str, runs_dir: Path) -> str:
    """Return the name of a run that is given by its path. Raises: PlanError."""
    run_path = Path(asked_run).absolute()
    if os.path.realpath(run_path.parent) == os.path.realpath(runs_dir):
        return run_path.name
    raise _missing(asked_run, runs_dir)


def _missing(asked_run: str, runs_dir: Path) -> PlanError:
    problem = "is not a run" if Path(asked_run).exists() else "there is no such file or folder"
    return PlanError(f"{asked_run}: {problem}; rankboard runs lists the runs in {runs_dir}")


def meant(asked_run: str, labels: Mapping[str, str]) -> str:
    """Return which of these runs, the newest last, is meant: the run with this name, the one that a
    person gave this name, or the one whose name begins so; "" if there is none.

    Raises: PlanError, if there are several.
    """
    if asked_run in labels:
        return asked_run
    labelled_names = [
        run_name for run_name, run_label in labels.items() if asked_run and run_label == asked_run
    ]
    if labelled_names:
        _check_single(asked_run, labelled_names, "have this name")
        return labelled_names[0]
    matching_names = [run_name for run_name in labels if run_name.startswith(asked_run)]
    _check_single(asked_run, matching_names, "begin so; write more of the name")
    return matching_names[0] if matching_names else ""


def _check_single(asked_run: str, matching_names: Sequence[str], explanation: str) -> None:
    """Raises: PlanError, if several runs match."""
    if len(matching_names) <= 1:
        return
    message_lines = [f"{asked_run}: {len(matching_names)} runs {explanation}:"]
    message_lines += [f"  {run_name}" for run_name in matching_names[: -LISTED - 1 : -1]]
    if len(matching_names) > LISTED:
        message_lines.append(f"  and {len(matching_names) - LISTED} more; rankboard ps lists them")
    raise PlanError("\n".join(message_lines))
