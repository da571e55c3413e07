"""Keep the digests of files of this machine from one upload to the next, so that a file that has
not changed is not read again."""

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
"""Nanoseconds in which a file may be written to again without a new time, as times of some disks
are that coarse."""


class DigestCache:
    """The digests of the files of one project. They lie in the user's cache; without it, all files
    are read."""

    def __init__(self, project: str) -> None:
        cache_folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        self._path = cache_folder / "rankboard" / "uploads" / f"{project}.json"
        self._before = self._load()
        self._now: dict[str, list[int | str]] = {}

    def find(self, path: str, stamp: Stamp, on_progress: Callable[[], object]) -> tuple[int, str]:
        """Return the size and the digest of a file that has this stamp. Raises: OSError."""
        cached_row = self._before.get(path)
        if type(cached_row) is list and cached_row[:-1] == [*stamp] and type(cached_row[-1]) is str:
            self._now[path] = cached_row
            return stamp[0], cached_row[-1]
        with open_file(path) as file:
            stamp_before = stamp_of(os.fstat(file))
            digest = compute_digest(file, on_progress)
            status_after = os.fstat(file)
        changed_at = max(status_after.st_mtime_ns, status_after.st_ctime_ns)
        has_settled = changed_at < time.time_ns() - SETTLED
        # Kept only if nobody wrote to the file while it was read.
        if stamp_before == stamp_of(status_after) and has_settled:
            self._now[path] = [*stamp_before, digest]
        return status_after.st_size, digest

    def save(self) -> None:
        """Keep the digests that were asked for."""
        if self._now == self._before:
            return
        with suppress(OSError):
            make_private_folders(self._path.parent)
            # Names of files may be no UTF-8: their surrogates have to survive.
            write_whole(self._path, json.dumps(self._now).encode(errors="surrogatepass"))

    def forget(self) -> None:
        """Keep none: one of them may be wrong."""
        with suppress(OSError):
            self._path.unlink()

    def _load(self) -> dict[str, list[int | str]]:
        try:
            cached_rows = json.loads(self._path.read_bytes())
        except (OSError, ValueError):
            return {}
        return cached_rows if isinstance(cached_rows, dict) else {}
