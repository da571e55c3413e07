"""The host commands that move files: `receive` takes the operator's in before a run, `send` gives a
run's results out after it.

Both are one conversation. Who has the files announces all of them (`entries`, with digests), the
other end says which of them it lacks (`need`, their numbers), and those come, one after the other,
as bytes without anything between them.
"""

from __future__ import annotations

import errno
import json
import os
import signal
import stat
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import asdict, dataclass
from typing import Any

from training.agent.find_files import Search
from training.agent.layout import MANIFEST
from training.file_locks import try_lock
from training.transfer.entries import (
    FileEntry,
    Misplaced,
    Stamp,
    compute_digest,
    entries_of,
    open_file,
    read_chunks,
    read_stamp,
    stamp_of,
    stays_inside,
)
from training.transfer.incoming import TransferReader
from training.transfer.tree import DamagedTransfer, Tree, list_files
from training.writing import write_whole

PATIENCE = 60
"""Seconds without a byte from or to the launcher after which a command ends, as nobody is there any
more."""

BEAT = 10
"""Seconds after which a host command that reads long says so."""
_reported_at = time.monotonic()

FOLDER_STAMP: Stamp = (0, 0, 0, 0)
"""Stands for any state of a folder, which changes with what the ranks write in it."""
Answers = Iterator["dict[str, Any] | bytes"]


@dataclass(frozen=True)
class UploadedFile:
    """A file that an upload put here, and its stamp from then, where the upload came to its end."""

    entry: FileEntry
    stamp: Stamp | None = None


def receive(folder: str, name: str, mark: str) -> Answers:
    """`receive FOLDER NAME MARK`: make FOLDER/NAME hold what is announced on stdin; what an earlier
    upload put there, and is not announced any more, goes, unless it has changed since. MARK stands
    for the announcement: where the last upload had the same, it is not asked for again.

    Says `unknown` where it waits for the announcement, then `need`, `kept` (the paths of those that
    have changed), `replaced` (of those that have changed and are announced otherwise) and, at the
    end, `damaged` (the paths of those that did not arrive as announced); before that perhaps
    `busy`, while it has nothing else to say.
    """
    os.makedirs(folder, mode=0o700, exist_ok=True)
    root = f"{folder}/{name}"
    with open(f"{root}.lock", "ab") as lock_file:
        for _ in _wait_for_lock(lock_file.fileno()):
            yield {"busy": "another upload into the same folder is under way"}
        with closing(Tree(root, f"{root}.new")) as tree:
            yield from _take_upload(tree, f"{root}.json", mark, TransferReader(_read_stdin))
    signal.alarm(0)


def _take_upload(
    tree: Tree, record_path: str, announced_mark: str, incoming: TransferReader
) -> Answers:
    tree.sweep()
    uploaded, last_mark = _read_record(record_path)
    if announced_mark == last_mark:
        entries = [file.entry for file in uploaded.values()]
    else:
        yield {"unknown": announced_mark}
        entries = entries_of(incoming.line().get("entries"))
    announced = {entry.path: entry for entry in entries}
    kept_paths = _remove_unannounced(
        tree, [uploaded[path] for path in uploaded.keys() - announced.keys()]
    )
    file_states = tree.states(announced)
    stamp_by_path = {
        path: _stamp_if_there(tree, entry, uploaded.get(path), file_states.get(path))
        for path, entry in announced.items()
    }
    needed_numbers = [
        number for number, entry in enumerate(entries) if not stamp_by_path[entry.path]
    ]
    needed_entries = [entries[number] for number in needed_numbers]
    replaced_paths = [
        entry.path
        for entry in needed_entries
        if _is_changed(uploaded.get(entry.path), file_states.get(entry.path))
    ]
    _check_room(tree, sum(entry.size for entry in needed_entries))
    if needed_numbers or uploaded.keys() != announced.keys():
        # What comes now is ours, even if its upload breaks half way.
        begun_uploads = {
            path: uploaded.get(path, UploadedFile(entry)) for path, entry in announced.items()
        }
        _write_record(record_path, begun_uploads)
    yield {"need": needed_numbers, "kept": kept_paths, "replaced": replaced_paths}
    damaged_paths: list[str] = []
    for entry in needed_entries:
        try:
            tree.put(entry, incoming.take(entry.size))
        except DamagedTransfer as error:
            damaged_paths.append(str(error))
            del announced[entry.path]
    complete_uploads = {
        path: UploadedFile(entry, stamp_by_path[path] or _current_stamp(tree, entry))
        for path, entry in announced.items()
    }
    complete_mark = "" if damaged_paths else announced_mark
    if (complete_uploads, complete_mark) != (uploaded, last_mark):
        _write_record(record_path, complete_uploads, complete_mark)
    yield {"damaged": damaged_paths}


