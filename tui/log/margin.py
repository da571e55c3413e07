"""The margins of a log row: time and rank before the text, the number of equal lines behind it."""

from __future__ import annotations

from msgspec import Struct

from remote.format import clock, short_ranks
from remote.run.output.collapsed_lines import SharedLine
from remote.run.state.types import LogLine


class LogMargin(Struct, frozen=True):
    """What stands beside the rows of a run's log."""

    ranks: int = 1
    """The world size, which decides how wide the ranks are."""
    has_times: bool = True
    """Whether rows begin with their local time."""

    @property
    def width(self) -> int:
        """The cells before the text."""
        time_width = len("HH:MM:SS ") if self.has_times else 0
        return time_width + self._rank_width + 1

    def texts(self, line: LogLine, shared: SharedLine | None) -> tuple[str, str]:
        """Return the time and the ranks of a row, padded to the width of the margin."""
        time = f"{clock(line.time)} " if self.has_times else ""
        ranks = f"[{line.rank}]" if line.rank >= 0 else ""
        if shared:
            ranks = f"[{short_ranks(shared.ranks)}]"
            if len(ranks) > self._rank_width:
                ranks = f"[{min(shared.ranks)}…{max(shared.ranks)}]"
        return time, f"{ranks:>{self._rank_width}} "

    @property
    def _rank_width(self) -> int:
        widest = f"[0-{self.ranks - 1}]" if self.ranks > 1 else "[0]"
        return len(widest)


def repeat_mark(lines: int) -> str:
    """Return the text that says how many equal lines a row stands for."""
    return f" x{lines}"
