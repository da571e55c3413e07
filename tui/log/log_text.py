"""Rows of a log as text, to be copied or saved."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import takewhile

from remote.run.output.log_levels import Level, Levels, is_traceback
from remote.run.state.types import LogLine
from tui.log.log_margin import Margin, number
from tui.log.log_rows import Rows

WIDE = 1_000
"""Columns on which a margin has all that it can have."""


def as_shown(rows: Rows, lines: Iterable[LogLine], margin: Margin) -> str:
    """These rows with their margins."""
    return "\n".join(_row(rows, line, margin) for line in lines)


def _row(rows: Rows, line: LogLine, margin: Margin) -> str:
    shared = rows.shared(line)
    before = "".join(margin.text(line, shared, WIDE))
    return f"{before}{rows.text(line)}{number(len(shared.ranks)) if shared else ''}"


def entry_text(rows: Rows, row: int) -> str:
    """The text of a row; where a traceback begins there, of all of it."""
    first = rows.lines[row]
    if not is_traceback(first):
        return rows.text(first)
    levels = Levels()
    own = (line for line in rows.lines[row:] if (line.rank, line.host) == (first.rank, first.host))
    bad = takewhile(lambda line: levels.of(line) is Level.ERROR, own)
    return "\n".join(map(rows.text, bad))
