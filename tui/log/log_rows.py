"""Which lines of a log are shown: a row for each, or for equal ones of several ranks."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from operator import attrgetter

from rich.cells import cell_len

from remote.run.output.collapsed_lines import Collapse, Shared
from remote.run.output.log_levels import Level, Levels, without_rank
from remote.run.state.types import LogLine
from tui.kit.widgets.plain import LONGEST, plain

KEPT = 20_000
"""News, routine lines and rows that are held, of each so many; beyond, the oldest tenth goes at
once."""
_number = attrgetter("number")


@dataclass(frozen=True)
class Filter:
    """Which lines are shown. `news`: no routine lines, and equal lines of several ranks as one.
    `rank`: of this one only, of hosts and the session where it is -1; None for all. `pattern`: only
    lines in which it is found."""

    news: bool = True
    rank: int | None = None
    level: Level = Level.INFO
    pattern: re.Pattern[str] | None = None


class RecentLines:
    """The newest lines of a run, routine ones apart from the others."""

    def __init__(self) -> None:
        self.news: list[LogLine] = []
        self.routine: list[LogLine] = []

    def add(self, lines: Sequence[LogLine]) -> None:
        """Take in new lines."""
        self.news += [line for line in lines if not line.routine]
        self.routine += [line for line in lines if line.routine]
        for held in (self.news, self.routine):
            del held[: excess(held)]

    @property
    def all(self) -> list[LogLine]:
        """All of them, in order."""
        return sorted((*self.news, *self.routine), key=_number)


class Rows:
    """The lines that a filter lets through. `lines` has the first line of each row; `hidden` counts
    the routine lines that are not shown, `matches` the rows in which the `search` is found.
    `widest` are the cells that the widest text takes at the most."""

    def __init__(self, which: Filter, search: re.Pattern[str] | None = None) -> None:
        self.lines: list[LogLine] = []
        self.hidden = self.matches = self.widest = 0
        self._search = search
        self._filter = which
        self._levels = Levels()
        self._collapse = Collapse()

    def add(self, lines: Sequence[LogLine]) -> list[LogLine]:
        """Take in new lines. Returns those that are no rows of their own: the rows that now stand
        for more lines than before."""
        fresh = self._let_through(lines)
        changed = list[LogLine]()
        if self._collapses:
            fresh, changed = self._collapse.add(fresh)
        self.lines += fresh
        self.widest = max(self.widest, _widest(fresh))
        self.matches += self._count(fresh)
        return changed

    @property
    def _collapses(self) -> bool:
        return self._filter.news and self._filter.rank is None

    def _let_through(self, lines: Sequence[LogLine]) -> Sequence[LogLine]:
        """The lines that pass the filter; the cheapest questions come first."""
        wanted = self._filter
        if wanted.rank is not None:
            lines = [line for line in lines if line.rank == wanted.rank]
        if wanted.news:
            before = len(lines)
            lines = [line for line in lines if not line.routine]
            self.hidden += before - len(lines)
        if wanted.level > Level.INFO:
            lines = [line for line in lines if self._levels.of(line) >= wanted.level]
        pattern = wanted.pattern
        if pattern:
            lines = [line for line in lines if pattern.search(plain(own_text(line)))]
        return lines

    def look_for(self, search: re.Pattern[str] | None) -> None:
        """Look for something else."""
        self._search = search
        self.matches = self._count(self.lines)

    def _count(self, rows: Sequence[LogLine]) -> int:
        """The rows in which something is found."""
        search = self._search
        return sum(search.search(self.text(row)) is not None for row in rows) if search else 0

    def next_match(self, row: int, step: int) -> LogLine | None:
        """The next row in which something is found: `step` 1 or -1 from this one on, and from the
        other end on; None where there is none."""
        if self._search is None:
            return None
        count = len(self.lines)
        row = min(row, count)  # of a view that is not full
        around = ((row + step * index) % count for index in range(1, count + 1))
        lines = (self.lines[index] for index in around)
        return next((line for line in lines if self._search.search(self.text(line))), None)

    def has(self, number: int) -> bool:
        """Whether the line of this number is the first of a row."""
        row = self.at(number)
        return row < len(self.lines) and self.lines[row].number == number

    def trim(self) -> int:
        """Let go of the oldest rows beyond what is held; returns how many."""
        gone = excess(self.lines)
        if gone:
            del self.lines[:gone]
            self._collapse.trim(self.lines[0].number)
            self.matches = self._count(self.lines)
        return gone

    def shared(self, line: LogLine) -> Shared | None:
        """What the row of this line stands for, where it is more than the line."""
        return self._collapse.shared.get(line.number)

    def text(self, line: LogLine) -> str:
        """What the row of this line says; fit to be shown."""
        shared = self.shared(line)
        return plain(shared.text if shared else own_text(line))

    def at(self, number: int) -> int:
        """The row of the line of this number, or the next one's."""
        return bisect_left(self.lines, number, key=_number)


def own_text(line: LogLine) -> str:
    """The text of a line, without the rank that stands beside it; with the host where no rank
    does."""
    if line.rank >= 0:
        return without_rank(line.text, line.rank)
    return f"{line.host}: {line.text}" if line.host else line.text


def excess(lines: Sequence[object]) -> int:
    """How many of the oldest lines go."""
    return len(lines) - KEPT + KEPT // 10 if len(lines) > KEPT else 0


def _widest(lines: Sequence[LogLine]) -> int:
    """The cells that the widest text takes at the most; half-width characters only are told by
    their number, much faster."""
    texts = [line.text for line in lines]
    odd = (cell_len(text[:LONGEST]) for text in texts if not text.isascii())
    hosts = (len(line.host) + 2 for line in lines if line.rank < 0)
    longest = min(max(map(len, texts), default=0), LONGEST)
    return max(hosts, default=0) + max(longest, max(odd, default=0))
