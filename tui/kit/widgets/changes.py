"""Writes only those cells to the terminal that have changed.

Textual writes every row of a widget whole once a part of it changes, but most ticks of a dashboard
change a few digits of a row. So this writes a third of the bytes, which slow connections feel.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from rich.cells import get_character_cell_size
from rich.color import ColorSystem
from rich.console import Console, ConsoleOptions, RenderResult
from rich.segment import Segment
from rich.style import Style
from textual._compositor import ChopsUpdate, CompositorUpdate
from textual.strip import Strip

MAX_UNCHANGED_CELLS = 12
"""So many unchanged cells between changed ones are written again, as moving takes as many bytes."""
MAX_CACHED_STYLES = 10_000


class TerminalCells:
    """What the terminal shows, as far as it is known: the character and the style of each cell."""

    def __init__(self) -> None:
        self._rows: dict[int, tuple[list[str | None], list[Style | None]]] = {}
        self._styles: dict[Style | None, Style | None] = {}

    def forget(self) -> None:
        """Forget all cells, as the screen is drawn anew."""
        self._rows.clear()

    def update(self, y: int, x: int, strip: Strip) -> Iterator[tuple[int, Sequence[Segment]]]:
        """Yield the parts of a strip that the terminal does not show yet, each with its x."""
        characters, styles = self._rows.setdefault(y, ([], []))
        end_column = x + strip.cell_length
        if end_column > len(characters):
            unknown_cells = [None] * (end_column - len(characters))
            characters += unknown_cells
            styles += unknown_cells
        text = strip.text
        # Half of a wide character cannot be written, so the whole strip is.
        if not _has_one_cell_per_character(text):
            characters[x:end_column] = [None] * (end_column - x)
            yield x, list(strip)
            return
        new_styles = self._cell_styles(strip)
        old_characters = characters[x:end_column]
        old_styles = styles[x:end_column]
        # Half of all strips: their lines have changed elsewhere.
        if old_characters == list(text) and old_styles == new_styles:
            return
        changed_indices = []
        cell_pairs = zip(old_characters, text, old_styles, new_styles, strict=False)
        for index, (old_character, character, old_style, style) in enumerate(cell_pairs):
            if old_character != character or old_style is not style:
                changed_indices.append(index)
        characters[x:end_column] = text
        styles[x:end_column] = new_styles
        for start, stop in _merge_near(changed_indices):
            yield x + start, list(_to_segments(text, new_styles, start, stop))

    def _cell_styles(self, strip: Strip) -> list[Style | None]:
        """Return the style of each cell: one object for equal ones, which `is` then compares."""
        if len(self._styles) > MAX_CACHED_STYLES:
            # Styles come without end, as colours fade; equal ones only cost a cell that is drawn
            # again.
            self._styles.clear()
        cell_styles: list[Style | None] = []
        for text, style, _ in strip:
            cell_styles += [self._styles.setdefault(style, style)] * len(text)
        return cell_styles


class ChangedCells(CompositorUpdate):
    """An update of the screen of which only what changes is written."""

    def __init__(self, update: ChopsUpdate, terminal_cells: TerminalCells) -> None:
        self._update = update
        self._terminal_cells = terminal_cells

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield self._update

    def render_segments(self, console: Console) -> str:
        """Return the escape sequences and texts for the terminal."""
        colours = console._color_system or ColorSystem.TRUECOLOR
        output_parts = []
        for y, x, strip in _updated_strips(self._update):
            for start_column, segments in self._terminal_cells.update(y, x, strip):
                # Terminals count rows and columns from 1.
                output_parts.append(f"\x1b[{y + 1};{start_column + 1}H")
                for text, style, _ in segments:
                    output_parts.append(Strip.render_style(style, text, colours) if style else text)
        return "".join(output_parts)


def _updated_strips(update: ChopsUpdate) -> Iterator[tuple[int, int, Strip]]:
    """Yield the strips of an update, each with its y and x."""
    for y, left, right in update.spans:
        chops = update.chops[y].items()
        for chop_end, (x, strip) in zip(update.chop_ends[y], chops, strict=False):
            if strip is not None and x <= right and chop_end > left:
                yield y, x, strip if chop_end <= right else strip.crop(0, right - x)


def _has_one_cell_per_character(text: str) -> bool:
    if text.isascii():
        return True
    return all(get_character_cell_size(character) == 1 for character in set(text))


def _merge_near(changed: Iterable[int]) -> Iterator[tuple[int, int]]:
    """Yield the first and the end of each run of changed cells, over small gaps."""
    first_index = last_index = -1
    for index in changed:
        if first_index < 0:
            first_index = index
        elif index - last_index > MAX_UNCHANGED_CELLS:
            yield first_index, last_index + 1
            first_index = index
        last_index = index
    if first_index >= 0:
        yield first_index, last_index + 1


def _to_segments(
    text: str, styles: Sequence[Style | None], start: int, stop: int
) -> Iterator[Segment]:
    """Yield the cells from `start` to `stop`, each run of one style as a segment."""
    while start < stop:
        style = styles[start]
        segment_end = start + 1
        while segment_end < stop and styles[segment_end] is style:
            segment_end += 1
        yield Segment(text[start:segment_end], style)
        start = segment_end
