"""The log: the newest lines of a run on the line API.

Lines are shown as they are, never as markup; what a terminal would obey is taken out.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from textual.geometry import Size
from textual.reactive import reactive
from textual.selection import Selection
from textual.strip import Strip

from remote.run.output.run_log import RunLog
from remote.run.state.types import LogLine
from tui.kit.widgets.following import Following
from tui.log.log_ink import Ink, selected
from tui.log.log_margin import Margin
from tui.log.log_rows import Filter, RecentLines, Rows
from tui.log.log_wrap import WrappedRows


class LogView(Following):
    """Lines in order of arrival, as many of them as its filter lets through."""

    DEFAULT_CSS = """
    LogView { scrollbar-size-horizontal: 0; scrollbar-size-vertical: 1; }
    LogView > .log--note { color: $text-muted; text-style: italic; }
    LogView > .log--error { color: $text-warning; }
    LogView > .log--margin { color: $text-muted; }
    LogView > .log--found { text-style: reverse; }
    LogView > .log--current { background: $primary 30%; text-style: bold; }
    """
    COMPONENT_CLASSES = {  # noqa: RUF012
        *("log--note", "log--error", "log--margin", "log--found", "log--current")
    }

    filter: reactive[Filter] = reactive(Filter(), repaint=False, init=False)
    """Which lines are shown."""
    search: reactive[re.Pattern[str] | None] = reactive(None, repaint=False, init=False)
    """What is marked in the lines."""
    wrap: reactive[bool] = reactive(False, repaint=False, init=False)
    """Whether long lines are wrapped."""
    times: reactive[bool] = reactive(True, repaint=False, init=False)
    """Whether each line has its time."""
    current: reactive[int] = reactive(-1, repaint=False, init=False)
    """The number of the line that the user went to; -1 for none."""

    def __init__(self) -> None:
        super().__init__()
        self.rows = Rows(Filter())
        self._log: RunLog | None = None
        self._recent = RecentLines()
        self._count = 0
        self.margin = Margin()
        self._wrapped: WrappedRows | None = None
        self._ink: Ink | None = None

    # Lines

    @property
    def news(self) -> list[LogLine]:
        """All lines that are kept, but for routine ones."""
        return self._recent.news

    def show(self, log: RunLog, ranks: int) -> None:
        """Take over what is new in the log of a run with so many ranks."""
        if log is not self._log or log.count < self._count:  # another run, or another time of it
            self._log, self._recent, self._count, self.unseen = log, RecentLines(), 0, 0
            self.margin = Margin(ranks, self.times)
            self._sort_again()
        if log.count > self._count:
            new = log.since(self._count)
            self._count = log.count
            self._recent.add(new)
            self._take(new)

    def _take(self, new: Sequence[LogLine]) -> None:
        before = len(self.rows.lines)
        changed = self.rows.add(new)
        fresh = self.rows.lines[before:]
        if changed:
            self._change(changed)
        if self._wrapped:
            self._wrapped.add(map(self.rows.text, fresh))
        self.unseen += 0 if self.follow else len(fresh)
        self._trim()
        if fresh:
            self._grow(len(fresh))

    def _change(self, lines: Sequence[LogLine]) -> None:
        """The rows of these lines stand for more now."""
        for line in lines:
            self.ink.forget(line)
        if self._wrapped:
            first = self.rows.at(min(line.number for line in lines))
            below = self.rows.lines[first : self._wrapped.rows]
            self._wrapped.keep(first)
            self._wrapped.add(map(self.rows.text, below))
        self.refresh()

    def _trim(self) -> None:
        """Keep to the limit; where one reads, the lines in view stay where they are."""
        gone = self.rows.trim()
        if gone:
            lines = self._wrapped.trim(gone) if self._wrapped else gone
            self.virtual_size = self._extent
            if not self.follow:
                self.scroll_to(y=self.scroll_offset.y - lines, animate=False)

    def _grow(self, rows: int) -> None:
        """So many rows have come beneath the others."""
        is_seen = self._top(len(self.rows.lines) - rows) < self.scroll_offset.y + self.size.height
        self.stretch(self._extent)
        if self.follow:
            self.to_end()
        if self.follow or is_seen:
            self.refresh()

    def _sort_again(self) -> None:
        """Find the rows of all lines that are kept anew."""
        self.rows = Rows(self.filter, self.search)
        self.rows.add(self._recent.all)
        self.rows.trim()
        self._place_rows()

    def _place_rows(self) -> None:
        """Lay the rows out anew."""
        self._ink = None
        self._wrapped = WrappedRows(self._room) if self.wrap and self.size.width else None
        if self._wrapped:
            self._wrapped.add(map(self.rows.text, self.rows.lines))
        self.virtual_size = self._extent
        self.refresh()

    # Places

    @property
    def _room(self) -> int:
        """Cells between the margins of a row."""
        width = self.size.width - self.scrollbar_size_vertical
        return width - self.margin.width(self.size.width) - self._tail

    @property
    def _tail(self) -> int:
        return self.margin.tail if self.filter.news else 0

    @property
    def _extent(self) -> Size:
        if self._wrapped:
            return Size(self.size.width, self._wrapped.height)
        width = self.margin.width(self.size.width) + self.rows.widest + self._tail
        return Size(width, len(self.rows.lines))

    def _top(self, row: int) -> int:
        """The first line of a row, from the top of all."""
        return self._wrapped.top(row) if self._wrapped else row

    def row_at(self, y: int) -> tuple[int, int]:
        """The row at line `y` of what is in view, and which piece of it."""
        y += self.scroll_offset.y
        return self._wrapped.at(y) if self._wrapped else (y, 0)

    def seen(self) -> list[LogLine]:
        """The rows in view."""
        first = self.row_at(0)[0]
        last = self.row_at(self.size.height - 1)[0]
        return self.rows.lines[first : last + 1]

    def next_match(self, step: int) -> LogLine | None:
        """The next row in which something is found: `step` 1 or -1 from the current one on, or from
        those in view on; None where there is none."""
        first = self.row_at(0)[0]
        last = self.row_at(self.size.height - 1)[0]
        row = last + 1 if step < 0 else first - 1
        if self.current >= 0:
            row = self.rows.at(self.current)
        return self.rows.next_match(row, step)

    def go_to(self, number: int, *, at_top: bool = False) -> None:
        """Make the row of this line the current one, and scroll to it if it is not in view, or to
        have it at the top."""
        self.current = number
        y = self._top(self.rows.at(number))
        if at_top or not 0 <= y - self.scroll_offset.y < self.size.height:
            above = 0 if at_top else self.size.height // 2
            self.scroll_to(y=max(0, y - above), animate=False, force=True)
        self.follow = False

    def _stay(self, top: LogLine | None) -> None:
        """Scroll back to where one reads: this row was at the top."""
        if self.follow or top is None:
            self.follow = True
            self.to_end()
        else:
            y = self._top(self.rows.at(top.number))
            self.scroll_to(y=y, animate=False, force=True)

    # What is set

    def watch_filter(self) -> None:
        top = next(iter(self.seen()), None)
        self._sort_again()
        self._stay(top)
        self.post_message(self.Changed())

    def watch_times(self) -> None:
        self.margin = Margin(self.margin.ranks, self.times)
        self._lay_out()

    def watch_wrap(self) -> None:
        self._lay_out()

    def _lay_out(self) -> None:
        top = next(iter(self.seen()), None)
        self._place_rows()
        self._stay(top)

    def on_resize(self) -> None:
        if self.wrap:  # else Following's own handler does it all
            self._lay_out()

    def watch_search(self) -> None:
        self.rows.look_for(self.search)
        self._redraw()

    def watch_current(self) -> None:
        self._redraw()

    def selection_updated(self, selection: Selection | None) -> None:
        self._redraw()

    def _redraw(self) -> None:
        self._ink = None
        self.refresh()
        self.post_message(self.Changed())

    def get_selection(self, selection: Selection) -> tuple[str, str] | None:
        """The text that is selected with the mouse, without the margins."""
        return selected(self.rows, selection), "\n"

    # Drawing

    @property
    def ink(self) -> Ink:
        """What draws the rows."""
        if self._ink is None:
            self._ink = Ink(self, self.margin, self.current, self.search)
        return self._ink

    def notify_style_update(self) -> None:
        super().notify_style_update()
        self._ink = None

    def render_line(self, y: int) -> Strip:
        """Line `y` of what is in view."""
        row, piece = self.row_at(y)
        width = self.size.width - self.scrollbar_size_vertical
        if row >= len(self.rows.lines):
            return Strip.blank(width, self.rich_style)
        line = self.rows.lines[row]
        ink = self.ink
        shared = None if piece else self.rows.shared(line)
        before = ink.before(line, shared, self.size.width, piece)
        after = ink.after(line, shared)
        room = max(0, width - before.cell_length - after.cell_length)
        text = self.rows.text(line)
        start = self.scroll_offset.x
        end = self.scroll_offset.x + room
        if self._wrapped:
            start, end = self._wrapped.span(text, piece)
        drawn = ink.piece(line, text, start, end, fades=self._wrapped is None)
        filled = drawn.extend_cell_length(room, ink.paper(line))
        return Strip.join([before, filled, after]).crop_extend(0, width, self.rich_style)
