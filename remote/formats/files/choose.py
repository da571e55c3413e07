"""Which reader is that of a file."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Protocol

from remote.formats.files.event_file import EventFile
from remote.formats.files.objects import Objects
from remote.formats.files.table import Table
from remote.formats.reader import LogReader
from remote.formats.reading import Reading
from remote.formats.rules import Rule


class FileReader(Protocol):
    """Reads what comes in one file, or in the output of a rank. Keeps state; deterministic."""

    unread: int

    @property
    def format(self) -> str:
        """The name of the format that is read; "" as long as nothing is."""

    def read(self, text: str) -> list[Reading]:
        """What the text of one `Text` event tells: whole lines, or a piece of a long one."""


_CHECKPOINT = re.compile(r"(?<=checkpoint[-_])\d+(?=/)")
_EVENT_FILE = re.compile(r"(?<=tfevents\.)[^/]+$")


def source_of(path: str) -> str:
    """What the file is a part of, as a pattern: the checkpoints of a run have its history each, and
    the event files of a folder go on one after the other. One reader reads them all."""
    return _EVENT_FILE.sub("*", _CHECKPOINT.sub("*", path))


def is_of_numbers(path: str) -> bool:
    """Whether a file of this name is no log."""
    return not isinstance(reader_of(path), LogReader)


def reader_of(path: str, rules: Sequence[Rule] = ()) -> FileReader:
    """The reader of a file, by its name: what is no file of numbers is read as a log, as is what a
    rank prints (""). `rules` are the user's own, of logs."""
    name = path.rpartition("/")[2].lower()
    if "tfevents" in name:
        return EventFile()
    if name.endswith((".csv", ".tsv")):
        return Table(name)
    if name.endswith((".json", ".jsonl", ".ndjson")):
        return Objects()
    return LogReader(rules)