def _remove_unannounced(tree: Tree, unannounced: list[UploadedFile]) -> list[str]:
    """Remove what an upload put here and is not announced any more. Return the paths of what has
    changed since, and stays."""
    changed_paths = []
    for uploaded in unannounced:
        path = uploaded.entry.path
        if uploaded.entry.is_folder:
            tree.remove_empty_folders(path)
            continue
        with suppress(Misplaced):  # what lies behind a link is not what we put here
            stamp = _current_stamp(tree, uploaded.entry)
            if stamp is None:
                continue
            if uploaded.stamp == stamp or tree.holds(uploaded.entry, _report_working):
                tree.remove(path)
            else:
                changed_paths.append(path)
    return sorted(changed_paths)


def _stamp_if_there(
    tree: Tree, entry: FileEntry, uploaded: UploadedFile | None, file_state: os.stat_result | None
) -> Stamp | None:
    """Return the stamp of a file that is there as announced, None if it is not there.

    The file is also made executable, or not, as announced.
    """
    if file_state is None:
        return None
    if entry.is_folder:
        return FOLDER_STAMP if tree.holds(entry) else None
    stamp = stamp_of(file_state)
    if uploaded and uploaded.stamp == stamp:
        is_there = (uploaded.entry.digest, uploaded.entry.link) == (entry.digest, entry.link)
    else:
        is_there = tree.holds(entry, _report_working)
    if not is_there:
        return None
    if not entry.link and _is_executable(file_state) != entry.executable:
        tree.mark(entry)
        return _current_stamp(tree, entry)
    return stamp


def _is_executable(file_state: os.stat_result) -> bool:
    return bool(file_state.st_mode & stat.S_IXUSR)


def _is_changed(uploaded: UploadedFile | None, file_state: os.stat_result | None) -> bool:
    """Return True if there is a file that is no longer what an upload put there."""
    if file_state is None or not stat.S_ISREG(file_state.st_mode):
        return False
    if uploaded is None:
        return True
    return uploaded.stamp not in (None, stamp_of(file_state))


def _current_stamp(tree: Tree, entry: FileEntry) -> Stamp | None:
    if entry.is_folder:
        return FOLDER_STAMP
    file_state = tree.state(entry.path)
    return stamp_of(file_state) if file_state else None


def _check_room(tree: Tree, needed_bytes: int) -> None:
    free_bytes = tree.free()
    if needed_bytes > free_bytes:
        problem = (
            f"the upload takes {needed_bytes >> 20} MiB, and its disk has {free_bytes >> 20} MiB "
            "left: make room there, or set another workdir for it in hosts.toml"
        )
        raise OSError(errno.ENOSPC, problem)


def _read_record(record_path: str) -> tuple[dict[str, UploadedFile], str]:
    """Read what uploads have put here, and the mark of the last one that came to its end; nothing
    if that is not known."""
    try:
        with open(record_path, "rb") as file:
            record_data = json.load(file)
        entries = entries_of(record_data["entries"])
        stamps = record_data["stamps"]
        uploaded = [
            UploadedFile(entry, read_stamp(mark) if mark else None)
            for entry, mark in zip(entries, stamps, strict=True)
        ]
        return {file.entry.path: file for file in uploaded}, str(record_data["mark"])
    except (OSError, ValueError, LookupError, TypeError):
        return {}, ""


