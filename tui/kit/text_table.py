"""Tables as plain text, for terminals and pipes."""

from __future__ import annotations

import math
import shutil
import sys
from collections.abc import Mapping, Sequence

from remote.sanitise import one_line
from tui.kit.narrate import echo

Row = tuple[str, ...]
GAP = "  "


def print_table(
    head: Sequence[str], rows: Sequence[Row], dispensable: Mapping[str, int] | None = None
) -> None:
    """Print a table that is as narrow as the terminal.

    `dispensable` are the columns to leave out where the terminal is too narrow, each with its turn.
    """
    width = terminal_width()
    table = drop_columns(dispensable or {}, [tuple(head), *map(clean_row, rows)], width)
    cut = [
        line if len(line) <= width or len(head) < 3 else f"{line[: int(width) - 1]}…"
        for line in align_lines(table)
    ]
    echo("\n".join(cut))


def clean_row(row: Row) -> Row:
    """Make a row fit to be printed. Most of thousands are, and need no look at each cell."""
    return row if "".join(row).isprintable() else tuple(map(one_line, row))


def drop_columns(turns: Mapping[str, int], table: Sequence[Row], width: float) -> list[Row]:
    """Leave out columns, each in its turn, until the table is narrow enough; of these, what fits
    after all comes back. The first row is the head."""
    if math.isinf(width):
        return list(table)
    wide = dict(zip(table[0], column_widths(table), strict=True))
    left = dict(wide)
    gone = []
    for name in sorted(turns, key=lambda name: turns[name]):
        if name in left and _line(left) > width:
            del left[name]
            gone.append(name)
    for name in reversed(gone):
        if _line(left) + len(GAP) + wide[name] <= width:
            left[name] = wide[name]
    kept = [index for index, name in enumerate(table[0]) if name in left]
    return [tuple(row[index] for index in kept) for row in table]


def _line(wide: Mapping[str, int]) -> int:
    return sum(wide.values()) + len(GAP) * (len(wide) - 1)


def align_lines(table: Sequence[Sequence[str]]) -> list[str]:
    """Format the lines of a table, its columns two spaces apart."""
    return [GAP.join(row).rstrip() for row in pad_cells(table)]


def rule_lines(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Format the lines of a table with rules, for one with empty cells."""
    top, *rest = (" | ".join(row).rstrip() for row in pad_cells([head, *rows]))
    return [top, "-+-".join("-" * width for width in column_widths([head, *rows])), *rest]


def pad_cells(table: Sequence[Sequence[str]]) -> list[list[str]]:
    """Pad the cells of each column to its width."""
    wide = column_widths(table)
    return [list(map(str.ljust, row, wide)) for row in table]


def justify(left: str, right: str, width: int) -> str:
    """Put `right` at the right edge; where both do not fit, leave it out, and cut `left`."""
    room = width - len(right) - 2
    return f"{left:<{room}}  {right}" if len(left) <= room else left[: max(width, 0)]


def column_widths(table: Sequence[Sequence[str]]) -> list[int]:
    """Measure the columns of a table."""
    return [max(map(len, column)) for column in zip(*table, strict=True)]


def terminal_width() -> float:
    """Measure how wide a line may be; infinite where stdout is no terminal."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else math.inf


def total_width(table: Sequence[Sequence[str]]) -> int:
    """Measure the lines of a table."""
    wide = column_widths(table)
    return sum(wide) + len(GAP) * (len(wide) - 1)
