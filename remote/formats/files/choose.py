"""The reader of a file, by its name."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Protocol

from remote.formats.files.event_file import EventFile
from remote.formats.files.json_file import JsonFile
from remote.formats.files.table_file import TableFile
from remote.formats.reader import LogReader
from remote.formats.reading import Reading
from remote.formats.rules import Rule


class FileReader(Protocol):
    """Reads what comes in one file, or in the output of a rank. Keeps state; deterministic."""

    unread: int
    """Lines that have numbers and are not read."""

    @property
    def format(self) -> str:
        """The name of the format that is read; "" as long as nothing is."""

    def read(self, text: str) -> list[Reading]:
        """Return what the text of one `Text` event reports: whole lines, or a piece of a long
        one."""


_CHECKPOINT = re.compile(r"(?<=checkpoint[-_])\d+(?=/)")
_EVENT_FILE = re.compile(r"(?<=tfevents\.)[^/]+$")


def source_of(path: str) -> str:
    """Return a pattern for the files that go on with this one, which one reader reads: each
    checkpoint of a run has its whole history, and the event files of a folder follow each other."""
    return _EVENT_FILE.sub("*", _CHECKPOINT.sub("*", path))


def is_of_numbers(path: str) -> bool:
    """Return True if a file of this name is no log."""
    return not isinstance(reader_of(path), LogReader)


def reader_of(path: str, rules: Sequence[Rule] = ()) -> FileReader:
    """Return the reader of a file. Any file that is no file of numbers by its name is read as a
    log, as is what a rank prints (""). `rules` are the user's own, of logs."""
    name = path.rpartition("/")[2].lower()
    # Not by its end, which is a time, a host and numbers.
    if "tfevents" in name:
        return EventFile()
    if name.endswith((".csv", ".tsv")):
        return TableFile(name)
    if name.endswith((".json", ".jsonl", ".ndjson")):
        return JsonFile()
    return LogReader(rules)
