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
    with open(f"{root}.lock", "ab") as lock:
        for _ in _locked(lock.fileno()):
            yield {"busy": "another upload into the same folder is under way"}
        with closing(Tree(root, f"{root}.new")) as tree:
            yield from _take_in(tree, f"{root}.json", mark, TransferReader(_stdin))
    signal.alarm(0)


def _take_in(tree: Tree, record: str, mark: str, incoming: TransferReader) -> Answers:
    tree.sweep()
    uploaded, last_mark = _read(record)
    if mark == last_mark:
        entries = [file.entry for file in uploaded.values()]
    else:
        yield {"unknown": mark}
        entries = entries_of(incoming.line().get("entries"))
    announced = {entry.path: entry for entry in entries}
    kept_paths = _remove(tree, [uploaded[path] for path in uploaded.keys() - announced.keys()])
    states = tree.states(announced)
    stamps = {
        path: _there(tree, entry, uploaded.get(path), states.get(path))
        for path, entry in announced.items()
    }
    needed = [number for number, entry in enumerate(entries) if not stamps[entry.path]]
    needed_entries = [entries[number] for number in needed]
    replaced = [
        entry.path
        for entry in needed_entries
        if _is_changed(uploaded.get(entry.path), states.get(entry.path))
    ]
    _check_room(tree, sum(entry.size for entry in needed_entries))
    if needed or uploaded.keys() != announced.keys():
        # What comes now is ours, even if its upload breaks half way.
        begun = {path: uploaded.get(path, UploadedFile(entry)) for path, entry in announced.items()}
        _write(record, begun)
    yield {"need": needed, "kept": kept_paths, "replaced": replaced}
    damaged: list[str] = []
    for entry in needed_entries:
        try:
            tree.put(entry, incoming.take(entry.size))
        except DamagedTransfer as error:
            damaged.append(str(error))
            del announced[entry.path]
    complete = {
        path: UploadedFile(entry, stamps[path] or _stamp(tree, path))
        for path, entry in announced.items()
    }
    complete_mark = "" if damaged else mark
    if (complete, complete_mark) != (uploaded, last_mark):
        _write(record, complete, complete_mark)
    yield {"damaged": damaged}


def _remove(tree: Tree, unannounced: list[UploadedFile]) -> list[str]:
    """Remove what an upload put here and is not announced any more. Return the paths of what has
    changed since, and stays."""
    changed_paths = []
    for uploaded in unannounced:
        path = uploaded.entry.path
        with suppress(Misplaced):  # what lies behind a link is not what we put here
            stamp = _stamp(tree, path)
            if stamp is None:
                continue
            if uploaded.stamp == stamp or tree.holds(uploaded.entry, _working):
                tree.remove(path)
            else:
                changed_paths.append(path)
    return sorted(changed_paths)


def _there(
    tree: Tree, entry: FileEntry, uploaded: UploadedFile | None, state: os.stat_result | None
) -> Stamp | None:
    """Return the stamp of a file that is there as announced, None if it is not there.

    The file is also made executable, or not, as announced.
    """
    if state is None:
        return None
    stamp = stamp_of(state)
    if uploaded and uploaded.stamp == stamp:
        is_there = (uploaded.entry.digest, uploaded.entry.link) == (entry.digest, entry.link)
    else:
        is_there = tree.holds(entry, _working)
    if not is_there:
        return None
    if not entry.link and _is_executable(state) != entry.executable:
        tree.mark(entry)
        return _stamp(tree, entry.path)
    return stamp


def _is_executable(state: os.stat_result) -> bool:
    return bool(state.st_mode & stat.S_IXUSR)


def _is_changed(uploaded: UploadedFile | None, state: os.stat_result | None) -> bool:
    """Return True if there is a file that is no longer what an upload put there."""
    if state is None or not stat.S_ISREG(state.st_mode):
        return False
    if uploaded is None:
        return True
    return uploaded.stamp not in (None, stamp_of(state))


def _stamp(tree: Tree, path: str) -> Stamp | None:
    state = tree.state(path)
    return stamp_of(state) if state else None


