"""Which lines of a log are shown: a row per line, or per group of equal lines of several ranks."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Sequence
from operator import attrgetter

from msgspec import Struct
from rich.cells import cell_len

from remote.run.output.collapsed_lines import LineCollapser, SharedLine
from remote.run.output.log_levels import Level, LevelReader, strip_rank_prefix
from remote.run.state.types import LogLine
from remote.sanitise import LONGEST_DRAWN, plain

MAX_LINES = 20_000
"""News lines, routine lines and rows in memory, each; beyond it, the oldest tenth goes at once."""
_line_number = attrgetter("number")
_SOURCE_FOLDERS = re.compile(
    r"((?:[\w.]{1,60}: )?\[)/[^\s\[\]]*/(?=[^/\s\[\]]+\.(?:cc|cpp|cu|h|hpp):\d+\] )"
)
"""Before a message of torch's C++ code: the folders in which its source was compiled."""


class LogFilter(Struct, frozen=True):
    """Which lines of a log are shown."""

    news: bool = True
    """Hide routine lines, and show equal lines of several ranks as one row."""
    rank: int | None = None
    """Show only this rank, or with -1 only hosts and the session."""
    level: Level = Level.INFO
    pattern: re.Pattern[str] | None = None
    """Show only lines in which this is found."""


class RecentLines:
    """The newest lines of a run. Routine lines are kept apart, so that they push out no news."""

    def __init__(self) -> None:
        self.news: list[LogLine] = []
        self.routine: list[LogLine] = []

    def add(self, lines: Sequence[LogLine]) -> None:
        for line in lines:
            target = self.routine if line.routine else self.news
            target.append(line)
        del self.news[: count_excess(self.news)]
        del self.routine[: count_excess(self.routine)]

    def in_order(self) -> list[LogLine]:
        """Return news and routine lines in order of arrival."""
        return sorted((*self.news, *self.routine), key=_line_number)


class LogRows:
    """The rows that a filter lets through."""

    def __init__(self, row_filter: LogFilter, search: re.Pattern[str] | None = None) -> None:
        self.lines: list[LogLine] = []
        """The first line of each row."""
        self.hidden = 0
        """Routine lines that are not shown."""
        self.matches = 0
        """Rows in which the search is found."""
        self.widest = 0
        """An upper bound of the cells of the widest text."""
        self._search = search
        self._counted_match: tuple[object, ...] = ()
        self._match_place = 0
        self._filter = row_filter
        self._levels = LevelReader()
        self._collapse = LineCollapser()

    def add(self, lines: Sequence[LogLine]) -> list[LogLine]:
        """Add new lines. Return the first lines of older rows that some of them have joined."""
        new_rows = self._apply_filter(lines)
        joined_rows: list[LogLine] = []
        if self._filter.news and self._filter.rank is None:
            new_rows, joined_rows = self._collapse.add(new_rows)
        self.lines += new_rows
        self.widest = max(self.widest, _max_width(new_rows))
        self.matches += self._count_matches(new_rows)
        return joined_rows

    def _apply_filter(self, lines: Sequence[LogLine]) -> Sequence[LogLine]:
        # The cheapest conditions come first, as a burst brings many lines.
        rank = self._filter.rank
        if rank is not None:
            lines = [line for line in lines if line.rank == rank]
        if self._filter.news:
            news = [line for line in lines if not line.routine]
            self.hidden += len(lines) - len(news)
            lines = news
        level = self._filter.level
        if level > Level.INFO:
            lines = [line for line in lines if self._levels.read(line) >= level]
        pattern = self._filter.pattern
        if pattern:
            lines = [line for line in lines if pattern.search(plain(own_text(line)))]
        return lines

    def set_search(self, search: re.Pattern[str] | None) -> None:
        """Search for something else."""
        self._search = search
        self.matches = self._count_matches(self.lines)

    def _count_matches(self, rows: Sequence[LogLine]) -> int:
        if self._search is None:
            return 0
        return sum(self._is_match(line) for line in rows)

    def _is_match(self, line: LogLine) -> bool:
        return self._search is not None and self._search.search(self.text(line)) is not None

    def next_match(self, row: int, step: int) -> LogLine | None:
        """Return the next row after `row` (step 1) or before it (step -1) that matches, or None.

        The search wraps around at the ends.
        """
        count = len(self.lines)
        row = min(row, count)  # a view that is not full asks from below the last row
        for distance in range(1, count + 1):
            line = self.lines[(row + step * distance) % count]
            if self._is_match(line):
                return line
        return None

    def match_place(self, number: int) -> int:
        """Return which of the matches the row of this line is, from 1; 0 if it is none."""
        # To count them takes a while, and the caption asks at each drawing.
        counted = (number, self._search, self.matches)
        if counted != self._counted_match:
            row = self.row_of(number)
            is_match = row < len(self.lines) and self._is_match(self.lines[row])
            self._counted_match = counted
            self._match_place = self._count_matches(self.lines[: row + 1]) if is_match else 0
        return self._match_place

    def has(self, number: int) -> bool:
        """Return True if the line of this number is the first one of a row."""
        row = self.row_of(number)
        return row < len(self.lines) and self.lines[row].number == number

    def row_of(self, number: int) -> int:
        """Return the row of the line of this number, or else the next row."""
        return bisect_left(self.lines, number, key=_line_number)

    def trim(self) -> int:
        """Drop the oldest rows beyond `MAX_LINES` and return how many."""
        dropped = count_excess(self.lines)
        if dropped:
            del self.lines[:dropped]
            self._collapse.trim(self.lines[0].number)
            self.matches = self._count_matches(self.lines)
        return dropped

    def shared(self, line: LogLine) -> SharedLine | None:
        """Return what the row of this line stands for, if it stands for several lines."""
        return self._collapse.shared.get(line.number)

    def text(self, line: LogLine) -> str:
        """Return the text of the row of this line, without control characters, and without the
        folders of a source in C++."""
        shared = self.shared(line)
        text = plain(shared.text if shared else own_text(line))
        # They would push out of view what has happened, and nobody has them.
        source = _SOURCE_FOLDERS.match(text)
        return source[1] + text[source.end() :] if source else text


def own_text(line: LogLine) -> str:
    """Return the text of a line without its rank, as that stands beside it, or with its host."""
    if line.rank >= 0:
        return strip_rank_prefix(line.text, line.rank)
    return f"{line.host}: {line.text}" if line.host else line.text


def count_excess(lines: Sequence[object]) -> int:
    """Return how many of the oldest lines to drop."""
    if len(lines) <= MAX_LINES:
        return 0
    return len(lines) - MAX_LINES + MAX_LINES // 10


def _max_width(lines: Sequence[LogLine]) -> int:
    """Return an upper bound of the cells that the widest of these lines takes."""
    # Comprehensions, since a burst brings thousands of lines for one frame: a loop that compares
    # takes three times as long. `cell_len` is slower yet, and only for text beyond ASCII.
    shown_texts = [line.text[:LONGEST_DRAWN] for line in lines]
    text_widths = [len(text) if text.isascii() else cell_len(text) for text in shown_texts]
    host_widths = [len(line.host) + len(": ") for line in lines if line.rank < 0]
    return max(host_widths, default=0) + max(text_widths, default=0)
