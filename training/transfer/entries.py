"""Files as they are announced from one machine to another: their names, which are not trusted,
their digests, their bytes."""

from __future__ import annotations

import errno
import hashlib
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from training.wire.codec import decoder_of

CHUNK = 1 << 18
"""Bytes that are read, hashed and sent at a time."""
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC

Stamp = tuple[int, int, int, int]
"""What tells without reading a file that it is as it was: size, time of change of contents and of
inode (ns), inode."""


@dataclass(frozen=True)
class FileEntry:
    """A file of `size` bytes with this SHA-256, perhaps executable; with `link`, a symbolic link
    that leads there; or an empty folder. `age`: seconds since its contents changed, by the clock of
    its machine, where that is told."""

    path: str
    size: int = 0
    digest: str = ""
    executable: bool = False
    link: str = ""
    is_folder: bool = False
    age: float = 0.0


read_entry = decoder_of(FileEntry)
"""The entry of a JSON object. Raises: TypeError, ValueError."""
read_stamp = decoder_of(Stamp)
"""The stamp of a JSON list. Raises: TypeError, ValueError."""


class Misplaced(OSError):
    """A name that could lead out of the folder: nothing is written."""


def entries_of(objects: Any) -> list[FileEntry]:
    """Return the entries that the other end announces. Raises: OSError, if they are none;
    Misplaced, see `check_entry`."""
    try:
        entries = [read_entry(entry_object) for entry_object in objects]
    except (TypeError, ValueError, LookupError) as error:
        raise OSError(
            errno.EPROTO, f"what the other end sent is no list of files ({error})"
        ) from None
    for entry in entries:
        check_entry(entry)
    return entries


def check_entry(entry: FileEntry) -> None:
    """Check that the path lies plainly below the folder, and that a link stays there. Raises:
    Misplaced."""
    parts = entry.path.split("/")
    is_plain = not any(part in ("", ".", "..") or "\0" in part for part in parts)
    is_of_one_kind = not (entry.is_folder and (entry.size or entry.link))
    if not is_plain or entry.size < 0 or not is_of_one_kind or not _encodable(entry):
        problem = "no name of a file below the folder"
    elif entry.link and not stays_inside(entry.path, entry.link):
        problem = f"a link that leads out of the folder, to {entry.link}"
    else:
        return
    raise Misplaced(errno.EPERM, f"{problem}; nothing was written", entry.path)


def _encodable(entry: FileEntry) -> bool:
    try:
        os.fsencode(entry.path), os.fsencode(entry.link)
    except UnicodeEncodeError:
        return False
    return True


def stays_inside(path: str, link: str) -> bool:
    """Return True if a link at this path can lead to nothing outside, whatever else is a link.

    Such a link climbs first, as far as there are folders above it, and then only descends.
    """
    steps = [step for step in link.split("/") if step not in ("", ".")]
    climbs = next((number for number, step in enumerate(steps) if step != ".."), len(steps))
    return (
        not link.startswith("/")
        and "\0" not in link
        and ".." not in steps[climbs:]
        and climbs <= path.count("/")
    )


def stamp_of(state: os.stat_result) -> Stamp:
    """Return the stamp of a file."""
    return state.st_size, state.st_mtime_ns, state.st_ctime_ns, state.st_ino


def read_chunks(file: int, size: int) -> Iterator[bytes]:
    """Yield exactly so many bytes from an open file.

    Zeros stand in for what it lacks; its digest shows it then.
    """
    while size:
        data = os.read(file, min(size, CHUNK)) or bytes(min(size, CHUNK))
        size -= len(data)
        yield data


def compute_digest(file: int, moved: Callable[[], object] = lambda: None) -> str:
    """Return the SHA-256 of the rest of an open file, in hexadecimal; `moved` is called now and
    then."""
    checksum = hashlib.sha256()
    while data := os.read(file, CHUNK):
        checksum.update(data)
        moved()
    return checksum.hexdigest()


@contextmanager
def open_file(name: str, folder: int | None = None) -> Iterator[int]:
    """Open a file to read; not through a link."""
    file = os.open(name, _FILE, dir_fd=folder)
    try:
        yield file
    finally:
        os.close(file)
