"""Tell which files of a folder `rankboard export` and `rankboard report` have written: an upload
leaves them out."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

import msgspec

OUTPUT_LIST = ".rankboard-files.json"
"""The list of these files, in the folder: their names by the command that wrote them."""


def read_output_names(folder: Path) -> dict[str, list[str]]:
    """Return the names of files relative to this folder, by the command that wrote them, as the
    list has them: anybody may have written it."""
    with suppress(OSError, ValueError, RecursionError):
        list_json = (folder / OUTPUT_LIST).read_bytes()
        return msgspec.json.decode(list_json, type=dict[str, list[str]])
    return {}


class WrittenOutputs:
    """The files of the folders that an upload has come to."""

    def __init__(self) -> None:
        self._paths = set[str]()
        self._folders = set[str]()

    def enter(self, folder: str) -> None:
        """Take in what the list of a folder names, if it has one."""
        names_by_command = read_output_names(Path(folder))
        for names in names_by_command.values():
            for name in (OUTPUT_LIST, *names):
                path = os.path.normpath(f"{folder}/{name}")
                # Nobody's list speaks of files elsewhere.
                if path.startswith(f"{folder}/"):
                    self._paths.add(path)

    def leave_out(self, path: str) -> bool:
        """Return True if a file is left out."""
        if path not in self._paths:
            return False
        self._folders.update(map(str, Path(path).parents))
        return True

    def has_left_out_below(self, folder: str) -> bool:
        """Return True if files were left out of this folder or the folders in it."""
        return folder in self._folders
