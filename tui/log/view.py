"""The view of the newest lines of a run's log.

Lines are shown as they are, never as markup. What a terminal would obey is taken out.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import ClassVar

from textual.geometry import Size
from textual.reactive import reactive
from textual.selection import Selection
from textual.strip import Strip

from remote.run.output.run_log import RunLog
from remote.run.state.types import LogLine
from tui.log.following import FollowingView
from tui.log.margin import LogMargin, repeat_mark
from tui.log.row_layout import RowLayout
from tui.log.row_painter import RowPainter
from tui.log.row_text import selected_text
from tui.log.rows import LogFilter, LogRows, RecentLines

MIN_COLUMNS_FOR_TIMES = 60
STYLES = {
    "log--note": "color: $text-muted; text-style: italic;",
    "log--cause": "color: $text-error; text-style: bold;",
    "log--error": "color: $text-warning;",
    "log--margin": "color: $text-muted;",
    "log--found": "text-style: reverse;",
    "log--current": "background: $primary 30%; text-style: bold;",
}
CSS = "LogView { scrollbar-size-horizontal: 0; scrollbar-size-vertical: 1; }" + "".join(
    f"LogView > .{name} {{ {style} }}" for name, style in STYLES.items()
)


class LogView(FollowingView):
    """The lines of a log in order of arrival, as far as the filter lets them through.

    A row is the line of the log, or of several ranks, that is drawn as one. A row lies on one
    screen line, or on several if long rows are wrapped.
    """

    DEFAULT_CSS = CSS
    COMPONENT_CLASSES: ClassVar[set[str]] = set(STYLES)

    filter = reactive(LogFilter(), repaint=False, init=False)
    """Which lines are shown."""
    search: reactive[re.Pattern[str] | None] = reactive(None, repaint=False, init=False)
    """What is marked in the lines."""
    wrap = reactive(False, repaint=False, init=False)
    """Whether long lines are wrapped."""
    times = reactive(True, repaint=False, init=False)
    """Whether each line has its time."""
    current = reactive(-1, repaint=False, init=False)
    """The number of the line that the user went to, or -1."""

    def __init__(self) -> None:
        super().__init__()
        self.rows = LogRows(LogFilter())
        self.ranks = 1
        """The world size of the run."""
        self._log: RunLog | None = None
        self._lines_taken = 0
        self._recent = RecentLines()
        self._layout = RowLayout(self.rows.text)
        self._painter: RowPainter | None = None

    # Lines

    @property
    def news(self) -> list[LogLine]:
        """All lines in memory that are not routine."""
        return self._recent.news

    def show(self, log: RunLog, ranks: int) -> None:
        """Add what is new in the log of a run with `ranks` ranks."""
        # A replay that jumps back has fewer lines than before, so the view starts anew.
        if log is not self._log or log.count < self._lines_taken:
            self._log = log
            self._lines_taken = 0
            self._recent = RecentLines()
            self.unseen = 0
            self.ranks = ranks
            self._rebuild_rows()
        if log.count > self._lines_taken:
            new_lines = log.since(self._lines_taken)
            self._lines_taken = log.count
            self._recent.add(new_lines)
            self._add_lines(new_lines)

    def _add_lines(self, new_lines: Sequence[LogLine]) -> None:
        row_count = len(self.rows.lines)
        joined_rows = self.rows.add(new_lines)
        new_rows = self.rows.lines[row_count:]
        if joined_rows:
            self._redraw_rows(joined_rows)
        self._layout.add(new_rows)
        if not self.follow:
            self.unseen += len(new_rows)
        self._trim()
        if new_rows:
            self._show_new_rows(len(new_rows))

    def _redraw_rows(self, changed: Sequence[LogLine]) -> None:
        for line in changed:
            self.painter.forget(line)
        # A changed text may take more lines, which moves all rows beneath it.
        first = self.rows.row_of(min(line.number for line in changed))
        self._layout.lay_out_from(first, self.rows.lines)
        self.refresh()

    def _trim(self) -> None:
        """Drop the oldest rows. While the follow mode is paused, lines in view keep their place."""
        dropped_rows = self.rows.trim()
        if not dropped_rows:
            return
        dropped_lines = self._layout.trim(dropped_rows)
        self.virtual_size = self._extent
        if not self.follow:
            self.scroll_to(y=self.scroll_offset.y - dropped_lines, animate=False)

    def _show_new_rows(self, count: int) -> None:
        first_new = len(self.rows.lines) - count
        view_end = self.scroll_offset.y + self.size.height
        is_in_view = self._layout.top(first_new) < view_end
        self.set_virtual_size(self._extent)
        if self.follow:
            self.scroll_to_newest()
        if self.follow or is_in_view:
            self.refresh()

    def _rebuild_rows(self) -> None:
        """Apply the filter again to all lines in memory."""
        self.rows = LogRows(self.filter, self.search)
        self.rows.add(self._recent.in_order())
        self.rows.trim()
        self._lay_out_rows()

    def _lay_out_rows(self) -> None:
        self._painter = None
        text_width = self._inner_width - self.margin.width - self._tail_width
        # A view without a size yet is laid out once more when it gets one.
        is_wrapped = self.wrap and self.size.width > 0
        self._layout = RowLayout(self.rows.text, max(1, text_width) if is_wrapped else 0)
        self._layout.add(self.rows.lines)
        self.virtual_size = self._extent
        self.refresh()

    # Places

    @property
    def margin(self) -> LogMargin:
        """What stands before the texts, as far as there is room for it."""
        return LogMargin(self.ranks, self.times and self.size.width >= MIN_COLUMNS_FOR_TIMES)

    @property
    def _inner_width(self) -> int:
        return self.size.width - self.scrollbar_size_vertical

    @property
    def _tail_width(self) -> int:
        return len(repeat_mark(self.ranks)) if self.filter.news else 0

    @property
    def _extent(self) -> Size:
        """The size of all rows."""
        width = self.size.width
        if not self._layout.is_wrapped:
            width = self.margin.width + self.rows.widest + self._tail_width
        return Size(width, self._layout.height)

    def row_at(self, y: int) -> tuple[int, int]:
        """Return the row on screen line `y` of the view, and which piece of it lies there."""
        return self._layout.locate(y + self.scroll_offset.y)

    def rows_in_view(self) -> tuple[int, int]:
        """Return the first and the last row in view."""
        return self.row_at(0)[0], self.row_at(self.size.height - 1)[0]

    def lines_in_view(self) -> list[LogLine]:
        """Return the first line of each row in view."""
        first, last = self.rows_in_view()
        return self.rows.lines[first : last + 1]

    def next_match(self, step: int) -> LogLine | None:
        """Return the next row that matches (step 1) or the previous one (step -1), or None.

        The search begins at the current row, or else at the rows in view.
        """
        first, last = self.rows_in_view()
        if self.current >= 0:
            row = self.rows.row_of(self.current)
        elif step < 0:
            row = last + 1
        else:
            row = first - 1
        return self.rows.next_match(row, step)

    def go_to(self, number: int, *, at_top: bool = False) -> None:
        """Make the row of a line the current one, and scroll to it.

        It is scrolled to the top with `at_top`, else to the middle unless it is in view already.
        """
        self.current = number
        y = self._layout.top(self.rows.row_of(number))
        is_in_view = 0 <= y - self.scroll_offset.y < self.size.height
        if at_top or not is_in_view:
            above = 0 if at_top else self.size.height // 2
            self.scroll_to(y=max(0, y - above), animate=False, force=True)
        self.follow = False

    def _top_line(self) -> LogLine | None:
        in_view = self.lines_in_view()
        return in_view[0] if in_view else None

    def _scroll_back_to(self, line: LogLine | None) -> None:
        """Bring a line back to the top after a change of rows, unless the newest is followed."""
        if self.follow or line is None:
            self.follow = True
            self.scroll_to_newest()
        else:
            y = self._layout.top(self.rows.row_of(line.number))
            self.scroll_to(y=y, animate=False, force=True)

    # Settings

    def watch_filter(self) -> None:
        top = self._top_line()
        self._rebuild_rows()
        self._scroll_back_to(top)
        self.post_message(self.FollowChanged())

    def on_resize(self) -> None:
        self._painter = None  # there may be no room for times
        if self.wrap:  # else the handler of FollowingView is enough
            self._keep_top_and_lay_out()

    def _keep_top_and_lay_out(self) -> None:
        top = self._top_line()
        self._lay_out_rows()
        self._scroll_back_to(top)

    watch_times = watch_wrap = _keep_top_and_lay_out

    def watch_search(self) -> None:
        self.rows.set_search(self.search)
        self._redraw()

    def selection_updated(self, selection: Selection | None) -> None:
        self._redraw()

    def _redraw(self) -> None:
        self._painter = None
        self.refresh()
        self.post_message(self.FollowChanged())

    watch_current = _redraw

    def get_selection(self, selection: Selection) -> tuple[str, str] | None:
        """Return the text that is selected with the mouse, without the margins."""
        return selected_text(self.rows, selection), "\n"

    # Drawing

    @property
    def painter(self) -> RowPainter:
        """The painter for the current settings."""
        if self._painter is None:
            self._painter = RowPainter(
                self, self.rows, self._layout, self.margin, self.current, self.search
            )
        return self._painter

    def notify_style_update(self) -> None:
        super().notify_style_update()
        self._painter = None

    def render_line(self, y: int) -> Strip:
        """Draw screen line `y` of the view."""
        row, piece = self.row_at(y)
        width = self._inner_width
        if row >= len(self.rows.lines):
            return Strip.blank(width, self.rich_style)
        strip = self.painter.draw(self.rows.lines[row], piece, width)
        return strip.crop_extend(0, width, self.rich_style)
