"""Digests of files of this machine, kept from one upload to the next, so that a file that has not
changed is not read again."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from training.transfer.entries import Stamp, compute_digest, open_file, stamp_of
from training.writing import make_private_folders, write_whole

SETTLED = 2 * 10**9
"""Nanoseconds in which a file may be written to again without a new time: of some disks, times are
that coarse."""


class DigestCache:
    """Of the files of one project. They are kept in the user's cache; without it, all files are
    read."""

    def __init__(self, project: str) -> None:
        cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        self._path = cache / "rankboard" / "uploads" / f"{project}.json"
        self._old = self._load()
        self._now: dict[str, list[int | str]] = {}

    def of(self, path: str, mark: Stamp, moved: Callable[[], object]) -> tuple[int, str]:
        """The size and the digest of a file that has this stamp. Raises: OSError."""
        kept = self._old.get(path)
        if type(kept) is list and kept[:-1] == [*mark] and type(kept[-1]) is str:
            self._now[path] = kept
            return mark[0], kept[-1]
        with open_file(path) as file:
            before = os.fstat(file)
            found = compute_digest(file, moved)
            state = os.fstat(file)
        changed = max(state.st_mtime_ns, state.st_ctime_ns)
        if stamp_of(before) == stamp_of(state) and changed < time.time_ns() - SETTLED:
            self._now[path] = [*stamp_of(state), found]
        return state.st_size, found

    def save(self) -> None:
        """Keep those that were asked for."""
        if self._now == self._old:
            return
        with suppress(OSError):
            make_private_folders(self._path.parent)
            write_whole(self._path, json.dumps(self._now).encode(errors="surrogatepass"))

    def forget(self) -> None:
        """Keep none: one of them may be wrong."""
        with suppress(OSError):
            self._path.unlink()

    def _load(self) -> dict[str, list[int | str]]:
        try:
            found = json.loads(self._path.read_bytes())
        except (OSError, ValueError):
            return {}
        return found if isinstance(found, dict) else {}
