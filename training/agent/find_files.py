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

    def __init__(self, most: int = sys.maxsize, *, folders: bool = False) -> None:
        self._left = most
        self._folders = folders
        self.is_cut = False

    def find(self, patterns: Sequence[str], folder: str) -> list[str]:
        """Return the paths that match one of the patterns, relative ones below `folder`.

        Hidden files match only if the pattern says so. A path without wildcards is among them even
        if it is not there.
        """
        paths: dict[str, None] = {}
        for pattern in map(os.path.expanduser, patterns):
            start = "/" if pattern.startswith("/") else folder
            paths |= dict.fromkeys(self._below(start, pattern))
        return list(paths)

    def _below(self, folder: str, pattern: str, depth: int = DEEPEST) -> Iterator[str]:
        """Yield the paths below the folder that match."""
        name_pattern, _, rest = pattern.lstrip("/").partition("/")
        if name_pattern == "**":
            yield from self._at_any_depth(folder, rest or "*", depth)
        elif not _MAGIC.search(name_pattern):
            path = os.path.join(folder, name_pattern)  # the folder may be "/"
            yield from self._below(path, rest, depth) if rest else (path,)
        else:
            matches = re.compile(translate(name_pattern)).match
            for entry in self._entries(folder, hidden=name_pattern.startswith(".")):
                if not matches(entry.name):
                    continue
                if rest and entry.is_dir(follow_symlinks=False):
                    yield from self._below(entry.path, rest, depth)
                elif not rest and (self._folders or entry.is_file(follow_symlinks=False)):
                    yield entry.path

    def _at_any_depth(self, folder: str, rest: str, depth: int) -> Iterator[str]:
        yield from self._below(folder, rest, depth)
        if depth:
            for entry in self._entries(folder, hidden=False):
                if entry.is_dir(follow_symlinks=False):
                    yield from self._at_any_depth(entry.path, rest, depth - 1)

    def _entries(self, folder: str, *, hidden: bool) -> list[os.DirEntry[str]]:
        matching_entries = list[os.DirEntry[str]]()
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    if self._left <= 0:
                        self.is_cut = True
                        break
                    self._left -= 1
                    if hidden or not entry.name.startswith("."):
                        matching_entries.append(entry)
        except OSError:  # it is gone, no folder, or not to be read
            return []
        return sorted(matching_entries, key=lambda entry: entry.name)


def matches(path: str, patterns: Sequence[str]) -> bool:
    """Return True if one of the patterns means a relative path, or a folder that it lies in."""
    names = path.split("/")
    return any(
        _is_meant(names[:end], os.path.normpath(pattern).split("/"))
        for pattern in patterns
        for end in range(1, len(names) + 1)
    )


def _is_meant(names: Sequence[str], pattern: Sequence[str]) -> bool:
    if not names or not pattern:
        return not names and not pattern
    if pattern[0] == "**":
        rest = pattern[1:] or ["*"]
        return _is_meant(names, rest) or _is_meant(names[1:], pattern)
    match = re.fullmatch(translate(pattern[0]), names[0])
    return match is not None and _is_meant(names[1:], pattern[1:])
