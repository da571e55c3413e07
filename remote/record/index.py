"""The index of the runs that are recorded in a folder, so that thousands are listed quickly.

RUNS_DIR/.index.json keeps what was read of each run, and the times and sizes of the files that it
was read from. What has changed since is read again. The file holds nothing that the runs do not, so
it may be missing, broken or deleted at any time; it is written whole, and if two commands write it,
the last one's stays.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from itertools import starmap
from pathlib import Path
from typing import Any

import msgspec

from remote.jsonl import load
from remote.limits import LIMITS
from remote.record import files
from remote.record.entry import (
    DEFAULTS,
    Entry,
    is_outdated,
    is_setting,
    read_entry,
    renew_entry,
)
from remote.record.figures import add_newer_steps
from remote.record.files import is_folder
from remote.record.layout import EVENTS, INDEX, JOURNAL, NAME, NODE, NOTE, OVERVIEW, PLAN, STUDY
from remote.record.lock import launcher
from remote.run.state.phases import LEFT, RUNNING, UNREADABLE
from training.writing import write_whole

VERSION = 7
"""Increase it if the same files are to be read in another way. Another field of `Entry` needs no
increase: `HEAD` names the fields."""
YOUNG = 2 * 10**9
"""Nanoseconds. A file that has just changed may change again at the same time and in size, as some
disks count time: what is read of it is not kept."""
RENEWAL_SECONDS = 0.5
"""How long runs of an older version are read again at once; others are the next time."""
HEAD = [VERSION, [*Entry._fields], DEFAULTS]
"""An index that begins otherwise is of another version."""
SOURCES = (PLAN, OVERVIEW, EVENTS, NOTE, NAME)
"""The files that a run may be read from."""
OUTCOMES = ("lost", "failed", "stopped", "finished")
"""What becomes of a run is the first of these that any of its agents reports."""
Remark = Callable[[str, OSError], object]
"""Is called with the name of a folder, and why one of its files cannot be read."""


class Cached(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """What the index keeps of one run."""

    files: str
    """The names of the files that it was read from, separated by blanks; "." is the folder."""
    stamps: str
    """When each was changed, and its size; "" if what was read is not to be kept."""
    run: Entry


class Index(msgspec.Struct, frozen=True):
    """Runs by the names of their folders."""

    head: list[Any] = msgspec.field(default_factory=lambda: HEAD)
    runs: dict[str, Cached] = {}


def entries(runs_dir: Path, remark: Remark = lambda folder_name, error: None) -> tuple[Entry, ...]:
    """Return the runs that are recorded in a folder, the newest last; none if there is no such
    folder. What is new is kept in the index, unless the folder cannot be written to."""
    old_index = _load_index(runs_dir / INDEX)
    now_ns = time.time_ns()
    cached_runs = dict[str, Cached]()
    study_trials = dict[str, tuple[str, str]]()
    for folder_name in _list_folders(runs_dir):
        folder = f"{runs_dir}/{folder_name}"
        read_errors = list[OSError]()
        if folder_name.endswith(STUDY):
            study_trials |= _read_trials(Path(folder), read_errors.append)
        else:
            cached = old_index.runs.get(folder_name)
            if cached is None or not _is_fresh(folder, cached):
                cached = _read_run(folder, read_errors)
            if cached:
                cached_runs[folder_name] = cached
        for error in read_errors:
            remark(folder_name, error)
    _renew_outdated(runs_dir, cached_runs)
    new_index = Index(
        runs={
            folder_name: cached
            for folder_name, cached in cached_runs.items()
            if cached is old_index.runs.get(folder_name) or _newest_change(cached) < now_ns - YOUNG
        }
    )
    if new_index != old_index:
        with suppress(OSError):
            write_whole(runs_dir / INDEX, msgspec.json.encode(new_index))
    return tuple(_complete(runs_dir, cached.run, study_trials) for cached in cached_runs.values())


def _renew_outdated(runs_dir: Path, cached_runs: dict[str, Cached]) -> None:
    """Read runs of an older version again, the newest first. The index keeps what is found."""
    deadline = time.monotonic() + RENEWAL_SECONDS
    for folder_name, cached in reversed(cached_runs.items()):
        if is_outdated(cached.run):
            run = renew_entry(runs_dir / folder_name, cached.run)
            cached_runs[folder_name] = msgspec.structs.replace(cached, run=run)
            if time.monotonic() >= deadline:
                return


def _complete(runs_dir: Path, run: Entry, study_trials: Mapping[str, tuple[str, str]]) -> Entry:
    """Return a run with what the index does not know of it."""
    if run.name in study_trials:
        study, trial = study_trials[run.name]
        run = run._replace(study=study, trial=trial)
    if run.verdict:
        return run
    if run.problem:
        return run._replace(verdict=UNREADABLE)
    if launcher(runs_dir / run.name) is not None:
        return run._replace(verdict=RUNNING)
    return _ask_local_agents(run, runs_dir.absolute() / run.name / NODE)


def _ask_local_agents(run: Entry, workdir: Path) -> Entry:
    """Return a run that no launcher records and of which none has seen the end, with what its
    agents have recorded of it, if they are on this machine."""
    from training.agent import local_api  # rarely needed: most runs have ended under a launcher

    if not is_folder(workdir):
        return run._replace(verdict=LEFT)
    try:
        run_folders = local_api.list_run_folders(str(workdir))
        host_parts = [
            local_api.examine(str(workdir), *folder, sized=False) for folder in run_folders
        ]
    except OSError:
        host_parts = []
    host_phases = {host_part.phase for host_part in host_parts}
    verdict = next((outcome for outcome in OUTCOMES if outcome in host_phases), LEFT)
    if any(host_part.live for host_part in host_parts):
        verdict = RUNNING
    if verdict == LEFT:
        return run._replace(verdict=LEFT)
    first_began = min(host_part.began for host_part in host_parts)
    last_change = max(host_part.last for host_part in host_parts)
    end_ages = [host_part.ended.age for host_part in host_parts if host_part.ended]
    elapsed = max(end_ages, default=0.0) or max(0.0, last_change - (run.started or first_began))
    run = add_newer_steps(run, max(host_part.step for host_part in host_parts))
    ranks_started = any(host_part.ranks for host_part in host_parts)
    return run._replace(verdict=verdict, elapsed=elapsed, ranks_started=ranks_started)


def _list_folders(runs_dir: Path) -> list[str]:
    """Return the names of the folders, sorted. A link is no folder."""
    try:
        with os.scandir(runs_dir) as folder_items:
            folder_names = [
                folder_item.name
                for folder_item in folder_items
                if folder_item.is_dir(follow_symlinks=False)
            ]
    except OSError:
        return []
    return sorted(folder_name for folder_name in folder_names if not folder_name.startswith("."))


# What has changed ---------------------------------------------------------------------------------


def _read_run(folder: str, errors: list[OSError]) -> Cached | None:
    """Read the folder of a run; None if it has no plan. Also note why files that are there cannot
    be read. What is read without them is not kept: a disk, or a limit of open files, fails for a
    moment, and a permission that is given later changes no stamp."""
    # Stamped before it is read: what changes meanwhile is read again the next time.
    # The folder itself changes if a file is added, replaced or removed in it.
    stamps = {file_name: _stamp(f"{folder}/{file_name}") for file_name in (".", *SOURCES)}
    if not stamps[PLAN]:
        return None
    if stamps[OVERVIEW]:  # which a launcher rewrites as its records come
        del stamps[EVENTS]
    all_errors = list[OSError]()
    run = read_entry(Path(folder), all_errors.append)
    errors += [error for error in all_errors if not isinstance(error, FileNotFoundError)]
    present_stamps = {
        file_name: file_stamp for file_name, file_stamp in stamps.items() if file_stamp
    }
    kept_stamps = "" if errors else " ".join(present_stamps.values())
    return Cached(" ".join(present_stamps), kept_stamps, run)


def _is_fresh(folder: str, cached: Cached) -> bool:
    """Return True if no file that this was read from has changed since."""
    # This is called for thousands of folders, so it does as little as possible.
    try:
        file_statuses = [os.lstat(f"{folder}/{file_name}") for file_name in cached.files.split(" ")]
    except (OSError, ValueError):  # a spoilt index may have a name that no file can have
        return False
    current_stamps = [
        f"{file_status.st_mtime_ns}.{file_status.st_size}" for file_status in file_statuses
    ]
    return cached.stamps == " ".join(current_stamps)


def _stamp(path: str) -> str:
    """Return when a file was changed, in ns, and its size in bytes; "" if there is none."""
    try:
        file_status = os.lstat(path)
    except OSError:
        return ""
    return f"{file_status.st_mtime_ns}.{file_status.st_size}"


def _newest_change(cached: Cached) -> float:
    """Return when the newest file was changed, in ns; infinite if what was read is not to be
    kept."""
    file_stamps = cached.stamps.split()
    return max((int(file_stamp.partition(".")[0]) for file_stamp in file_stamps), default=math.inf)


def _read_trials(study: Path, on_failure: files.Failed) -> dict[str, tuple[str, str]]:
    """Return the runs that the journal of a study names, each with the study and its trial ("": not
    known)."""
    trials = dict[str, tuple[str, str]]()
    study_name = study.name.removesuffix(STUDY)
    try:
        for line in files.lines(study / JOURNAL):
            journal_entry = load(line) or {}
            run_name = journal_entry.get("run")
            trial_name = journal_entry.get("trial")
            if isinstance(run_name, str) and isinstance(trial_name, str):
                trials[run_name] = study_name, trial_name
            elif isinstance(run_name, str):
                trials.setdefault(run_name, (study_name, ""))
    except FileNotFoundError:  # a folder that is no study
        pass
    except OSError as error:
        on_failure(error)
    return trials


# On disk ------------------------------------------------------------------------------------------


_decode_index = msgspec.json.Decoder(Index).decode


def _load_index(path: Path) -> Index:
    """Read an index; an empty one if it is missing, broken or of another version."""
    try:
        index = _decode_index(files.read(path, LIMITS.summary))
    except (OSError, msgspec.DecodeError, UnicodeError, RecursionError):
        return Index()
    for run_name, cached in index.runs.items():
        run = cached.run
        job_settings = run.job or {}
        if run_name != run.name or not all(starmap(is_setting, job_settings.items())):
            return Index()
    return index if index.head == HEAD else Index()
