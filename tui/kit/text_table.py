"""Tables as plain text, for terminals and pipes."""

from __future__ import annotations

import math
import shutil
import sys
from collections.abc import Collection, Sequence
from itertools import compress

from remote.sanitise import one_line
from tui.kit import palette
from tui.kit.narrate import echo

Row = tuple[str, ...]
GAP = "  "
LEAST_BAR = 6
"""Columns of a bar of progress, at the least."""


def print_table(head: Sequence[str], rows: Sequence[Row], drop_order: Sequence[str] = ()) -> None:
    """Print a table that is as narrow as the terminal, see `drop_columns`."""
    width = terminal_width()
    shown_table = drop_columns(drop_order, [tuple(head), *map(clean_row, rows)], width)
    lines = align_lines(shown_table)
    if len(head) > 2:  # the second of two columns is text, which the terminal wraps
        lines = [line if len(line) <= width else f"{line[: int(width) - 1]}…" for line in lines]
    echo("\n".join(lines))


def clean_row(row: Row) -> Row:
    """Make a row fit to be printed. Most of thousands are, and need no look at each cell."""
    return row if "".join(row).isprintable() else tuple(map(one_line, row))


def drop_columns(drop_order: Sequence[str], table: Sequence[Row], width: float) -> list[Row]:
    """Leave out columns with these titles, the first one first, until the table is narrow enough.
    The first row is the head."""
    widths = dict(zip(table[0], column_widths(table), strict=True))
    # The least important columns first, and no more of them than are in the way.
    for title in drop_order:
        if _line_width(widths.values()) > width:
            widths.pop(title, None)
    is_shown = [title in widths for title in table[0]]
    return [tuple(compress(row, is_shown)) for row in table]


def align_lines(table: Sequence[Sequence[str]]) -> list[str]:
    """Format the lines of a table, its columns two spaces apart."""
    return [GAP.join(row).rstrip() for row in pad_cells(table)]


def rule_lines(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Format the lines of a table with rules, for one with empty cells."""
    table = [head, *rows]
    head_line, *body_lines = (" | ".join(row).rstrip() for row in pad_cells(table))
    rule_line = "-+-".join("-" * width for width in column_widths(table))
    return [head_line, rule_line, *body_lines]


def pad_cells(table: Sequence[Sequence[str]]) -> list[list[str]]:
    """Pad the cells of each column to its width."""
    widths = column_widths(table)
    return [list(map(str.ljust, row, widths)) for row in table]


def justify(left: str, right: str, width: int) -> str:
    """Put `right` at the right edge; if both do not fit, leave it out, and cut `left`."""
    room_left = width - len(right) - 2
    return f"{left:<{room_left}}  {right}" if len(left) <= room_left else left[: max(width, 0)]


def progress_line(facts: str, share: float, times: str, width: int) -> str:
    """Draw a bar as wide as the texts beside it leave room for; none if that is little."""
    bar_width = width - len(facts) - len(times) - 2 * len(GAP)
    if bar_width < LEAST_BAR:
        return justify(facts, times, width)
    num_done = round(bar_width * min(share, 1.0))
    bar_text = palette.sign("full") * num_done + palette.sign("rest") * (bar_width - num_done)
    return f"{facts}{GAP}{bar_text}{GAP}{times}"


def column_widths(table: Sequence[Sequence[str]]) -> list[int]:
    """Measure the columns of a table."""
    return [max(map(len, column)) for column in zip(*table, strict=True)]


def terminal_width() -> float:
    """Measure how wide a line may be; infinite if stdout is no terminal."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else math.inf


def total_width(table: Sequence[Sequence[str]]) -> int:
    """Measure the lines of a table."""
    return _line_width(column_widths(table))


def _line_width(widths: Collection[int]) -> int:
    return sum(widths) + len(GAP) * (len(widths) - 1)
