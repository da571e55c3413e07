"""All files that are followed on this host. A disk may keep a reader waiting, so they are read in a
thread of their own."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress

from training.agent.file_tail.file import (
    GrowingFile,
    Identity,
    ReadPosition,
    end_position,
    file_identity,
    state,
)
from training.agent.find_files import Search
from training.agent.host.redaction import Redaction
from training.wire.events import Event
from training.wire.host_events import AGENT, FILE, OutputText

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
        self._old_positions: dict[Identity, ReadPosition] = {}
        self._growing_files: dict[str, GrowingFile] = {}
        self._reported = set[str]()

    def begin(self) -> list[Event]:
        """Remember the files that are there already, and how far they are written."""
        paths, messages = self._find_matching()
        for path in paths:
            with suppress(OSError):
                identity, end_of_file = end_position(path)
                self._old_positions[identity] = end_of_file
        return messages

    def look(self) -> list[Event]:
        """Return the text that has come since the last look."""
        events = self._find_new() + self._read_shares(MOST)
        for file in [file for file in self._growing_files.values() if file.is_gone]:
            events += self._read_new(file, MOST)  # perhaps written to since it was read
            events += self._text_events(file, file.end())
            del self._growing_files[file.path]
        return events

    def end(self) -> list[Event]:
        """Return the text that has come, up to the ends of the files. Nothing more is read."""
        events = self._find_new() + self._read_shares(MOST_AT_END)
        for file in self._growing_files.values():
            events += self._text_events(file, file.end())
        self._growing_files.clear()
        return events

    def _find_new(self) -> list[Event]:
        """Look for files to follow. Return what the user has to know about them."""
        paths, messages = self._find_matching()
        for path in paths:
            # The path becomes the name of a stream on the screen, so it may hold no control
            # characters.
            if path in self._growing_files or not path.isprintable():
                continue
            with suppress(OSError):
                if not self._follow_file(path):
                    return messages + self._report_once(
                        f"only {MOST_FILES} of the matching files are read"
                    )
        return messages

    def _find_matching(self) -> tuple[list[str], list[Event]]:
        """Return the paths that match, links resolved, and what the user has to know about them."""
        search = Search(MOST_ENTRIES)
        paths = [
            os.path.realpath(path) if os.path.islink(path) else path
            for path in search.find(self._patterns, self._folder)
        ]
        if not search.is_cut:
            return paths, []
        too_many = (
            f"only {MOST_ENTRIES:,} files and folders are searched: write the folder of your files "
            "into the pattern"
        )
        return paths, self._report_once(too_many)

    def _report_once(self, message: str) -> list[Event]:
        """Report something, unless it has been reported."""
        if message in self._reported:
            return []
        self._reported.add(message)
        return [OutputText(AGENT, "stderr", f"--follow: {message}")]

    def _follow_file(self, path: str) -> bool:
        """Follow a file, if it is new or was written to. Return False if there are too many.
        Raises: OSError."""
        status = os.lstat(path)
        identity = file_identity(status)
        old_position = self._old_positions.get(identity)
        if old_position and old_position.state == state(status):
            return True
        same_file = next(
            (
                followed
                for followed in self._growing_files.values()
                if followed.identity == identity
            ),
            None,
        )
        if same_file:
            if same_file.is_gone:  # it has another name now
                self._growing_files[path] = GrowingFile(
                    path, self._redaction, end_position(path)[1]
                )
            return True
        if len(self._growing_files) >= MOST_FILES:
            return False
        self._growing_files[path] = GrowingFile(
            path, self._redaction, self._old_positions.pop(identity, None)
        )
        return True

    def _read_shares(self, most_bytes: int) -> list[Event]:
        """Read what has come: first a share of each file, so that none keeps the others waiting."""
        events: list[Event] = []
        files = self._growing_files.values()
        for file in files:
            events += self._read_new(file, max(1, most_bytes // len(files)))
        for file in files:
            if file.has_more:
                events += self._read_new(file, most_bytes)
                break
        for file in files:
            if file.problem:
                events += self._report_once(f"{self._shown_name(file.path)}: {file.problem}")
        return events

    def _read_new(self, file: GrowingFile, most_bytes: int) -> list[Event]:
        """Return the text that has come in the file."""
        texts: list[str] = []
        with suppress(OSError):
            texts += file.read(most_bytes)
        return self._text_events(file, *texts)

    def _text_events(self, file: GrowingFile, *texts: str) -> list[Event]:
        shown_name = FILE + self._shown_name(file.path)
        return [OutputText(self._rank, shown_name, text) for text in texts if text]

    def _shown_name(self, path: str) -> str:
        """Return the path as it is shown."""
        relative = os.path.relpath(path, self._folder)
        return path if relative.startswith("..") else relative


class FileFollower:
    """Reads files by turns of the agent's loop, which never waits for a disk: each look is a
    thread, whose finds the next turn takes."""

    def __init__(self, redaction: Redaction) -> None:
        self._redaction = redaction
        self._followed_files: FollowedFiles | None = None
        self._thread: threading.Thread | None = None
        self._found_events: list[Event] = []

    def start(self, patterns: Sequence[str], folder: str, rank: int) -> None:
        """Follow files from now on, before the program starts. Their text is reported as this
        rank's."""
        self.end()
        if patterns:
            self._followed_files = FollowedFiles(patterns, folder, rank, self._redaction)
            self._begin_look(self._followed_files.begin)
            self._wait_for_look()

    def news(self) -> list[Event]:
        """Return what the last look has found, and begin another one."""
        if self._followed_files is None or self._is_busy:
            return []
        events = self._take_found()
        self._begin_look(self._followed_files.look)
        return events

    def end(self) -> list[Event]:
        """Return the rest, as the program has ended. Nothing is read any more."""
        files = self._followed_files
        self._followed_files = None
        if files:
            self._wait_for_look()
            if not self._is_busy:
                self._begin_look(files.end)
                self._wait_for_look()
        return [] if self._is_busy else self._take_found()  # busy: its disk does not answer

    def _take_found(self) -> list[Event]:
        events = self._found_events
        self._found_events = []
        return events

    @property
    def _is_busy(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def _begin_look(self, look: Callable[[], list[Event]]) -> None:
        def run() -> None:
            self._found_events += look()

        self._thread = threading.Thread(target=run, name="followed files", daemon=True)
        self._thread.start()

    def _wait_for_look(self) -> None:
        if self._thread:
            self._thread.join(PATIENCE)
