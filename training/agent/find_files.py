"""Finds files by patterns. Links are followed only where a pattern names them."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Sequence
from fnmatch import translate

DEEPEST = 32
"""Folders below each other that `**` looks into."""
_MAGIC = re.compile(r"[*?[]")


class Search:
    """Looks at no more than `most` entries of folders. `is_cut`: there are more. With `folders`,
    these match as well as files and links."""

    def __init__(self, most_entries: int = sys.maxsize, *, folders: bool = False) -> None:
        self._entries_left = most_entries
        self._includes_folders = folders
        self.is_cut = False

    def find(self, patterns: Sequence[str], folder: str) -> list[str]:
        """Return the paths that match one of the patterns, relative ones below `folder`.

        Hidden files match only if the pattern says so. A path without wildcards is among them even
        if it is not there.
        """
        paths: dict[str, None] = {}
        for pattern in map(os.path.expanduser, patterns):
            start_folder = "/" if pattern.startswith("/") else folder
            paths |= dict.fromkeys(self._find_below(start_folder, pattern))
        return list(paths)

    def _find_below(self, folder: str, pattern: str, depth: int = DEEPEST) -> Iterator[str]:
        """Yield the paths below the folder that match."""
        name_pattern, _, later_pattern = pattern.lstrip("/").partition("/")
        if name_pattern == "**":
            yield from self._at_any_depth(folder, later_pattern or "*", depth)
        elif not _MAGIC.search(name_pattern):
            path = os.path.join(folder, name_pattern)  # the folder may be "/"
            yield from self._find_below(path, later_pattern, depth) if later_pattern else (path,)
        else:
            matches_name = re.compile(translate(name_pattern)).match
            for entry in self._list_entries(folder, hidden=name_pattern.startswith(".")):
                if not matches_name(entry.name):
                    continue
                if later_pattern and entry.is_dir(follow_symlinks=False):
                    yield from self._find_below(entry.path, later_pattern, depth)
                elif not later_pattern and (
                    self._includes_folders or entry.is_file(follow_symlinks=False)
                ):
                    yield entry.path

    def _at_any_depth(self, folder: str, later_pattern: str, depth: int) -> Iterator[str]:
        yield from self._find_below(folder, later_pattern, depth)
        if depth:
            for entry in self._list_entries(folder, hidden=False):
                if entry.is_dir(follow_symlinks=False):
                    yield from self._at_any_depth(entry.path, later_pattern, depth - 1)

    def _list_entries(self, folder: str, *, hidden: bool) -> list[os.DirEntry[str]]:
        matching_entries = list[os.DirEntry[str]]()
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    if self._entries_left <= 0:
                        self.is_cut = True
                        break
                    self._entries_left -= 1
                    if hidden or not entry.name.startswith("."):
                        matching_entries.append(entry)
        except OSError:  # it is gone, no folder, or not to be read
            return []
        # A disk lists entries in any order, and two looks have to agree.
        return sorted(matching_entries, key=lambda entry: entry.name)


def matches(path: str, patterns: Sequence[str]) -> bool:
    """Return True if one of the patterns means a relative path, or a folder that it lies in."""
    path_parts = path.split("/")
    return any(
        _is_meant(path_parts[:part_count], os.path.normpath(pattern).split("/"))
        for pattern in patterns
        for part_count in range(1, len(path_parts) + 1)
    )


def _is_meant(path_parts: Sequence[str], pattern_parts: Sequence[str]) -> bool:
    if not path_parts or not pattern_parts:
        return not path_parts and not pattern_parts
    if pattern_parts[0] == "**":
        later_parts = pattern_parts[1:] or ["*"]
        return _is_meant(path_parts, later_parts) or _is_meant(path_parts[1:], pattern_parts)
    match = re.fullmatch(translate(pattern_parts[0]), path_parts[0])
    return match is not None and _is_meant(path_parts[1:], pattern_parts[1:])
