"""All files that are followed on this host. A disk may keep a reader waiting, so they are read in a
thread of their own."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Sequence

from training.agent.file_tail.file import (
    GrowingFile,
    Identity,
    ReadPosition,
    end_of,
    identity,
    state,
)
from training.agent.find_files import Search
from training.agent.host.redaction import Redaction
from training.wire.events import AGENT, FILE, Event, OutputText

MOST_ENTRIES = 20_000
"""Entries of folders that one look for files looks at."""
MOST_FILES = 100
"""Files that are followed on a host."""
MOST = 1 << 20
"""Bytes that one look reads."""
MOST_AT_END = 1 << 24
"""Bytes that the last look reads."""
PATIENCE = 2.0
"""Seconds that the ranks' start and end wait for a look."""


class FollowedFiles:
    """Files that match the patterns. What was in them at the beginning is not read."""

    def __init__(
        self, patterns: Sequence[str], folder: str, rank: int, redaction: Redaction
    ) -> None:
        self._patterns = patterns
        self._folder = folder
        self._redaction = redaction
        self._rank = rank
        self._old: dict[Identity, ReadPosition] = {}
        self._files: dict[str, GrowingFile] = {}
        self._said = set[str]()

    def begin(self) -> list[Event]:
        """The files that are there already are known from now on."""
        paths, told = self._matching()
        for path in paths:
            with contextlib.suppress(OSError):
                old, place = end_of(path)
                self._old[old] = place
        return told

    def look(self) -> list[Event]:
        """What has come since."""
        told = [*self._find(), *self._read(MOST)]
        gone = {path: file for path, file in self._files.items() if file.is_gone}
        for path, file in gone.items():  # perhaps written to since it was read
            told += self._texts(path, [*self._new(file, MOST), file.end()])
            del self._files[path]
        return told

    def end(self) -> list[Event]:
        """All that has come, up to the ends of the files. Nothing more is read."""
        told = [*self._find(), *self._read(MOST_AT_END)]
        for path, file in self._files.items():
            told += self._texts(path, [file.end()])
        self._files.clear()
        return told

    def _find(self) -> list[Event]:
        """Look for files. Returns what is to be said of them."""
        paths, told = self._matching()
        for path in paths:
            if path in self._files or not path.isprintable():
                continue
            with contextlib.suppress(OSError):
                if not self._add(path):
                    return told + self._once(f"only {MOST_FILES} of the matching files are read")
        return told

    def _matching(self) -> tuple[list[str], list[Event]]:
        """The paths that match, those of links as what they lead to; and what is to be said."""
        search = Search(MOST_ENTRIES)
        paths = [
            os.path.realpath(path) if os.path.islink(path) else path
            for path in search.find(self._patterns, self._folder)
        ]
        if not search.is_cut:
            return paths, []
        many = (
            f"only {MOST_ENTRIES:,} files and folders are searched: write the folder of your files "
            "into the pattern"
        )
        return paths, self._once(many)

    def _once(self, what: str) -> list[Event]:
        """Say something, unless it has been said."""
        if what in self._said:
            return []
        self._said.add(what)
        return [OutputText(AGENT, "stderr", f"--follow: {what}")]

    def _add(self, path: str) -> bool:
        """Follow a file, if it is new or was written to. False: they are too many. Raises:
        OSError."""
        found = os.lstat(path)
        known = identity(found)
        old = self._old.get(known)
        if old and old.state == state(found):
            return True
        same = next((one for one in self._files.values() if one.identity == known), None)
        if same:
            if same.is_gone:  # it has another name now
                self._files[path] = GrowingFile(path, self._redaction, end_of(path)[1])
            return True
        if len(self._files) >= MOST_FILES:
            return False
        self._files[path] = GrowingFile(path, self._redaction, self._old.pop(known, None))
        return True

    def _read(self, most: int) -> list[Event]:
        """What has come; of each file its share first, so that none keeps the others waiting."""
        told = list[Event]()
        share = max(1, most // max(1, len(self._files)))
        for path, file in self._files.items():
            told += self._texts(path, self._new(file, share))
        behind = next((one for one in self._files.values() if one.has_more), None)
        if behind:
            told += self._texts(behind.path, self._new(behind, most))
        for path, file in self._files.items():
            if file.problem:
                told += self._once(f"{self._name(path)}: {file.problem}")
        return told

    def _new(self, file: GrowingFile, most: int) -> list[str]:
        """What has come in the file."""
        texts = list[str]()
        with contextlib.suppress(OSError):
            texts += file.read(most)
        return texts

    def _texts(self, path: str, texts: Sequence[str]) -> list[Event]:
        name = FILE + self._name(path)
        return [OutputText(self._rank, name, text) for text in texts if text]

    def _name(self, path: str) -> str:
        """The path, as it is shown."""
        below = os.path.relpath(path, self._folder)
        return path if below.startswith("..") else below


class FileFollower:
    """Reads files by turns of the agent's loop, which never waits for a disk: each look is a
    thread, whose finds the next turn takes."""

    def __init__(self, redaction: Redaction) -> None:
        self._redaction = redaction
        self._files: FollowedFiles | None = None
        self._thread: threading.Thread | None = None
        self._found: list[Event] = []

    def start(self, patterns: Sequence[str], folder: str, rank: int) -> None:
        """The program is about to start. What its files tell is told as by this rank."""
        self.end()
        if patterns:
            self._files = FollowedFiles(patterns, folder, rank, self._redaction)
            self._begin(self._files.begin)
            self._wait()

    def news(self) -> list[Event]:
        """What has been found; another look begins."""
        if self._files is None or self._is_busy:
            return []
        found = self._found
        self._found = []
        self._begin(self._files.look)
        return found

    def end(self) -> list[Event]:
        """All that there is, as the program has ended. Nothing is read any more."""
        files = self._files
        self._files = None
        if files is not None:
            self._wait()
        if files is not None and not self._is_busy:
            self._begin(files.end)
            self._wait()
        if self._is_busy:  # its disk does not answer
            return []
        found = self._found
        self._found = []
        return found

    @property
    def _is_busy(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def _begin(self, look: Callable[[], list[Event]]) -> None:
        def run() -> None:
            self._found += look()

        self._thread = threading.Thread(target=run, name="followed files", daemon=True)
        self._thread.start()

    def _wait(self) -> None:
        if self._thread:
            self._thread.join(PATIENCE)
