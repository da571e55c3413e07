"""Drawing of a log row: its margins, and its text with what is marked in it."""

from __future__ import annotations

import re

from rich.segment import Segment
from rich.style import Style
from rich.text import Text
from textual.strip import Strip
from textual.widget import Widget

from remote.run.output.collapsed_lines import SharedLine
from remote.run.state.types import LogLine
from tui.kit import palette
from tui.log.margin import LogMargin, repeat_mark
from tui.log.row_text import selected_span

MAX_CACHED_ROWS = 1_000
STREAM_STYLES = {"note": "log--note", "stderr": "log--error"}


class RowPainter:
    """Draws rows of a view and caches their texts.

    A painter is for one state of the view. Another theme, current line, search or selection takes
    a new painter.
    """

    def __init__(
        self, view: Widget, margin: LogMargin, current: int, search: re.Pattern[str] | None
    ) -> None:
        self._view = view
        self._margin = margin
        self._current = current
        self._search = search
        self._selection = view.text_selection
        self._is_dark = view.app.current_theme.dark
        self._cached_texts: dict[int, Strip] = {}

    def forget(self, line: LogLine) -> None:
        """Drop the cached text of a row that has changed."""
        self._cached_texts.pop(line.number, None)

    def row_style(self, line: LogLine, name: str = "") -> Style:
        """Return the named style as it is on this row. The current row has its own background."""
        style = self._style(name)
        if line.number != self._current:
            return style
        current = self._style("log--current")
        return style + Style(bgcolor=current.bgcolor, bold=current.bold)

    def margin_before(
        self, line: LogLine, shared: SharedLine | None, *, is_continued: bool
    ) -> Strip:
        """Draw the margin before a row, which is blank if the row is continued from above."""
        style = self.row_style(line)
        time, ranks = self._margin.texts(line, shared)
        width = self._margin.width
        if is_continued:
            time = " " * width
            ranks = ""
        elif shared is None and line.rank >= 0:
            style += Style(color=palette.rank_colour(line.rank, self._is_dark))
        parts = [Segment(time, self.row_style(line, "log--margin")), Segment(ranks, style)]
        # Negative offsets tell a selection that the margin is no part of the text.
        return Strip(parts).apply_offsets(-width, line.number)

    def margin_after(self, line: LogLine, shared: SharedLine | None) -> Strip:
        """Draw how many equal lines the row stands for."""
        if shared is None:
            return Strip([])
        mark = repeat_mark(len(shared.ranks))
        return Strip([Segment(mark, self.row_style(line, "log--margin"))])

    def text(self, line: LogLine, text: str, start: int, end: int, *, has_ellipsis: bool) -> Strip:
        """Draw the cells from `start` to `end` of a row's text.

        With `has_ellipsis`, the last cell is an ellipsis if the text goes on beyond `end`.
        """
        whole = self._whole_text(line, text)
        skipped = len(whole.crop(0, start).text) if start else 0
        if not has_ellipsis or whole.cell_length <= end:
            return whole.crop(start, end).apply_offsets(skipped, line.number)
        cut = whole.crop(start, max(start, end - 1)).apply_offsets(skipped, line.number)
        ellipsis = Strip([Segment("…", self.row_style(line, "log--margin"))])
        return Strip.join([cut, ellipsis])

    def _whole_text(self, line: LogLine, text: str) -> Strip:
        strip = self._cached_texts.get(line.number)
        if strip is None:
            if len(self._cached_texts) > MAX_CACHED_ROWS:
                self._cached_texts.clear()
            strip = self._draw_text(line, text)
            self._cached_texts[line.number] = strip
        return strip

    def _draw_text(self, line: LogLine, text: str) -> Strip:
        drawn = Text(text, end="")
        # Without a span, Rich would draw the text in no style at all.
        drawn.stylize(self.row_style(line, STREAM_STYLES.get(line.stream, "")))
        if self._search:
            match_style = self._style("log--found")
            for match in self._search.finditer(text):
                drawn.stylize(match_style, *match.span())
        if self._selection:
            span = selected_span(self._selection, line, text)
            if span:
                # The colour of the selection's text is transparent, so only its ground counts.
                background = self._style("screen--selection").bgcolor
                drawn.stylize(Style(bgcolor=background), *span)
        return Strip(drawn.render(self._view.app.console))

    def _style(self, name: str) -> Style:
        """Return a style by its component class, or the view's own style for ""."""
        if not name:
            return self._view.rich_style
        owner = self._view.screen if name.startswith("screen") else self._view
        return owner.get_component_rich_style(name)
