"""The margins of a log row: time and rank before the text, the number of equal lines behind it."""

from __future__ import annotations

from dataclasses import dataclass

from remote.format import clock, short_ranks
from remote.run.output.collapsed_lines import SharedLine
from remote.run.state.types import LogLine

MIN_COLUMNS_FOR_TIMES = 60


@dataclass(frozen=True)
class LogMargin:
    """What stands beside the rows of a run's log."""

    ranks: int = 1
    """The world size, which decides how wide the ranks are."""
    times: bool = True
    """Whether rows begin with their local time."""

    def width(self, columns: int) -> int:
        """Return the cells before the text on a log of `columns` cells."""
        return self._time_width(columns) + self._rank_width + 1

    @property
    def max_tail_width(self) -> int:
        """The most cells that `repeat_mark` takes behind the text."""
        return len(repeat_mark(self.ranks))

    def text(self, line: LogLine, shared: SharedLine | None, columns: int) -> tuple[str, str]:
        """Return the time and the ranks of a row, padded to the width of the margin."""
        time = f"{clock(line.time)} "[: self._time_width(columns)]
        ranks = self._rank_text(line, shared)
        return time, f"{ranks:>{self._rank_width}} "

    @property
    def _rank_width(self) -> int:
        widest = f"[0-{self.ranks - 1}]" if self.ranks > 1 else "[0]"
        return len(widest)

    def _time_width(self, columns: int) -> int:
        if self.times and columns >= MIN_COLUMNS_FOR_TIMES:
            return len("HH:MM:SS ")
        return 0

    def _rank_text(self, line: LogLine, shared: SharedLine | None) -> str:
        if shared is None:
            return f"[{line.rank}]" if line.rank >= 0 else ""
        all_ranks = f"[{short_ranks(shared.ranks)}]"
        if len(all_ranks) <= self._rank_width:
            return all_ranks
        return f"[{min(shared.ranks)}…{max(shared.ranks)}]"


def repeat_mark(lines: int) -> str:
    """Return the text that says how many equal lines a row stands for."""
    return f" x{lines}"
