"""A folder into which a command writes files, with a list of what it wrote there: only what is
listed is ever replaced or removed."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from remote.upload.outputs import OUTPUT_LIST, read_output_names
from training.writing import write_whole
from tui.kit.exit import UsageError

NAMED = 3
"""Files that a message names."""


class ForeignFilesError(UsageError):
    """Files are in the way that the command did not write."""

    def __init__(self, folder: Path, names: list[str], command: str) -> None:
        self.names = names
        names_text = ", ".join(names[:NAMED])
        if len(names) > NAMED:
            names_text += f" and {len(names) - NAMED} more"
        super().__init__(
            f"{folder} has {names_text}, which rankboard {command} did not write: nothing was "
            "changed. Move that elsewhere, or give another folder with --out"
        )


@dataclass(frozen=True)
class OutputFolder:
    """The folder `path`, as the command of this name knows it. Names of files are relative to
    it."""

    path: Path
    command: str

    def written(self) -> set[str]:
        """Return the names of the files that the command has written, as far as they are there."""
        return set(filter(self._is_own_file, read_output_names(self.path).get(self.command, [])))

    def check(self, names: Iterable[str]) -> None:
        """Check that writing these files replaces none but the command's own. Raises:
        ForeignFilesError."""
        foreign_names = set(names) - self.written()
        # Not `exists`, which is False for a broken link, and a write would follow that.
        names_in_way = [name for name in foreign_names if os.path.lexists(self.path / name)]
        if names_in_way:
            raise ForeignFilesError(self.path, sorted(names_in_way), self.command)

    def check_below(self, name: str) -> None:
        """Check that a file or folder, with all that is in it, is the command's own. Raises:
        ForeignFilesError."""
        self.check(self.files_of(name))

    def files(self) -> list[str]:
        """Return the names of all that is in the folder, but of the list itself."""
        with suppress(FileNotFoundError):
            return [path.name for path in self.path.iterdir() if path.name != OUTPUT_LIST]
        return []

    def files_of(self, name: str) -> list[str]:
        """Return the names of this file, or of all files in this folder; links are not
        followed."""
        named_path = self.path / name
        if named_path.is_symlink() or not named_path.is_dir():
            return [name]
        entries = [
            entry for entry in named_path.rglob("*") if entry.is_symlink() or not entry.is_dir()
        ]
        return [str(entry.relative_to(self.path)) for entry in entries]

    def note(self, names: Iterable[str]) -> None:
        """Add files to the list. Do so before they are written, so that none is left unlisted.
        Raises: OSError."""
        lists = read_output_names(self.path)
        # Only what is still there: a file that the user has removed is not the command's any more.
        lists[self.command] = sorted(self.written().union(names))
        self.path.mkdir(parents=True, exist_ok=True)
        write_whole(self.path / OUTPUT_LIST, f"{json.dumps(lists, indent=1)}\n".encode())

    def remove(self, names: Iterable[str]) -> None:
        """Remove those of these files that are listed, and folders that become empty. Raises:
        OSError."""
        for name in self.written().intersection(names):
            (self.path / name).unlink()
            self._remove_empty_folders([name])

    def move_to(self, target: OutputFolder) -> None:
        """Move the files of the list to another folder, where they are listed. Raises: OSError."""
        names = self.written()
        target.note(names)
        for name in names:
            target_path = target.path / name
            target_path.parent.mkdir(parents=True, exist_ok=True)
            (self.path / name).rename(target_path)
        target.note(names)
        self._remove_empty_folders(names)

    def remove_below(self, name: str) -> None:
        """Remove the files of the list that this file or folder is or has. Raises: OSError."""
        self.remove(self.files_of(name))
        named_path = self.path / name
        if named_path.is_dir() and not named_path.is_symlink():
            named_path.rmdir()  # nothing was listed of an empty folder

    def _remove_empty_folders(self, names: Iterable[str]) -> None:
        """Remove the folders that these files were in, as far as nothing is left there."""
        for name in names:
            # The last parent is "." itself, the folder that was there before.
            for folder in PurePosixPath(name).parents[:-1]:
                with suppress(OSError):  # others have files there
                    (self.path / folder).rmdir()

    def _is_own_file(self, name: str) -> bool:
        """Return True for a file in the folder to which no link and no ".." leads elsewhere."""
        own_path = self.path / name
        if os.path.isabs(name) or not own_path.is_file():
            return False
        # A name with ".." or behind a link resolves to another place than it says.
        return own_path.resolve() == self.path.resolve() / PurePosixPath(name)
