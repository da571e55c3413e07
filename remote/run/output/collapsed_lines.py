"""Shows lines of several ranks that differ only in whose they are as one. Pure."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from operator import attrgetter

from remote.run.output.log_levels import log_entries, strip_rank_prefix
from remote.run.state.types import LogLine

MOMENT = 30.0
"""Seconds between equal lines within which they are one; beyond twice as many they never are."""
RECENT = 1_000
"""Lines before which an equal one is looked for at the least; at the most it is twice as many."""

BURST = 5_000
"""Of more lines at once only errors are looked at: nobody can read the others, and it would take
longer than a frame may."""

_STAMP = re.compile(
    r"\A(?:\[?\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d\S*|\[[IWEF]\d{4} \d\d:\d\d:\d\d\.\d+(?: +\d+)?)"
)
"""A time at the start of a line, as of Python's logging and torch's."""
_RANK_NAME = re.compile(r"(\brank[ :=_-]{0,2})(\d+)\b", re.IGNORECASE)
_STAMPED = "[2"
"""What a stamp may begin with."""
_ADDRESS = re.compile(r"\[?\b(?:\d{1,3}\.){3}\d{1,3}\]?:\d+|\[[0-9a-f:]+\]:\d+")
"""An address and a port, as of the peer in an error of communication."""


_number = attrgetter("number")


def _first_number(entry: list[LogLine]) -> int:
    return entry[0].number


@dataclass(slots=True)
class SharedLine:
    """Lines of several ranks as one."""

    text: str
    """Of the first, with * for what names the rank, its host or its peer."""
    ranks: list[int]

    def add(self, line: LogLine, first: LogLine) -> None:
        """Take in the line of one more rank."""
        self.ranks.append(line.rank)
        first_text = strip_rank_prefix(first.text, first.rank)
        if strip_rank_prefix(line.text, line.rank) != first_text:
            self.text = _hide_names(first_text, first)


class LineCollapser:
    """Finds for each line the one that it is equal to, for a traceback the whole of another rank.
    The lines of one rank stay in order: none joins a line before another of its rank.

    `shared` are the lines that others have joined, by number.
    """

    def __init__(self) -> None:
        self.shared: dict[int, SharedLine] = {}
        # Lines in two generations: the older one goes as a whole, without a look at each line.
        self._new: dict[str, list[list[LogLine]]] = {}
        self._old: dict[str, list[list[LogLine]]] = {}
        self._count = 0
        self._since = 0.0
        self._last: dict[int, int] = {}
        """By rank, the number of the line that shows its last one."""

    def add(self, lines: Sequence[LogLine]) -> tuple[list[LogLine], list[LogLine]]:
        """Take in new lines.

        Return those that are shown by themselves, and the earlier ones that the others join.
        """
        single_lines: list[LogLine] = []
        joined_lines: list[LogLine] = []
        skipped_lines: list[LogLine] = []
        if len(lines) > BURST:
            skipped_lines = [line for line in lines if line.stream != "stderr"]
            lines = [line for line in lines if line.stream == "stderr"]
        for entry in log_entries(lines):
            first = self._join_entry(entry)
            if first is None:
                single_lines += entry
            else:
                joined_lines += first
        self._last.update((line.rank, line.number) for line in skipped_lines)
        return sorted(skipped_lines + single_lines, key=_number), joined_lines

    def _join_entry(self, entry: list[LogLine]) -> list[LogLine] | None:
        """Return the entry of another rank that this one is shown with, or None."""
        rank = entry[0].rank
        # Lines of hosts and remarks are news each time.
        if rank < 0:
            return None
        entry_key = "\n".join(map(_comparison_key, entry))
        self._forget_old(entry[0].time)
        first_entry = self._find_equal(entry_key, self._last.get(rank, -1))
        self._last[rank] = (first_entry or entry)[-1].number
        if first_entry is None:
            self._new.setdefault(entry_key, []).append(entry)
            self._count += len(entry)
            return None
        for line, first_line in zip(entry, first_entry, strict=True):
            self._share_line(line, first_line)
        return first_entry

    def _share_line(self, line: LogLine, first: LogLine) -> None:
        shared_line = self.shared.get(first.number)
        if shared_line is None:
            shared_line = SharedLine(strip_rank_prefix(first.text, first.rank), [first.rank])
            self.shared[first.number] = shared_line
        shared_line.add(line, first)

    def trim(self, number: int) -> None:
        """Forget what is shared before the line of this number."""
        self.shared = {
            line_number: shared
            for line_number, shared in self.shared.items()
            if line_number >= number
        }

    def _find_equal(self, key: str, after: int) -> list[LogLine] | None:
        for entries_by_key in (self._old, self._new):
            entries = entries_by_key.get(key)
            if entries and entries[-1][0].number > after:
                # The earliest that is behind the rank's last line: so its lines stay in order.
                return entries[bisect_right(entries, after, key=_first_number)]
        return None

    def _forget_old(self, now: float) -> None:
        if self._count >= RECENT or now - self._since > MOMENT:
            self._old = self._new if now - self._since <= 2 * MOMENT else {}
            self._new = {}
            self._count = 0
            self._since = now


def _comparison_key(line: LogLine) -> str:
    """Return what equal lines have in common."""
    nameless_text = _hide_names(strip_rank_prefix(line.text, line.rank), line)
    return _STAMP.sub("", nameless_text) if nameless_text[:1] in _STAMPED else nameless_text


def _hide_names(text: str, line: LogLine) -> str:
    """Return the text with * for its rank and its host, and in an error for any address."""
    if line.stream == "stderr":
        text = _ADDRESS.sub("*", text)
    # A quick look first: few lines name a rank, and the pattern is slow as it ignores case.
    if "ank" in text or "ANK" in text:
        rank_text = str(line.rank)
        text = _RANK_NAME.sub(lambda name: f"{name[1]}*" if name[2] == rank_text else name[0], text)
    return text.replace(line.host, "*") if line.host else text
