"""Readers of the lines of a format. Most formats are patterns, which `LineReader` reads; the others
are here because their lines depend on each other, or hold JSON, or a progress bar."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from remote.formats.catalog import LogFormat
from remote.formats.memory import Memory
from remote.formats.readers.bars import Bar, LightningBar
from remote.formats.readers.framed import FramedTable
from remote.formats.readers.keras import KerasBar
from remote.formats.readers.key_value import KeyValueLine
from remote.formats.readers.lines import LineReader
from remote.formats.readers.objects import ObjectLine
from remote.formats.readers.ruled_table import RuledTable
from remote.formats.readers.trainer import TrainerDict
from remote.formats.reading import Reading


class FormatReader(Protocol):
    """Reads the lines of a format of one rank. Keeps state. While it is `open`, the next lines are
    shown to it first, even without a mark of the format."""

    @property
    def open(self) -> bool:
        """True if more of what it has read may follow."""

    def read(self, line: str, start: int, memory: Memory) -> Reading | None:
        """Return what a line reports; its prefixes end at `start`. None: the line is not of this
        format, or reports nothing by itself. Raises: ValueError, if a number in it is none."""


_READERS: dict[str, Callable[[LogFormat], FormatReader]] = {
    "lines": LineReader,
    "bar": Bar,
    "lightning": LightningBar,
    "keras": KerasBar,
    "framed table": FramedTable,
    "ruled table": RuledTable,
    "trainer": TrainerDict,
    "objects": ObjectLine,
    "name=value": KeyValueLine,
}


def make_reader(log_format: LogFormat) -> FormatReader:
    """Return a reader for the lines of one rank."""
    return _READERS[log_format.reader](log_format)
