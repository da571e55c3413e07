"""A folder into which a command writes files, with a list of what it wrote there: only what is
listed is ever replaced or removed."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from training.writing import write_whole
from tui.kit.exit import UsageError

LIST = ".rankboard-files.json"
"""The list, in the folder: the names of files by the command that wrote them."""
NAMED = 3
"""Files that a message names."""


class ForeignFilesError(UsageError):
    """Files are in the way that the command did not write."""

    def __init__(self, folder: Path, names: list[str], command: str) -> None:
        self.folder = folder
        self.names = names
        self.command = command
        listed = ", ".join(names[:NAMED])
        more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
        is_one = len(names) == 1
        super().__init__(
            f"{folder} has {listed}{more}, which rankboard {command} did not write: nothing was "
            f"changed. Move {'it' if is_one else 'them'} elsewhere, or give another folder with "
            "--out"
        )


@dataclass(frozen=True)
class OutputFolder:
    """The folder `path`, as the command of this name knows it. Names of files are relative to
    it."""

    path: Path
    command: str

    def written(self) -> set[str]:
        """Return the names of the files that the command has written, as far as they are there."""
        return {name for name in self._listed() if self._is_file(name)}

    def check(self, names: Iterable[str]) -> None:
        """Check that writing these files replaces none but the command's own. Raises:
        ForeignFilesError."""
        known = self.written()
        foreign = [name for name in names if name not in known and self._exists(name)]
        if foreign:
            raise ForeignFilesError(self.path, sorted(foreign), self.command)

    def check_below(self, name: str) -> None:
        """Check that a file or folder, with all that is in it, is the command's own. Raises:
        ForeignFilesError; OSError."""
        self.check(self.files_of(name))

    def files(self) -> list[str]:
        """Return the names of all that is in the folder, but of the list itself."""
        with suppress(FileNotFoundError):
            return [path.name for path in self.path.iterdir() if path.name != LIST]
        return []

    def files_of(self, name: str) -> list[str]:
        """Return the names of this file, or of all files in this folder; links are not
        followed."""
        path = self.path / name
        if path.is_symlink() or not path.is_dir():
            return [name]
        found = []
        for folder, folders, files in os.walk(path):
            links = [one for one in folders if os.path.islink(os.path.join(folder, one))]
            for file in (*files, *links):
                found.append(os.path.relpath(os.path.join(folder, file), self.path))
        return found

    def note(self, names: Iterable[str]) -> None:
        """Add files to the list. Do so before they are written, so that none is left unlisted.
        Raises: OSError."""
        lists = self._lists()
        lists[self.command] = sorted({*self.written(), *names})
        self.path.mkdir(parents=True, exist_ok=True)
        write_whole(self.path / LIST, f"{json.dumps(lists, indent=1)}\n".encode())

    def remove(self, names: Iterable[str]) -> None:
        """Remove those of these files that are listed, and folders that become empty. Raises:
        OSError."""
        for name in self.written().intersection(names):
            (self.path / name).unlink()
            for folder in PurePosixPath(name).parents[:-1]:
                with suppress(OSError):  # others have files there
                    (self.path / folder).rmdir()

    def remove_below(self, name: str) -> None:
        """Remove the files of the list that this file or folder is or has. Raises: OSError."""
        self.remove(one for one in self.written() if PurePosixPath(one).is_relative_to(name))
        path = self.path / name
        if path.is_dir() and not path.is_symlink():
            path.rmdir()  # nothing was listed of an empty folder

    def _lists(self) -> dict[str, list[str]]:
        """The names of all commands, as the list has them."""
        with suppress(OSError, ValueError, RecursionError):
            lists = json.loads((self.path / LIST).read_text(encoding="utf-8"))
            if isinstance(lists, dict):
                return {key: one for key, one in lists.items() if isinstance(one, list)}
        return {}

    def _listed(self) -> list[str]:
        names = self._lists().get(self.command, [])
        return [name for name in names if isinstance(name, str) and _is_inside(name)]

    def _is_file(self, name: str) -> bool:
        """Whether this is a file, to which no link leads out of the folder."""
        path = self.path / name
        parents = [self.path / one for one in PurePosixPath(name).parents[:-1]]
        return path.is_file() and not any(one.is_symlink() for one in (path, *parents))

    def _exists(self, name: str) -> bool:
        path = self.path / name
        return path.exists() or path.is_symlink()


def _is_inside(name: str) -> bool:
    """Whether a name stays in the folder: anybody may have written the list."""
    path = PurePosixPath(name)
    return bool(path.parts) and not path.is_absolute() and ".." not in path.parts
