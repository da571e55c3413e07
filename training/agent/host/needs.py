"""Looks for what a run needs on this host: the files of its data set, a checkpoint, the user's own
program. It looks at few
files, and reads those of a data set for a few seconds at most, because every start and every doctor
waits for it.
"""

from __future__ import annotations

import os

from training.agent.host.system import disk_free, nearest_existing
from training.agent.layout import CHECKPOINTS, MANIFEST, SAVED, STEP, expand_path, step_of

TYPE_CHECKING = False  # as typing itself takes long to import
if TYPE_CHECKING:
    from typing import Any

SECONDS = 3.0
"""How long the files of a data set are read, and its sources tried, unless that is asked for."""
KNOWN = 5
"""The number of runs that are named if the requested one has no checkpoint."""


def check_needs(needs: dict[str, Any], folder: str) -> dict[str, Any]:
    """Return the fields of `Hello` about the work.

    `needs` is from `remote.plan.needs`; `folder` is the run's folder on this host.
    """
    program = needs.get("program")
    if program:
        from training.agent.host import program as programs  # which most runs do not need

        return programs.check_script(program)
    facts: dict[str, Any] = {}
    path = needs.get("path")
    if path:
        facts |= _check_path(path)
    elif data := needs.get("data"):
        facts |= _check_files(data, needs)
    resume = needs.get("resume")
    if resume:
        newest_step = _newest_step(resume, folder)
        facts |= {
            "resume": resume,
            "resume_step": newest_step,
            "resume_known": () if newest_step else _runs_with_checkpoints(folder),
        }
    return facts


def _check_path(path: str) -> dict[str, Any]:
    """Check that a file or folder can be read."""
    path = expand_path(path)
    problem = ""
    try:
        os.stat(path)
    except OSError as error:
        problem = f"{path}: {error.strerror}"
    else:
        if not os.access(path, os.R_OK):
            problem = f"{path}: Permission denied"
    return {"data_folder": path, "data_problem": problem}


def _check_files(folder: str, needs: dict[str, Any]) -> dict[str, Any]:
    """Look for the files of a data set in a folder: which are damaged or missing, and why the
    missing ones cannot be downloaded into it."""
    folder = expand_path(folder)
    facts: dict[str, Any] = {"data_folder": folder}
    seconds = needs.get("seconds", SECONDS)
    archive = needs["archive"]
    known_sums = dict(needs["sums"])
    try:
        missing_files = [file for file in needs["files"] if not _is_there(folder, file)]
        if missing_files and any(_is_there(folder, file) for file in archive):
            missing_files = []
            known_sums |= archive
        facts |= _compare_files(folder, known_sums, seconds)
    except OSError as error:
        return facts | {"data_problem": f"{error.filename}: {error.strerror}"}
    if not missing_files:
        return facts
    nearest_folder = nearest_existing(folder)
    problem = (
        "" if os.access(nearest_folder, os.W_OK | os.X_OK) else f"{nearest_folder} is not writable"
    )
    facts["data_missing"] = tuple(missing_files)
    facts["data_problem"] = problem
    facts["data_free"] = disk_free(nearest_folder)
    if needs["sources"] and not problem:
        from training.agent.host.reach import unreachable

        unreachable_servers = unreachable(needs["sources"], seconds, needs.get("proxies", {}))
        facts |= {"data_unreachable": unreachable_servers} if unreachable_servers else {}
    return facts


def _compare_files(folder: str, sums: dict[str, str], seconds: float) -> dict[str, Any]:
    """Compare the files that are there with their MD5 sums. Raises: OSError, where one cannot be
    read."""
    paths = {f"{folder}/{file}": md5 for file, md5 in sums.items()}
    present_files = {path: md5 for path, md5 in paths.items() if os.path.isfile(path)}
    if not present_files:
        return {}
    from training.checksums import compare

    damaged_files, unread_files = compare(present_files, seconds)
    facts = {"data_damaged": damaged_files, "data_unread": unread_files}
    return {name: files for name, files in facts.items() if files}


def _is_there(folder: str, file: str) -> bool:
    """Return True if there is a file, or its unpacked content. Raises: OSError, without
    permission."""
    for name in {file, file.removesuffix(".gz")}:
        try:
            os.stat(f"{folder}/{name}")
        except (FileNotFoundError, NotADirectoryError):
            continue
        return True
    return False


def _newest_step(resume: str, folder: str) -> int:
    """Return the step of the newest complete checkpoint; 0 if there is none.

    `resume` is a path, or the name of a run in the same workdir.
    """
    from glob import escape, glob  # slow to import, and most jobs do not resume

    runs_folder = os.path.dirname(os.path.dirname(folder))
    search_root = os.path.expanduser(resume) if "/" in resume else f"{runs_folder}/{resume}"
    steps = [0]
    for subfolder in (f"*/{CHECKPOINTS}", CHECKPOINTS, "."):
        manifests = glob(f"{escape(search_root)}/{subfolder}/{STEP}*/{MANIFEST}")
        steps += map(step_of, manifests)
    return max(steps)


def _runs_with_checkpoints(folder: str) -> tuple[str, ...]:
    """Return the newest runs in the same workdir that have complete checkpoints."""
    from glob import escape, glob

    runs_folder = os.path.dirname(os.path.dirname(folder))
    manifests = glob(f"{escape(runs_folder)}/*/*/{SAVED}")
    run_names = {os.path.relpath(manifest, runs_folder).partition("/")[0] for manifest in manifests}
    return tuple(sorted(run_names, reverse=True)[:KNOWN])
