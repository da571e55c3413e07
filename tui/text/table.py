"""Tables as plain text, for terminals and pipes."""

from __future__ import annotations

import math
import shutil
import sys
from collections.abc import Mapping, Sequence

import typer

from remote.sanitise import one_line

Row = tuple[str, ...]
GAP = "  "


def print_table(
    head: Sequence[str], rows: Sequence[Row], dispensable: Mapping[str, int] | None = None
) -> None:
    """Print a table that is as narrow as the terminal.

    `dispensable` are the columns to leave out where the terminal is too narrow, each with its turn.
    """
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else math.inf
    table = [tuple(head), *(tuple(map(one_line, row)) for row in rows)]
    for name in sorted(dispensable or {}, key=lambda name: (dispensable or {})[name]):
        if name in table[0] and _total(table) > width:
            column = table[0].index(name)
            table = [(*row[:column], *row[column + 1 :]) for row in table]
    for line in aligned(table):
        typer.echo(line if len(line) <= width or len(head) < 3 else f"{line[: int(width) - 1]}…")


def aligned(table: Sequence[Sequence[str]]) -> list[str]:
    """Format the lines of a table, its columns two spaces apart."""
    return [GAP.join(row).rstrip() for row in padded(table)]


def ruled(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Format the lines of a table with rules, for one with empty cells."""
    top, *rest = (" | ".join(row).rstrip() for row in padded([head, *rows]))
    return [top, "-+-".join("-" * width for width in widths([head, *rows])), *rest]


def padded(table: Sequence[Sequence[str]]) -> list[list[str]]:
    """Pad the cells of each column to its width."""
    wide = widths(table)
    return [[cell.ljust(width) for cell, width in zip(row, wide, strict=True)] for row in table]


def widths(table: Sequence[Sequence[str]]) -> list[int]:
    """Measure the columns of a table."""
    return [max(map(len, column)) for column in zip(*table, strict=True)]


def _total(table: Sequence[Sequence[str]]) -> int:
    wide = widths(table)
    return sum(wide) + len(GAP) * (len(wide) - 1)
