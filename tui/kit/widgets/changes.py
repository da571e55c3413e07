"""Writes to the terminal only the cells that have changed.

Textual writes every row of a widget whole once a part of it changes. Most ticks of a dashboard
change a few digits of a row: over a slow connection the difference matters.
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

GAP = 12
"""Cells that did not change are written again where at most so many stand between two that did: to
go elsewhere, and to set the style there, takes as many bytes."""
STYLES = 10_000
"""Styles that are remembered."""


class Written:
    """What the terminal shows, as far as it is known: the character and the style of each cell."""

    def __init__(self) -> None:
        self._rows: dict[int, tuple[list[str | None], list[Style | None]]] = {}
        self._styles: dict[Style | None, Style | None] = {}

    def forget(self) -> None:
        """The screen is drawn anew."""
        self._rows.clear()

    def changes(self, y: int, x: int, strip: Strip) -> Iterator[tuple[int, Sequence[Segment]]]:
        """The parts of a strip at this place that the terminal does not show yet, each with its x.
        From now on it does."""
        shown, worn = self._rows.setdefault(y, ([], []))
        end = x + strip.cell_length
        if end > len(shown):
            unknown = [None] * (end - len(shown))
            shown += unknown
            worn += unknown
        text = strip.text
        if not _is_narrow(text):
            shown[x:end] = [None] * (end - x)
            yield x, list(strip)
            return
        styles = self._styles_of(strip)
        cells = zip(shown[x:end], text, worn[x:end], styles, strict=False)
        changed = [
            place
            for place, (before, sign, old, style) in enumerate(cells)
            if before != sign or old is not style
        ]
        shown[x:end] = text
        worn[x:end] = styles
        for start, stop in _runs(changed):
            yield x + start, list(_segments(text, styles, start, stop))

    def _styles_of(self, strip: Strip) -> list[Style | None]:
        """The style of each cell: one object for equal ones, which are then compared quickly."""
        if len(self._styles) > STYLES:
            self._styles.clear()
        styles: list[Style | None] = []
        for text, style, _ in strip:
            styles += [self._styles.setdefault(style, style)] * len(text)
        return styles


class Changes(CompositorUpdate):
    """An update of which only what changes is written."""

    def __init__(self, update: ChopsUpdate, written: Written) -> None:
        self._update = update
        self._written = written

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield self._update

    def render_segments(self, console: Console) -> str:
        """The sequences for the terminal."""
        system = console._color_system or ColorSystem.TRUECOLOR
        return "".join(
            f"\x1b[{y + 1};{at + 1}H{_sequences(part, system)}"
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


def _runs(changed: Iterable[int]) -> Iterator[tuple[int, int]]:
    """From where to where cells have changed, with small gaps in between."""
    start = last = -1
    for place in changed:
        if start >= 0 and place - last > GAP:
            yield start, last + 1
            start = place
        start = start if start >= 0 else place
        last = place
    if start >= 0:
        yield start, last + 1


def _segments(
    text: str, styles: Sequence[Style | None], start: int, stop: int
) -> Iterator[Segment]:
    """The cells from `start` to `stop`, those of one style together."""
    while start < stop:
        style = styles[start]
        end = start + 1
        while end < stop and styles[end] is style:
            end += 1
        yield Segment(text[start:end], style)
        start = end


def _sequences(segments: Iterable[Segment], system: ColorSystem) -> str:
    """What writes these segments."""
    return "".join(
        Strip.render_style(style, text, system) if style else text for text, style, _ in segments
    )
