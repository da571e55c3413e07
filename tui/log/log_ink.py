"""How a row of a log is drawn: its margins, and its text with what is marked in it."""

from __future__ import annotations

import re

from rich.segment import Segment
from rich.style import Style
from rich.text import Text
from textual.selection import Selection
from textual.strip import Strip
from textual.widget import Widget

from remote.run.output.collapsed_lines import Shared
from remote.run.state.types import LogLine
from tui.kit import palette
from tui.log.log_margin import Margin, number
from tui.log.log_rows import Rows

STRIPS = 1_000
"""Rows whose drawing is kept."""
KINDS = {"note": "log--note", "stderr": "log--error"}
"""The style of a line, by its stream."""


class Ink:
    """Draws the rows of a view, and keeps what it has drawn: another style, current line, search or
    selection takes another ink."""

    def __init__(
        self, view: Widget, margin: Margin, current: int, search: re.Pattern[str] | None
    ) -> None:
        self._view = view
        self._margin = margin
        self._current = current
        self._search = search
        self._selection = view.text_selection
        self._dark = view.app.current_theme.dark
        self._texts: dict[int, Strip] = {}

    def style(self, name: str) -> Style:
        """A style by its name; "" is the view's own."""
        if not name:
            return self._view.rich_style
        of = self._view.screen if name.startswith("screen") else self._view
        return of.get_component_rich_style(name)

    def forget(self, line: LogLine) -> None:
        """The row of this line says something else now."""
        self._texts.pop(line.number, None)

    def paper(self, line: LogLine, name: str = "") -> Style:
        """The style of that name, as it is on the row of this line."""
        style = self.style(name)
        if line.number != self._current:
            return style
        mark = self.style("log--current")
        return style + Style(bgcolor=mark.bgcolor, bold=mark.bold)

    def before(self, line: LogLine, shared: Shared | None, columns: int, piece: int) -> Strip:
        """The margin before a piece of a row."""
        paper = self.paper(line)
        when, whose = self._margin.text(line, shared, columns)
        width = len(when) + len(whose)
        if piece:
            return Strip([Segment(" " * width, paper)]).apply_offsets(-width, line.number)
        rank = paper + Style(color=palette.colour(line.rank, self._dark))
        parts = [
            Segment(when, self.paper(line, "log--margin")),
            Segment(whose, paper if shared or line.rank < 0 else rank),
        ]
        return Strip(parts).apply_offsets(-width, line.number)

    def after(self, line: LogLine, shared: Shared | None) -> Strip:
        """How many lines the row stands for."""
        if shared is None:
            return Strip([])
        return Strip([Segment(number(len(shared.ranks)), self.paper(line, "log--margin"))])

    def text(self, line: LogLine, text: str) -> Strip:
        """The whole text of a row."""
        strip = self._texts.get(line.number)
        if strip is None:
            if len(self._texts) > STRIPS:
                self._texts.clear()
            strip = self._texts[line.number] = self._draw(line, text)
        return strip

    def _draw(self, line: LogLine, text: str) -> Strip:
        drawn = Text(text, end="")  # without a span, Rich would draw it in no style at all
        drawn.stylize(self.paper(line, KINDS.get(line.stream, "")))
        for found in self._search.finditer(text) if self._search else ():
            drawn.stylize(self.style("log--found"), *found.span())
        if self._selection and (chosen := span(self._selection, line, text)):
            ground = self.style("screen--selection").bgcolor  # its colour is transparent
            drawn.stylize(Style(bgcolor=ground), *chosen)
        return Strip(drawn.render(self._view.app.console))

    def piece(self, line: LogLine, text: str, start: int, end: int, *, fades: bool) -> Strip:
        """The cells from `start` to `end` of the text of a row, with an ellipsis where it `fades`:
        goes on beyond."""
        whole = self.text(line, text)
        skipped = len(whole.crop(0, start).text) if start else 0
        if not fades or whole.cell_length <= end:
            return whole.crop(start, end).apply_offsets(skipped, line.number)
        cut = whole.crop(start, max(start, end - 1)).apply_offsets(skipped, line.number)
        return Strip.join([cut, Strip([Segment("…", self.paper(line, "log--margin"))])])


def selected(rows: Rows, selection: Selection) -> str:
    """The text that is selected, without the margins."""
    first = rows.at(selection.start.y) if selection.start else 0
    last = rows.at(selection.end.y + 1) if selection.end else len(rows.lines)
    texts = []
    for line in rows.lines[first:last]:
        text = rows.text(line)
        start, end = span(selection, line, text) or (0, 0)
        texts.append(text[start:end])
    return "\n".join(texts)


def span(selection: Selection, line: LogLine, text: str) -> tuple[int, int] | None:
    """Which characters of the text of a row are selected, or None. The margin is before the
    first."""
    chosen = selection.get_span(line.number)
    if chosen is None:
        return None
    start, end = chosen
    return max(0, start), len(text) if end == -1 else max(0, end)
