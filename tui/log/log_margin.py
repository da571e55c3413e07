"""What stands beside the rows of a log: the time and the rank before the text, and how many equal
lines a row stands for behind it."""

from __future__ import annotations

from dataclasses import dataclass

from remote.format import clock, short_ranks
from remote.run.output.collapsed_lines import Shared
from remote.run.state.types import LogLine

NARROW = 60
"""Columns below which there is no room for times."""


@dataclass(frozen=True)
class Margin:
    """The margins of the log of a run with so many `ranks`; `times`: with the local time."""

    ranks: int = 1
    times: bool = True

    def width(self, columns: int) -> int:
        """Cells before the text, on a log of so many columns."""
        return self._time(columns) + self._whose + 1

    @property
    def tail(self) -> int:
        """Cells behind the text, at the most."""
        return len(number(self.ranks))

    def text(self, line: LogLine, shared: Shared | None, columns: int) -> tuple[str, str]:
        """The time, and whose line it is; together as wide as the margin."""
        when = f"{clock(line.time)} "[: self._time(columns)]
        return when, f"{self._ranks(line, shared):>{self._whose}} "

    @property
    def _whose(self) -> int:
        return len(f"[0-{self.ranks - 1}]" if self.ranks > 1 else "[0]")

    def _time(self, columns: int) -> int:
        return len("HH:MM:SS ") if self.times and columns >= NARROW else 0

    def _ranks(self, line: LogLine, shared: Shared | None) -> str:
        if shared is None:
            return f"[{line.rank}]" if line.rank >= 0 else ""
        whose = f"[{short_ranks(shared.ranks)}]"
        if len(whose) <= self._whose:
            return whose
        return f"[{min(shared.ranks)}…{max(shared.ranks)}]"


def number(lines: int) -> str:
    """How many equal lines there are."""
    return f" x{lines}"
