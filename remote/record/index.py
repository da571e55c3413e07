"""The index of the runs that are recorded in a folder, so that thousands are listed quickly.

RUNS_DIR/.index.json keeps what was read of each run, and the times and sizes of the files that it
was read from. What has changed since is read again. The file holds nothing that the runs do not, so
it may be missing, broken or deleted at any time; it is written whole, and if two commands write it,
the last one's stays.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Generic, TypeVar

import msgspec

from remote.jsonl import load
from remote.limits import LIMITS
from remote.record import files
from remote.record.entry import DEFAULTS, RUNNING, UNKNOWN, Entry, is_setting, read_entry
from remote.record.files import is_folder
from remote.record.layout import EVENTS, INDEX, JOURNAL, NAME, NODE, NOTE, OVERVIEW, PLAN, STUDY
from remote.record.lock import launcher
from training.writing import write_whole

T = TypeVar("T")

VERSION = 6
"""Increase it if the same files are to be read in another way."""
YOUNG = 2 * 10**9
"""Nanoseconds. A file that has just changed may change again at the same time and in size, as some
disks count time: what is read of it is not kept."""
HEAD = [VERSION, [*Entry._fields], DEFAULTS]
"""An index that begins otherwise is of another version."""
SOURCES = (PLAN, JOURNAL, OVERVIEW, EVENTS, NOTE, NAME)
"""The files that a run or a study may be read from."""
OUTCOMES = ("lost", "failed", "stopped", "finished")
"""What becomes of a run is the first of these that any of its agents reports."""
Remark = Callable[[str, OSError], object]
"""Is called with the name of a folder, and why one of its files cannot be read."""


class Cached(msgspec.Struct, Generic[T], array_like=True, frozen=True, gc=False):
    """What the index keeps of one folder."""

    files: str
    """The names of the files that it was read from, separated by blanks; "." is the folder."""
    stamps: str
    """When each was changed, and its size; "" if what was read is not to be kept."""
    value: T
    """What was read."""


class Index(msgspec.Struct, frozen=True):
    """Runs and studies by the names of their folders. Of a study, the trial of each run is kept."""

    head: list[Any] = msgspec.field(default_factory=lambda: HEAD)
    runs: dict[str, Cached[Entry]] = {}
    studies: dict[str, Cached[dict[str, str]]] = {}


Read = Callable[[Path, files.Failed], T]
"""Reads a folder. Returns what there is to keep."""


def entries(runs_dir: Path, remark: Remark = lambda name, error: None) -> tuple[Entry, ...]:
    """Return the runs that are recorded in a folder, the newest last; none if there is no such
    folder. What is new is kept in the index, unless the folder cannot be written to."""
    old = _load_index(runs_dir / INDEX)
    now = time.time_ns()
    names = _list_folders(runs_dir)
    run_names = [name for name in names if not name.endswith(STUDY)]
    study_names = [name for name in names if name.endswith(STUDY)]
    runs = _update(runs_dir, run_names, old.runs, PLAN, read_entry, remark)
    studies = _update(runs_dir, study_names, old.studies, JOURNAL, _read_study, remark)
    new = Index(
        runs=_select_settled(runs, old.runs, now),
        studies=_select_settled(studies, old.studies, now),
    )
    if new != old:
        with suppress(OSError):
            write_whole(runs_dir / INDEX, msgspec.json.encode(new))
    trials = dict[str, tuple[str, str]]()
    for name, study in studies.items():
        for run, trial in study.value.items():
            trials[run] = name.removesuffix(STUDY), trial
    return tuple(_complete(runs_dir, cached.value, trials) for cached in runs.values())


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


def _update(
    runs_dir: Path,
    names: Iterable[str],
    old: Mapping[str, Cached[T]],
    mark: str,
    read: Read[T],
    remark: Remark,
) -> dict[str, Cached[T]]:
    """Return what these folders hold: from the index if nothing has changed, else read again. Those
    without the file `mark` are left out."""
    updated = dict[str, Cached[T]]()
    for name in names:
        folder = f"{runs_dir}/{name}"
        cached = old.get(name)
        if cached is None or not _is_fresh(folder, cached):
            cached, errors = _read_folder(folder, mark, read)
            for error in errors:
                remark(name, error)
        if cached:
            updated[name] = cached
    return updated


def _read_folder(folder: str, mark: str, read: Read[T]) -> tuple[Cached[T] | None, list[OSError]]:
    """Read a folder; None if it has no file `mark`. Also return why files that are there cannot be
    read. What is read without them is not kept: a disk, or a limit of open files, fails for a
    moment, and a permission that is given later changes no stamp."""
    # Stamped before it is read: what changes meanwhile is read again the next time.
    # The folder itself changes if a file is added, replaced or removed in it.
    stamps = {name: _stamp(f"{folder}/{name}") for name in (".", *SOURCES)}
    if not stamps[mark]:
        return None, []
    if stamps[OVERVIEW]:  # which a launcher rewrites as its records come
        del stamps[EVENTS]
    failures = list[OSError]()
    value = read(Path(folder), failures.append)
    errors = [error for error in failures if not isinstance(error, FileNotFoundError)]
    present = {name: stamp for name, stamp in stamps.items() if stamp}
    known = "" if errors else " ".join(present.values())
    return Cached(" ".join(present), known, value), errors


def _is_fresh(folder: str, cached: Cached[Any]) -> bool:
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


def _select_settled(
    updated: Mapping[str, Cached[T]], old: Mapping[str, Cached[T]], now: int
) -> dict[str, Cached[T]]:
    """Return those that could be read whole, and of which no file has just changed."""
    settled = dict[str, Cached[T]]()
    for name, cached in updated.items():
        is_old = cached is old.get(name)
        if is_old or (cached.stamps and _newest_change(cached.stamps) < now - YOUNG):
            settled[name] = cached
    return settled


def _newest_change(stamps: str) -> int:
    return max(int(stamp.partition(".")[0]) for stamp in stamps.split())


def _read_study(folder: Path, failed: files.Failed) -> dict[str, str]:
    """Return the runs that the journal of a study names, with their trials ("": not known)."""
    trials = dict[str, str]()
    try:
        for line in files.lines(folder / JOURNAL):
            data = load(line) or {}
            run = data.get("run")
            trial = data.get("trial")
            if isinstance(run, str):
                trials[run] = trial if isinstance(trial, str) else trials.get(run, "")
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
    runs = [(name, cached.value) for name, cached in index.runs.items()]
    is_sound = all(name == run.name and _has_sound_settings(run) for name, run in runs)
    return index if index.head == HEAD and is_sound else Index()


def _has_sound_settings(run: Entry) -> bool:
    settings = run.job or {}
    return all(is_setting(name, value) for name, value in settings.items())
