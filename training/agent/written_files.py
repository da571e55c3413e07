"""Finds the files that the programs of a run have written in the folder that they work in."""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass, field

from training.wire.host_events import DEEPEST_WRITTEN, LONGEST_WRITTEN, MOST_WRITTEN

MOST_ENTRIES = 20_000
"""Entries of folders that are looked at."""
SECONDS = 0.5
"""How long the end of a run waits for the search."""


@dataclass
class WrittenFiles:
    """The files that a search has found."""

    paths: list[str] = field(default_factory=list)
    """Those that can be named, or the first of them."""
    count: int = 0
    is_cut: bool = False
    """There may be more, since not all folders were searched."""


def find_written(
    folder: str, since: float, own_folders: Collection[str], seconds: float = SECONDS
) -> WrittenFiles:
    """Find the files below `folder` that were created or changed since this time.

    Left out are hidden files and folders, what Python compiles, links, and `own_folders`, which
    are rankboard's. A disk may keep a reader waiting, so a thread of its own searches.
    """
    found_files = WrittenFiles()
    search_arguments = (folder, since, own_folders, time.monotonic() + seconds, found_files)
    thread = threading.Thread(
        target=_search_folders, args=search_arguments, name="written", daemon=True
    )
    thread.start()
    # Twice: the search looks at the clock between entries, and a slow disk keeps it from that.
    thread.join(2 * seconds)
    is_cut = thread.is_alive() or found_files.is_cut
    changed_paths = found_files.paths.copy()  # the thread may still add some
    nameable = sorted(filter(_is_nameable, changed_paths))
    return WrittenFiles(nameable[:MOST_WRITTEN], len(changed_paths), is_cut)


def _is_nameable(path: str) -> bool:
    is_short = len(path) <= LONGEST_WRITTEN and path.count("/") <= DEEPEST_WRITTEN
    return is_short and path.isprintable()


def _search_folders(
    root: str,
    since: float,
    own_folders: Collection[str],
    deadline: float,
    found_files: WrittenFiles,
) -> None:
    """Add the paths of changed files, the uppermost first."""
    entries_left = MOST_ENTRIES
    folders = deque([root])
    while folders:
        with suppress(OSError), os.scandir(folders.popleft()) as entries:
            for entry in entries:  # until the folder is gone, or may not be read
                entries_left -= 1
                if entries_left < 0 or time.monotonic() > deadline:
                    found_files.is_cut = True
                    return
                if _is_ours(entry, own_folders):
                    continue
                if entry.is_dir(follow_symlinks=False):
                    folders.append(entry.path)
                elif _is_changed(entry, since):
                    found_files.paths.append(os.path.relpath(entry.path, root))


def _is_ours(entry: os.DirEntry[str], own_folders: Collection[str]) -> bool:
    is_compiled = entry.name == "__pycache__" or entry.name.endswith(".pyc")
    return entry.name.startswith(".") or is_compiled or entry.path in own_folders


def _is_changed(entry: os.DirEntry[str], since: float) -> bool:
    # The ctime is also that of a file that was moved or copied here with the time of another.
    is_file = entry.is_file(follow_symlinks=False)
    return is_file and entry.stat(follow_symlinks=False).st_ctime >= since
