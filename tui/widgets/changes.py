"""Writes to the terminal only the cells that have changed.

Textual writes every row of a widget whole once a part of it changes. Most ticks of a dashboard
change a few digits of a row: over a slow connection the difference matters.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby, repeat

from rich.cells import get_character_cell_size
from rich.console import Console, ConsoleOptions, RenderResult
from rich.control import Control
from rich.segment import Segment
from rich.style import Style
from textual._compositor import ChopsUpdate, CompositorUpdate
from textual.strip import Strip

Cell = tuple[str, Style | None]

GAP = 12
"""Cells that did not change are written again where at most so many stand between two that did: to
go elsewhere, and to set the style there, takes as many bytes."""
STYLES = 10_000
"""Styles that are remembered."""


class Written:
    """What the terminal shows, as far as it is known."""

    def __init__(self) -> None:
        self._rows: dict[int, list[Cell | None]] = {}
        self._styles: dict[Style | None, Style | None] = {}

    def forget(self) -> None:
        """The screen is drawn anew."""
        self._rows.clear()

    def changes(self, y: int, x: int, strip: Strip) -> Iterator[tuple[int, Strip]]:
        """The parts of a strip at this place that the terminal does not show yet, each with its x.
        From now on it does."""
        row = self._rows.setdefault(y, [])
        end = x + strip.cell_length
        row.extend(repeat(None, end - len(row)))
        if not _is_narrow(strip.text):
            row[x:end] = repeat(None, end - x)
            yield x, strip
            return
        cells = self._cells(strip)
        before, row[x:end] = row[x:end], cells
        if before != cells:
            for start, stop in _runs(before, cells):
                yield x + start, _strip(cells[start:stop])

    def _cells(self, strip: Strip) -> list[Cell]:
        if len(self._styles) > STYLES:
            self._styles.clear()
        cells: list[Cell] = []
        for text, style, _ in strip:
            # One object for equal styles, which are then compared quickly.
            cells.extend(zip(text, repeat(self._styles.setdefault(style, style)), strict=False))
        return cells


class Changes(CompositorUpdate):
    """An update of which only what changes is written."""

    def __init__(self, update: ChopsUpdate, written: Written) -> None:
        self._update, self._written = update, written

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield self._update

    def render_segments(self, console: Console) -> str:
        """The sequences for the terminal."""
        return "".join(
            f"{Control.move_to(at, y).segment.text}{part.render(console)}"
            for y, x, strip in _pieces(self._update)
            for at, part in self._written.changes(y, x, strip)
        )


def _pieces(update: ChopsUpdate) -> Iterator[tuple[int, int, Strip]]:
    """The strips of an update, each with its y and x."""
    for y, left, right in update.spans:
        for end, (x, strip) in zip(update.chop_ends[y], update.chops[y].items(), strict=False):
            if strip is not None and x <= right and end > left:
                yield y, x, strip if end <= right else strip.crop(0, right - x)


def _is_narrow(text: str) -> bool:
    """Whether each character takes one cell, and joins with no other."""
    return text.isascii() or all(get_character_cell_size(sign) == 1 for sign in set(text))


def _runs(before: Sequence[Cell | None], after: Sequence[Cell]) -> Iterator[tuple[int, int]]:
    """From where to where cells differ, with small gaps in between."""
    start = last = -1
    for place, (one, other) in enumerate(zip(before, after, strict=True)):
        if one == other:
            continue
        if start >= 0 and place - last > GAP:
            yield start, last + 1
            start = place
        start, last = (start if start >= 0 else place), place
    if start >= 0:
        yield start, last + 1


def _strip(cells: Sequence[Cell]) -> Strip:
    """The strip of these cells."""
    return Strip(
        [
            Segment("".join(text for text, _ in same), style)
            for style, same in groupby(cells, key=lambda cell: cell[1])
        ],
        len(cells),
    )
