"""Finds files by patterns. Links are followed only where a pattern names them."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from fnmatch import translate

MOST_ENTRIES = 20_000
"""Entries of folders that one search looks at."""
DEEPEST = 32
"""Folders below each other that `**` looks into."""
_MAGIC = re.compile(r"[*?[]")


def find(patterns: Sequence[str], folder: str) -> list[str]:
    """The paths that match one of the patterns, relative ones below `folder`; hidden ones only
    where the pattern says so. A path without wildcards is among them whether it is there or not."""
    search = _Search()
    paths = (os.path.join(folder, os.path.expanduser(pattern)) for pattern in patterns)
    return list(dict.fromkeys(found for path in paths for found in search.below("/", path)))


class _Search:
    def __init__(self) -> None:
        self._left = MOST_ENTRIES

    def below(self, folder: str, pattern: str, depth: int = DEEPEST) -> Iterator[str]:
        """The paths below the folder that match."""
        first, _, rest = pattern.lstrip("/").partition("/")
        if first == "**":
            yield from self._at_any_depth(folder, rest or "*", depth)
        elif not _MAGIC.search(first):
            path = os.path.join(folder, first)
            yield from self.below(path, rest, depth) if rest else (path,)
        else:
            matches = re.compile(translate(first)).match
            for entry in self._entries(folder, hidden=first.startswith(".")):
                if not matches(entry.name):
                    continue
                if rest and entry.is_dir(follow_symlinks=False):
                    yield from self.below(entry.path, rest, depth)
                elif not rest and entry.is_file(follow_symlinks=False):
                    yield entry.path

    def _at_any_depth(self, folder: str, rest: str, depth: int) -> Iterator[str]:
        yield from self.below(folder, rest, depth)
        if depth:
            for entry in self._entries(folder, hidden=False):
                if entry.is_dir(follow_symlinks=False):
                    yield from self._at_any_depth(entry.path, rest, depth - 1)

    def _entries(self, folder: str, *, hidden: bool) -> list[os.DirEntry[str]]:
        found = list[os.DirEntry[str]]()
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    if self._left <= 0:
                        break
                    self._left -= 1
                    if hidden or not entry.name.startswith("."):
                        found.append(entry)
        except OSError:  # it is gone, no folder, or not to be read
            return []
        return sorted(found, key=lambda entry: entry.name)
