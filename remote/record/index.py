"""The index of the runs that are recorded in a folder, so that thousands are listed at once.

RUNS_DIR/.index.json keeps what was read of each run, and the times and sizes of the files that it
was read from. What has changed since is read again. The file holds nothing that the runs do not, so
it may be missing, broken or deleted at any time; it is written whole, and of two commands at once
the last one's stays.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from remote.jsonl import load
from remote.limits import LIMITS
from remote.record import entry, files
from remote.record.entry import DEFAULTS, RUNNING, UNKNOWN, Entry
from remote.record.files import is_folder
from remote.record.layout import EVENTS, INDEX, JOURNAL, NAME, NODE, NOTE, PLAN, STUDY, SUMMARY
from remote.record.lock import launcher
from training.wire.host_replies import RunFolder
from training.writing import write_whole

VERSION = 4
"""Increase it where the same files are to be read in another way."""
YOUNG = 2 * 10**9
"""Nanoseconds. A file that has just changed may change again at the same time and in size, as some
disks count time: what is read of it is not kept."""
STORED = Entry._fields[1:-2]
"""The fields of a run that the index keeps: all but its name, and its study and trial."""
JOB, HOSTS = map(STORED.index, ("job", "hosts"))
ENDED = (f"/{SUMMARY}", f"/{NOTE}", f"/{NAME}")
OTHERS = (*ENDED, f"/{EVENTS}")
"""What is read of a run beside its plan, where it has ended and where it has not."""
HEAD = [VERSION, [*STORED], DEFAULTS]
"""An index that begins otherwise is of another version."""
NO_STUDY = ("", "")
FATES = ("lost", "failed", "stopped", "finished")
"""What becomes of a run is the first of these that any of its agents tells."""
Remark = Callable[[str, OSError], object]
TYPES: dict[str, set[type]] = {
    "str": {str},
    "int": {int},
    "bool": {bool},
    "float | None": {float, int, type(None)},
    "dict[str, Any] | None": {dict, type(None)},
    "tuple[str, ...]": {list},
}
"""The types that a field may have in the file, by the text of its annotation."""


class Cached(NamedTuple):
    """What the index keeps of one folder: the files that it was read from ("" for the folder
    itself, else "/NAME"), their stamps, and what was read. Without stamps it is not kept."""

    files: str
    stamps: str
    data: Any


class Index(NamedTuple):
    """Runs, as lists of the fields `STORED`, and studies, as {run: trial}, by their folders."""

    runs: dict[str, Cached]
    studies: dict[str, Cached]


class _Kind(NamedTuple):
    """A kind of folder: the file that makes it one, and how to read it: what there is to keep, and
    of which other files, as "/NAME". `read` is given who is told of a file that it cannot read."""

    mark: str
    read: Callable[[Path, files.Failed], tuple[Any, tuple[str, ...]]]


def entries(runs_dir: Path, remark: Remark = lambda name, error: None) -> tuple[Entry, ...]:
    """The runs that are recorded in a folder, the newest last; none where it does not exist.
    `remark` is told of each file that is there and cannot be read: the name of its folder, and why.

    What is new is kept in the index, unless the folder cannot be written to.
    """
    old = _load(runs_dir / INDEX)
    now = time.time_ns()
    found = _folders(runs_dir)
    of_studies = [one for one in found if one.endswith(STUDY)]
    of_runs = [one for one in found if not one.endswith(STUDY)]
    runs = _updated(runs_dir, of_runs, old.runs, _RUN, remark)
    studies = _updated(runs_dir, of_studies, old.studies, _STUDY, remark)
    new = Index(_settled(runs, old.runs, now), _settled(studies, old.studies, now))
    if new != old:
        _save(runs_dir / INDEX, new)
    trials = {
        run: (name.removesuffix(STUDY), trial)
        for name, kept in studies.items()
        for run, trial in kept.data.items()
    }
    return tuple(_entry(runs_dir, name, kept.data, trials) for name, kept in runs.items())


def _entry(
    runs_dir: Path, name: str, row: list[Any], trials: Mapping[str, tuple[str, str]]
) -> Entry:
    """The run of a row, with what the index does not know of it."""
    found = Entry._make((name, *row, *trials.get(name, NO_STUDY)))
    if found.verdict:
        return found
    if found.problem:
        return found._replace(verdict=UNKNOWN)
    if launcher(runs_dir / name) is not None:
        return found._replace(verdict=RUNNING)
    return _left(found, runs_dir.absolute() / name / NODE)


def _left(found: Entry, workdir: Path) -> Entry:
    """A run that no launcher records and of which none has seen the end, with what its agents have
    recorded of it, where they are on this machine."""
    from training.agent import local_api  # most runs have ended under a launcher

    parts: list[RunFolder] = []
    if is_folder(workdir):
        with suppress(OSError):
            parts = [
                local_api.examine(str(workdir), *one, sized=False)
                for one in local_api.folders(str(workdir))
            ]
    fates = {part.phase for part in parts}
    fate = next((one for one in FATES if one in fates), UNKNOWN)
    if any(part.live for part in parts):
        fate = RUNNING
    if fate == UNKNOWN:
        return found._replace(verdict=UNKNOWN)
    began = min(part.began for part in parts)
    last = max(part.last for part in parts)
    step = max(part.step for part in parts)
    ages = [part.ended.age for part in parts if part.ended]
    elapsed = max(ages, default=0.0) or max(0.0, last - (found.started or began))
    if step > found.step:  # the loss that is known here is an old one
        found = found._replace(step=step, loss=None, step_seconds=None)
    ranks_started = any(part.ranks for part in parts)
    return found._replace(verdict=fate, elapsed=elapsed, ranks_started=ranks_started)


def _folders(runs_dir: Path) -> list[str]:
    """The names of the folders, sorted. A link is none."""
    try:
        with os.scandir(runs_dir) as found:
            return sorted(
                one.name
                for one in found
                if not one.name.startswith(".") and one.is_dir(follow_symlinks=False)
            )
    except OSError:
        return []


# What has changed ---------------------------------------------------------------------------------


def _updated(
    runs_dir: Path, names: Iterable[str], old: Mapping[str, Cached], kind: _Kind, remark: Remark
) -> dict[str, Cached]:
    """What these folders hold: from the index where nothing has changed, else read again."""
    made = {}
    for name in names:
        kept = old.get(name)
        folder = f"{runs_dir}/{name}"
        if not kept or not _is_fresh(folder, kept):
            kept, errors = _read(folder, kind)
            for error in errors:
                remark(name, error)
        if kept:
            made[name] = kept
    return made


def _read(folder: str, kind: _Kind) -> tuple[Cached | None, list[OSError]]:
    """Read a folder; None where it is not of this kind. Also gives why files that are there cannot
    be read. What is read without them is not kept: a disk, or a limit of open files, fails for a
    moment, and a permission that is given later changes no stamp."""
    # Looked at before it is read: what changes meanwhile is read again the next time.
    # The folder itself changes where a file is added, replaced or removed in it.
    mark = f"/{kind.mark}"
    stamps = {file: _stamp(folder + file) for file in ("", mark, *OTHERS)}
    if not stamps[mark]:
        return None, []
    failures = list[OSError]()
    data, others = kind.read(Path(folder), failures.append)
    errors = [error for error in failures if not isinstance(error, FileNotFoundError)]
    made_from = [file for file in ("", mark, *others) if stamps[file]]
    known = "" if errors else " ".join(stamps[file] for file in made_from)
    return Cached(" ".join(made_from), known, data), errors


def _is_fresh(folder: str, kept: Cached) -> bool:
    """Whether no file that this was read from has changed since."""
    try:  # for thousands of folders: as little as possible
        found = [os.lstat(folder + file) for file in kept.files.split(" ")]
    except (OSError, ValueError):  # of a spoilt index: a name that no file can have
        return False
    return kept.stamps == " ".join([f"{one.st_mtime_ns}.{one.st_size}" for one in found])


def _stamp(path: str) -> str:
    """When a file was changed, in ns, and its size in bytes; "" where it is not there."""
    try:
        found = os.lstat(path)
    except OSError:
        return ""
    return f"{found.st_mtime_ns}.{found.st_size}"


def _settled(found: dict[str, Cached], old: Mapping[str, Cached], now: int) -> dict[str, Cached]:
    """Those that are read whole, and of which no file has just changed."""
    return {
        name: kept
        for name, kept in found.items()
        if kept is old.get(name) or (kept.stamps and _newest(kept.stamps) < now - YOUNG)
    }


def _newest(stamps: str) -> int:
    return max(int(stamp.partition(".")[0]) for stamp in stamps.split())


def _run(folder: Path, failed: files.Failed) -> tuple[list[Any], tuple[str, ...]]:
    """The row of a run. Its events matter as long as it has not ended."""
    found = entry.read(folder, failed)
    row = list(found[1:-2])
    return row, ENDED if found.verdict else OTHERS


def _study(folder: Path, failed: files.Failed) -> tuple[dict[str, str], tuple[str, ...]]:
    """The runs that the journal of a study names, with their trials ("": not known)."""
    found: dict[str, str] = {}
    try:
        for line in files.lines(folder / JOURNAL):
            said = load(line) or {}
            run = said.get("run")
            trial = said.get("trial")
            if isinstance(run, str):
                found[run] = trial if isinstance(trial, str) else found.get(run, "")
    except OSError as error:
        failed(error)
    return found, ()


_RUN = _Kind(PLAN, _run)
_STUDY = _Kind(JOURNAL, _study)


# On disk ------------------------------------------------------------------------------------------


def _load(path: Path) -> Index:
    """The index of a file; empty where it is missing, broken or of another version."""
    try:
        data = load(files.read(path, LIMITS.summary)) or {}
        if data["head"] != HEAD:
            return Index({}, {})
        found = Index(*(_cached(data[name]) for name in Index._fields))
        if not _is_sound(found):
            return Index({}, {})
    except (OSError, LookupError, TypeError, ValueError, AttributeError):
        return Index({}, {})
    for kept in found.runs.values():
        kept.data[HOSTS] = tuple(kept.data[HOSTS])
    return found


def _cached(data: dict[str, Any]) -> dict[str, Cached]:
    return {name: Cached(*one) for name, one in data.items()}


def _is_sound(index: Index) -> bool:
    """Whether all that is in an index has its type. May raise what reading a wrong type raises."""
    texts = [text for of in index for kept in of.values() for text in kept[:2]]
    rows = [kept.data for kept in index.runs.values()]
    columns = zip(STORED, zip(*rows, strict=True), strict=True) if rows else ()
    trials = (trial for kept in index.studies.values() for trial in kept.data.values())
    return (
        {*map(type, texts)} <= {str}
        and all(_are_values(field, column) for field, column in columns)
        and all(entry.is_setting(*one) for row in rows for one in (row[JOB] or {}).items())
        and {type(host) for row in rows for host in row[HOSTS]} <= {str}
        and {*map(type, trials)} <= {str}
    )


def _are_values(field: str, column: Sequence[Any]) -> bool:
    """Whether a field of runs may have these values."""
    numbers = [value for value in column if type(value) in (int, float)]
    is_typed = {*map(type, column)} <= types_of(field)
    return is_typed and all(entry.number(value) is not None for value in numbers)


def types_of(field: str) -> set[type]:
    """The types that a stored field may have."""
    return TYPES[Entry.__annotations__[field].__forward_arg__]


def _save(path: Path, index: Index) -> None:
    """Write the index, if it can be written."""
    data = {"head": HEAD} | index._asdict()
    with suppress(OSError):
        write_whole(path, json.dumps(data, separators=(",", ":")).encode())
