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
from remote.record.entry import DEFAULTS, RUNNING, UNKNOWN, Entry, is_setting, read_entry
from remote.record.files import is_folder
from remote.record.layout import EVENTS, INDEX, JOURNAL, NAME, NODE, NOTE, OVERVIEW, PLAN, STUDY
from remote.record.lock import launcher
from training.writing import write_whole

VERSION = 7
"""Increase it if the same files are to be read in another way."""
YOUNG = 2 * 10**9
"""Nanoseconds. A file that has just changed may change again at the same time and in size, as some
disks count time: what is read of it is not kept."""
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


def entries(runs_dir: Path, remark: Remark = lambda name, error: None) -> tuple[Entry, ...]:
    """Return the runs that are recorded in a folder, the newest last; none if there is no such
    folder. What is new is kept in the index, unless the folder cannot be written to."""
    old = _load_index(runs_dir / INDEX)
    now = time.time_ns()
    runs = dict[str, Cached]()
    trials = dict[str, tuple[str, str]]()
    for name in _list_folders(runs_dir):
        folder = f"{runs_dir}/{name}"
        errors = list[OSError]()
        if name.endswith(STUDY):
            trials |= _read_trials(Path(folder), errors.append)
        else:
            cached = old.runs.get(name)
            if cached is None or not _is_fresh(folder, cached):
                cached = _read_run(folder, errors)
            if cached:
                runs[name] = cached
        for error in errors:
            remark(name, error)
    new = Index(
        runs={
            name: cached
            for name, cached in runs.items()
            if cached is old.runs.get(name) or _newest_change(cached) < now - YOUNG
        }
    )
    if new != old:
        with suppress(OSError):
            write_whole(runs_dir / INDEX, msgspec.json.encode(new))
    return tuple(_complete(runs_dir, cached.run, trials) for cached in runs.values())


def _complete(runs_dir: Path, run: Entry, trials: Mapping[str, tuple[str, str]]) -> Entry:
    """Return a run with what the index does not know of it."""
    if run.name in trials:
        study, trial = trials[run.name]
        run = run._replace(study=study, trial=trial)
    if run.verdict:
        return run
    if run.problem:
        return run._replace(verdict=UNKNOWN)
    if launcher(runs_dir / run.name) is not None:
        return run._replace(verdict=RUNNING)
    return _ask_local_agents(run, runs_dir.absolute() / run.name / NODE)


def _ask_local_agents(run: Entry, workdir: Path) -> Entry:
    """Return a run that no launcher records and of which none has seen the end, with what its
    agents have recorded of it, if they are on this machine."""
    from training.agent import local_api  # rarely needed: most runs have ended under a launcher

    if not is_folder(workdir):
        return run._replace(verdict=UNKNOWN)
    try:
        folders = local_api.list_run_folders(str(workdir))
        parts = [local_api.examine(str(workdir), *folder, sized=False) for folder in folders]
    except OSError:
        parts = []
    phases = {part.phase for part in parts}
    verdict = next((outcome for outcome in OUTCOMES if outcome in phases), UNKNOWN)
    if any(part.live for part in parts):
        verdict = RUNNING
    if verdict == UNKNOWN:
        return run._replace(verdict=UNKNOWN)
    began = min(part.began for part in parts)
    last = max(part.last for part in parts)
    ages = [part.ended.age for part in parts if part.ended]
    elapsed = max(ages, default=0.0) or max(0.0, last - (run.started or began))
    step = max(part.step for part in parts)
    if step > run.step:  # the loss that is known here is an old one
        run = run._replace(step=step, loss=None, step_seconds=None)
    ranks_started = any(part.ranks for part in parts)
    return run._replace(verdict=verdict, elapsed=elapsed, ranks_started=ranks_started)


def _list_folders(runs_dir: Path) -> list[str]:
    """Return the names of the folders, sorted. A link is no folder."""
    try:
        with os.scandir(runs_dir) as items:
            folders = [item.name for item in items if item.is_dir(follow_symlinks=False)]
    except OSError:
        return []
    return sorted(name for name in folders if not name.startswith("."))


# What has changed ---------------------------------------------------------------------------------


def _read_run(folder: str, errors: list[OSError]) -> Cached | None:
    """Read the folder of a run; None if it has no plan. Also note why files that are there cannot
    be read. What is read without them is not kept: a disk, or a limit of open files, fails for a
    moment, and a permission that is given later changes no stamp."""
    # Stamped before it is read: what changes meanwhile is read again the next time.
    # The folder itself changes if a file is added, replaced or removed in it.
    stamps = {name: _stamp(f"{folder}/{name}") for name in (".", *SOURCES)}
    if not stamps[PLAN]:
        return None
    if stamps[OVERVIEW]:  # which a launcher rewrites as its records come
        del stamps[EVENTS]
    failures = list[OSError]()
    run = read_entry(Path(folder), failures.append)
    errors += [error for error in failures if not isinstance(error, FileNotFoundError)]
    present = {name: stamp for name, stamp in stamps.items() if stamp}
    known = "" if errors else " ".join(present.values())
    return Cached(" ".join(present), known, run)


def _is_fresh(folder: str, cached: Cached) -> bool:
    """Return True if no file that this was read from has changed since."""
    # This is called for thousands of folders, so it does as little as possible.
    try:
        statuses = [os.lstat(f"{folder}/{name}") for name in cached.files.split(" ")]
    except (OSError, ValueError):  # a spoilt index may have a name that no file can have
        return False
    stamps = [f"{status.st_mtime_ns}.{status.st_size}" for status in statuses]
    return cached.stamps == " ".join(stamps)


def _stamp(path: str) -> str:
    """Return when a file was changed, in ns, and its size in bytes; "" if there is none."""
    try:
        status = os.lstat(path)
    except OSError:
        return ""
    return f"{status.st_mtime_ns}.{status.st_size}"


def _newest_change(cached: Cached) -> float:
    """Return when the newest file was changed, in ns; infinite if what was read is not to be
    kept."""
    stamps = cached.stamps.split()
    return max((int(stamp.partition(".")[0]) for stamp in stamps), default=math.inf)


def _read_trials(study: Path, failed: files.Failed) -> dict[str, tuple[str, str]]:
    """Return the runs that the journal of a study names, each with the study and its trial ("": not
    known)."""
    trials = dict[str, tuple[str, str]]()
    name = study.name.removesuffix(STUDY)
    try:
        for line in files.lines(study / JOURNAL):
            data = load(line) or {}
            run = data.get("run")
            trial = data.get("trial")
            if isinstance(run, str) and isinstance(trial, str):
                trials[run] = name, trial
            elif isinstance(run, str):
                trials.setdefault(run, (name, ""))
    except FileNotFoundError:  # a folder that is no study
        pass
    except OSError as error:
        failed(error)
    return trials


# On disk ------------------------------------------------------------------------------------------


_decode_index = msgspec.json.Decoder(Index).decode


def _load_index(path: Path) -> Index:
    """Read an index; an empty one if it is missing, broken or of another version."""
    try:
        index = _decode_index(files.read(path, LIMITS.summary))
    except (OSError, msgspec.DecodeError, UnicodeError, RecursionError):
        return Index()
    for name, cached in index.runs.items():
        run = cached.run
        settings = run.job or {}
        if name != run.name or not all(starmap(is_setting, settings.items())):
            return Index()
    return index if index.head == HEAD else Index()
