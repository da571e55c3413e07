"""What is read of a whole log: by which formats, first and last reading, the series found, and the
lines with numbers that are not read."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TextIO

from remote.formats.files import is_of_numbers, reader_of
from remote.formats.reader import PIECE, LogReader
from remote.formats.reading import Kind, Reading
from remote.formats.rules import Rule

SHAPES = 1_000
"""Of lines that are not read, at most; those of further shapes are counted together."""
SERIES = 1_000
_NUMBERS = re.compile(r"\d{1,40}(?:[.,]\d{1,40}){0,40}")


@dataclass
class Series:
    """The values of one name: how many, the first, the last, the least and the most."""

    count: int
    first: float
    last: float
    least: float
    most: float

    def add(self, value: float) -> None:
        """Add the next one."""
        self.count += 1
        self.last = value
        self.least, self.most = min(self.least, value), max(self.most, value)


@dataclass
class Account:
    """Of one log, or of the file of numbers at `path`; `feed` it all of its text in order."""

    rules: Sequence[Rule] = ()
    path: str = ""
    lines: int = 0
    formats: Counter[str] = field(default_factory=Counter)
    kinds: Counter[Kind] = field(default_factory=Counter)
    ranks: set[int] = field(default_factory=set)
    series: dict[str, Series] = field(default_factory=dict)
    first: tuple[str, Reading] | None = None
    last: tuple[str, Reading] | None = None
    unread: Counter[str] = field(default_factory=Counter)
    examples: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        log = LogReader(self.rules, self._add_unread)
        self._reader = reader_of(self.path) if is_of_numbers(self.path) else log

    @property
    def format(self) -> str:
        """The format that the log is read as; "" if nothing is read."""
        return self._reader.format

    def feed(self, text: str) -> None:
        """Read the next lines."""
        self.lines += text.count("\n") + 1
        for line, name, reading in self._told(text):
            self.formats[name] += 1
            self.kinds[reading.kind] += 1
            if reading.rank >= 0:
                self.ranks.add(reading.rank)
            self.first = self.first or (line, reading)
            self.last = line, reading
            for each, value in reading.values.items():
                known = self.series.get(each)
                if known:
                    known.add(value)
                elif len(self.series) < SERIES:
                    self.series[each] = Series(1, value, value, value, value)

    def _told(self, text: str) -> Iterator[tuple[str, str, Reading]]:
        """The readings of a text, each with the line that tells it, and the name of its format."""
        if isinstance(self._reader, LogReader):
            for line, one, reading in self._reader.told(text):
                yield line, one.name, reading
            return
        for line in text.split("\n"):
            for reading in self._reader.read(line):
                yield line, self._reader.format, reading

    def _add_unread(self, line: str) -> None:
        shape = _NUMBERS.sub("#", line[:400]).strip()
        if shape not in self.examples:
            if len(self.examples) >= SHAPES:
                shape = "…"
            self.examples[shape] = line.strip()
        self.unread[shape] += 1


def texts(file: TextIO) -> Iterator[str]:
    """The text of a file as a rank's agent would send it: whole lines, or a piece of a long one."""
    rest: list[str] = []
    size = 0
    while part := file.read(PIECE):
        whole, newline, tail = part.rpartition("\n")
        if newline:
            yield "".join((*rest, whole))
            rest = [tail]
            size = len(tail)
            continue
        rest.append(part)
        size += len(part)
        if size >= PIECE:
            yield "".join(rest)
            rest = []
            size = 0
    if size:
        yield "".join(rest)