def _check_room(tree: Tree, size: int) -> None:
    free = tree.free()
    if size > free:
        text = (
            f"the upload takes {size >> 20} MiB, and its disk has {free >> 20} MiB left: "
            "make room there, or set another workdir for it in hosts.toml"
        )
        raise OSError(errno.ENOSPC, text)


def _read(record: str) -> tuple[dict[str, UploadedFile], str]:
    """Read what uploads have put here, and the mark of the last one that came to its end; nothing
    if that is not known."""
    try:
        with open(record, "rb") as file:
            data = json.load(file)
        entries = entries_of(data["entries"])
        stamps = data["stamps"]
        uploaded = [
            UploadedFile(entry, read_stamp(mark) if mark else None)
            for entry, mark in zip(entries, stamps, strict=True)
        ]
        return {file.entry.path: file for file in uploaded}, str(data["mark"])
    except (OSError, ValueError, LookupError, TypeError):
        return {}, ""


def _write(record: str, uploaded: dict[str, UploadedFile], mark: str = "") -> None:
    """Write the record, whole or not at all."""
    data = {
        "entries": [vars(file.entry) for file in uploaded.values()],
        "stamps": [file.stamp for file in uploaded.values()],
        "mark": mark,
    }
    write_whole(record, json.dumps(data).encode())


def _locked(lock: int) -> Iterator[None]:
    """Wait for the lock; yield about each second until it is there. A disk without locks has to do
    without."""
    for turn in range(1 << 62):
        try:
            if try_lock(lock):
                return
        except OSError:
            return
        _alive()
        if turn % 20 == 0:
            yield
        time.sleep(0.05)


def send(root: str, *patterns: str) -> Answers:
    """`send FOLDER PATTERN…`: announce the files of FOLDER that match these glob patterns, and all
    files in the folders that do, and send those that are asked for on stdin. `unread` are the paths
    of those that cannot be read, each with why."""
    entries: list[FileEntry] = []
    unread = []
    # The manifest of a checkpoint comes last: with it, the checkpoint is complete.
    paths = sorted(_matching(root, patterns))
    for path in sorted(paths, key=lambda path: os.path.basename(path) == MANIFEST):
        try:
            entries += _announced(root, path)
        except OSError as error:
            unread.append((path, error.strerror))
    yield {"entries": [asdict(entry) for entry in entries], "unread": unread}
    for number in TransferReader(_stdin).line()["need"] if entries else ():
        entry = entries[number]
        if not entry.link:
            with open_file(f"{root}/{entry.path}") as file:
                for chunk in read_chunks(file, entry.size):
                    _alive()
                    yield chunk
    signal.alarm(0)


def _matching(root: str, patterns: Sequence[str]) -> set[str]:
    """Return the paths below `root` of the files and links that these patterns mean."""
    paths: set[str] = set()
    for path in Search(folders=True).find(patterns, root):
        name = os.path.relpath(path, root)
        if os.path.isdir(path) and not os.path.islink(path):
            paths.update(list_files(root, [name]))
        elif os.path.lexists(path):
            paths.add(name)
    return paths


def _announced(root: str, path: str) -> list[FileEntry]:
    """Return the entry of a file or of a link that stays in the folder; nothing for anything else,
    or a half written file."""
    full = f"{root}/{path}"
    state = os.lstat(full)
    if stat.S_ISLNK(state.st_mode):
        link = os.readlink(full)
        return [FileEntry(path, link=link)] if stays_inside(path, link) else []
    if not stat.S_ISREG(state.st_mode) or path.endswith(".part"):
        return []
    with open_file(full) as file:
        checksum = compute_digest(file, _working)
        return [FileEntry(path, os.fstat(file).st_size, checksum, _is_executable(state))]


def _stdin() -> bytes:
    _alive()
    return os.read(0, 1 << 16)


def _working() -> None:
    """Report every few seconds that there is nothing to report yet, so that the launcher knows."""
    global _reported_at
    _alive()
    if time.monotonic() > _reported_at + BEAT:
        _reported_at = time.monotonic()
        os.write(1, b'{"busy":""}\n')


def _alive() -> None:
    """Note that the command has moved. If it stays the last time, the kernel ends it: the far end
    may be gone without a word."""
    signal.alarm(PATIENCE)
