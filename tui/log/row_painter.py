"""Drawing of a log row: its margins, and its text with what is marked in it."""

from __future__ import annotations

import re

from rich.segment import Segment
from rich.style import Style
from rich.text import Text
from textual.strip import Strip
from textual.widget import Widget

from remote.run.output.collapsed_lines import SharedLine
from remote.run.state.epoch_tally import COLUMN_GAP
from remote.run.state.types import LogLine
from tui.kit.themes import inks_of
from tui.log.margin import LogMargin, repeat_mark
from tui.log.row_layout import RowLayout
from tui.log.row_text import selected_span
from tui.log.rows import LogRows

MAX_CACHED_ROWS = 1_000
STREAM_STYLES = {"note": "log--note", "cause": "log--cause", "stderr": "log--error"}


class RowPainter:
    """Draws rows of a view and caches their texts.

    A painter is for one state of the view. Another theme, current line, search or selection takes
    a new painter.
    """

    def __init__(
        self,
        view: Widget,
        rows: LogRows,
        layout: RowLayout,
        margin: LogMargin,
        current: int,
        search: re.Pattern[str] | None,
    ) -> None:
        self._view = view
        self._rows = rows
        self._layout = layout
        self._margin = margin
        self._current = current
        self._search = search
        self._selection = view.text_selection
        self._inks = inks_of(view.app.current_theme)
        self._cached_texts: dict[int, Strip] = {}

    def forget(self, line: LogLine) -> None:
        """Drop the cached text of a row that has changed."""
        self._cached_texts.pop(line.number, None)

    def draw(self, line: LogLine, piece: int, width: int) -> Strip:
        """Draw a piece of a row: its margins, and between them its text."""
        is_first = piece == 0
        shared = self._rows.shared(line) if is_first else None
        before = self._draw_margin(line, shared, is_blank=not is_first)
        repeats = repeat_mark(len(shared.ranks)) if shared else ""
        room = max(0, width - before.cell_length - len(repeats))
        text = self._draw_piece(line, piece, room)
        after = Strip([Segment(repeats, self._row_style(line, "log--margin"))])
        padded = text.extend_cell_length(room, self._row_style(line))
        return Strip.join([before, padded, after])

    def _row_style(self, line: LogLine, name: str = "") -> Style:
        """Return the named style as it is on this row. The current row has its own background."""
        style = self._style(name)
        if line.number != self._current:
            return style
        current = self._style("log--current")
        return style + Style(bgcolor=current.bgcolor, bold=current.bold)

    def _draw_margin(self, line: LogLine, shared: SharedLine | None, *, is_blank: bool) -> Strip:
        """Draw the margin before a row, which is blank if the row is continued from above."""
        style = self._row_style(line)
        time, ranks = self._margin.texts(line, shared)
        width = self._margin.width
        if is_blank:
            time = " " * width
            ranks = ""
        elif shared is None and line.rank >= 0:
            style += Style(color=self._inks.by_number(line.rank))
        parts = [Segment(time, self._row_style(line, "log--margin")), Segment(ranks, style)]
        # Negative offsets tell a selection that the margin is no part of the text.
        return Strip(parts).apply_offsets(-width, line.number)

    def _draw_piece(self, line: LogLine, piece: int, room: int) -> Strip:
        """Draw the cells of a row's text for which there is room, or, wrapped, those of a piece.

        If rows are not wrapped, the last cell is an ellipsis if the text goes on.
        """
        text = self._rows.text(line)
        whole = self._whole_text(line, text)
        ellipsis = Strip([])
        if self._layout.is_wrapped:
            start, end = self._layout.span(text, piece)
        else:
            start = self._view.scroll_offset.x
            end = start + room
            if whole.cell_length > end:
                end = max(start, end - 1)
                if line.stream == "epoch":
                    # A column that has no room for all of it is left out.
                    end = max(text.rfind(COLUMN_GAP, 0, end + 1) + 1, start) or end
                ellipsis = Strip([Segment("…", self._row_style(line, "log--margin"))])
        # Offsets count characters, while cropping counts cells.
        skipped = len(whole.crop(0, start).text) if start else 0
        shown = whole.crop(start, end).apply_offsets(skipped, line.number)
        return Strip.join([shown, ellipsis])

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
        drawn.stylize(self._row_style(line, STREAM_STYLES.get(line.stream, "")))
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