def _write_record(record_path: str, uploaded: dict[str, UploadedFile], mark: str = "") -> None:
    """Write the record, whole or not at all."""
    record_data = {
        "entries": [vars(file.entry) for file in uploaded.values()],
        "stamps": [file.stamp for file in uploaded.values()],
        "mark": mark,
    }
    write_whole(record_path, json.dumps(record_data).encode())


def _wait_for_lock(lock_descriptor: int) -> Iterator[None]:
    """Wait for the lock; yield about each second until it is there. A disk without locks has to do
    without."""
    for turn in range(1 << 62):
        try:
            if try_lock(lock_descriptor):
                return
        except OSError:
            return
        _postpone_alarm()
        if turn % 20 == 0:
            yield
        time.sleep(0.05)


def send(root: str, *patterns: str) -> Answers:
    """`send FOLDER PATTERN…`: announce the files of FOLDER that match these glob patterns, and all
    files in the folders that do, and send those that are asked for on stdin. `unread` are the paths
    of those that cannot be read, each with why."""
    entries: list[FileEntry] = []
    unread_paths = []
    # The manifest of a checkpoint comes last: with it, the checkpoint is complete.
    paths = sorted(_find_matching(root, patterns))
    for path in sorted(paths, key=lambda path: os.path.basename(path) == MANIFEST):
        try:
            entries += _make_entries(root, path)
        except OSError as error:
            unread_paths.append((path, error.strerror))
    yield {"entries": [asdict(entry) for entry in entries], "unread": unread_paths}
    for number in TransferReader(_read_stdin).line()["need"] if entries else ():
        entry = entries[number]
        if not entry.link:
            with open_file(f"{root}/{entry.path}") as file:
                for chunk in read_chunks(file, entry.size):
                    _postpone_alarm()
                    yield chunk
    signal.alarm(0)


def _find_matching(root: str, patterns: Sequence[str]) -> set[str]:
    """Return the paths below `root` of the files and links that these patterns mean."""
    paths: set[str] = set()
    for path in Search(folders=True).find(patterns, root):
        relative_path = os.path.relpath(path, root)
        if os.path.isdir(path) and not os.path.islink(path):
            paths.update(list_files(root, [relative_path]))
        elif os.path.lexists(path):
            paths.add(relative_path)
    return paths


def _make_entries(root: str, path: str) -> list[FileEntry]:
    """Return the entry of a file or of a link that stays in the folder; nothing for anything else,
    or a half written file."""
    full_path = f"{root}/{path}"
    file_state = os.lstat(full_path)
    if stat.S_ISLNK(file_state.st_mode):
        link_target = os.readlink(full_path)
        return [FileEntry(path, link=link_target)] if stays_inside(path, link_target) else []
    if not stat.S_ISREG(file_state.st_mode) or path.endswith(".part"):
        return []
    with open_file(full_path) as file:
        checksum = compute_digest(file, _report_working)
        age = max(0.0, time.time() - file_state.st_mtime)
        is_executable = _is_executable(file_state)
        return [FileEntry(path, os.fstat(file).st_size, checksum, is_executable, age=age)]


def _read_stdin() -> bytes:
    _postpone_alarm()
    return os.read(0, 1 << 16)


def _report_working() -> None:
    """Report every few seconds that there is nothing to report yet, so that the launcher knows."""
    global _reported_at
    _postpone_alarm()
    if time.monotonic() > _reported_at + BEAT:
        _reported_at = time.monotonic()
        os.write(1, b'{"busy":""}\n')


def _postpone_alarm() -> None:
    """Note that the command has moved. If it stays the last time, the kernel ends it: the far end
    may be gone without a word."""
    signal.alarm(PATIENCE)
