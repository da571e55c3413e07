"""What is read of a whole log: by which formats, first and last reading, the series in it, and the
lines with numbers that are not read."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TextIO

from remote.formats.files import is_of_numbers, reader_of
from remote.formats.reader import PIECE, LogReader
from remote.formats.reading import Reading, ReadingKind
from remote.formats.rules import Rule

MAX_SHAPES = 1_000
"""Kinds of lines that are not read; those of further kinds are counted together."""
MAX_SERIES = 1_000
_NUMBERS = re.compile(r"\d{1,40}(?:[.,]\d{1,40}){0,40}")
_OTHER_SHAPES = "…"


@dataclass
class Series:
    """The values of one name."""

    count: int
    first: float
    last: float
    least: float
    most: float

    def add(self, value: float) -> None:
        """Add the next one."""
        self.count += 1
        self.last = value
        self.least = min(self.least, value)
        self.most = max(self.most, value)


@dataclass
class ParseReport:
    """The report of one log, or of the file of numbers at `path`; `feed` it all of its text in
    order."""

    rules: Sequence[Rule] = ()
    path: str = ""
    lines: int = 0
    formats: Counter[str] = field(default_factory=Counter)
    kinds: Counter[ReadingKind] = field(default_factory=Counter)
    ranks: set[int] = field(default_factory=set)
    series: dict[str, Series] = field(default_factory=dict)
    first: tuple[str, Reading] | None = None
    last: tuple[str, Reading] | None = None
    unread: Counter[str] = field(default_factory=Counter)
    """How many lines of each kind are not read: lines that differ by numbers alone are one kind."""
    examples: dict[str, str] = field(default_factory=dict)
    """A line of each kind that is not read."""

    def __post_init__(self) -> None:
        # Only a `LogReader` says which lines it does not read.
        if is_of_numbers(self.path):
            self._reader = reader_of(self.path)
        else:
            self._reader = LogReader(self.rules, self._add_unread)

    @property
    def format(self) -> str:
        """The format that the log is read as; "" if nothing is read."""
        return self._reader.format

    def feed(self, text: str) -> None:
        """Read the next lines."""
        self.lines += text.count("\n") + 1
        for line, name, reading in self._read(text):
            self.formats[name] += 1
            self.kinds[reading.kind] += 1
            if reading.rank >= 0:
                self.ranks.add(reading.rank)
            self.last = line, reading
            self.first = self.first or self.last
            for series_name, value in reading.values.items():
                self._add_value(series_name, value)

    def _read(self, text: str) -> Iterator[tuple[str, str, Reading]]:
        """Yield the readings of a text, each with its line and the name of its format."""
        if isinstance(self._reader, LogReader):
            for line, log_format, reading in self._reader.read_lines(text):
                yield line, log_format.name, reading
            return
        for line in text.split("\n"):
            for reading in self._reader.read(line):
                yield line, self._reader.format, reading

    def _add_value(self, name: str, value: float) -> None:
        series = self.series.get(name)
        if series:
            series.add(value)
        elif len(self.series) < MAX_SERIES:
            self.series[name] = Series(1, value, value, value, value)

    def _add_unread(self, line: str) -> None:
        shape = _NUMBERS.sub("#", line[:400]).strip()
        if shape not in self.examples:
            if len(self.examples) >= MAX_SHAPES:
                shape = _OTHER_SHAPES
            self.examples[shape] = line.strip()
        self.unread[shape] += 1


def split_texts(file: TextIO) -> Iterator[str]:
    """Yield the text of a file as a rank's agent would send it: whole lines, or a piece of a long
    one."""
    rest = ""
    while part := file.read(PIECE):
        whole_lines, newline, rest_of_part = (rest + part).rpartition("\n")
        if newline:
            yield whole_lines
        rest = rest_of_part
        if len(rest) >= PIECE:
            yield rest
            rest = ""
    if rest:
        yield rest
