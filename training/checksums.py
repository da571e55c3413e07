"""Compares files with published MD5 sums, and remembers the sums that it has computed.

A file is known again by its path, size and times: whatever changes a file sets its ctime. So to
compare the same files a second time reads none of them. The sums are remembered in the cache of
this host.
"""

from __future__ import annotations

import math
import os
import time

from training.wire.jsonl import dumps, load
from training.writing import write_whole

TYPE_CHECKING = False  # as typing itself takes long to import
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

REMEMBERED = "checksums.json"
MOST = 500
"""The number of files whose sums are remembered."""
SETTLED = 2.0
"""Seconds after its last change in which a file may change again without another ctime."""
CHUNK = 1 << 20


def cache_folder() -> str:
    """Return the folder in which this host keeps what it can make again."""
    return os.path.expanduser(os.environ.get("RANKBOARD_CACHE") or "~/.cache/rankboard")


def compare(
    published: Mapping[str, str], seconds: float = math.inf
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Compare files, given by absolute path, with their MD5 sums in hexadecimal.

    Return the files that differ, and those that could not be read within `seconds`. Raises:
    OSError, where a file cannot be read at all.
    """
    deadline = time.monotonic() + seconds
    remembered_entries = _read_remembered()
    differing_files: list[str] = []
    unread_files: list[str] = []
    computed_entries: dict[str, Any] = {}
    for path, md5 in published.items():
        file_state = _file_state(path)
        known_entry = remembered_entries.get(path)
        if isinstance(known_entry, list) and known_entry[:-1] == file_state:
            computed_md5 = known_entry[-1]
        else:
            computed_md5 = _md5(path, deadline)
            # Not if it changed while it was read, or may still change without another ctime.
            if computed_md5 and _file_state(path) == file_state and _is_settled(path):
                computed_entries[path] = [*file_state, computed_md5]
        if not computed_md5:
            unread_files.append(path)
        elif computed_md5 != md5:
            differing_files.append(path)
    if computed_entries:
        _write_remembered(remembered_entries | computed_entries)
    return tuple(differing_files), tuple(unread_files)


def _file_state(path: str) -> list[int]:
    """Return size and times of a file: whatever changes the file changes one of them."""
    file_status = os.stat(path)
    return [file_status.st_size, file_status.st_mtime_ns, file_status.st_ctime_ns]


def _is_settled(path: str) -> bool:
    return time.time() - os.stat(path).st_ctime > SETTLED


def _md5(path: str, deadline: float) -> str:
    """Return the MD5 sum of a file, or "" if the deadline passes first."""
    from hashlib import md5  # slow to import, and most files are known

    digest = md5(usedforsecurity=False)
    with open(path, "rb", buffering=0) as file:
        while time.monotonic() < deadline:
            block = file.read(CHUNK)
            if not block:
                return digest.hexdigest()
            digest.update(block)
    return ""


def _read_remembered() -> dict[str, Any]:
    """Return size, times and sum of each remembered file, by its path."""
    try:
        with open(os.path.join(cache_folder(), REMEMBERED), "rb") as file:
            return load(file.read()) or {}
    except OSError:
        return {}


def _write_remembered(entries: dict[str, Any]) -> None:
    newest_entries = dict(list(entries.items())[-MOST:])
    try:
        os.makedirs(cache_folder(), exist_ok=True)
        write_whole(
            os.path.join(cache_folder(), REMEMBERED),
            dumps(newest_entries).encode(errors="surrogatepass"),
        )
    except OSError:  # the next comparison then reads the files again
        pass
