"""The log: the newest lines of a run on the line API, by rank, with a follow mode that pauses while
one reads.

Lines are shown as they are, never as markup; what a terminal would obey is taken out.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Sequence
from itertools import islice

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.geometry import Size
from textual.message import Message
from textual.reactive import reactive
from textual.scroll_view import ScrollView
from textual.strip import Strip

from remote.run.state import LogLine
from tui import palette
from tui.widgets.lines import Lines

KEPT = 20_000
"""Lines that the view holds; beyond, the oldest tenth goes at once."""
LONGEST = 4_000
"""Characters of a line that are shown."""
_UNFIT = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufeff]"
)


class LogView(ScrollView, Lines, can_focus=True):
    """Lines in order of arrival, of all ranks or of one."""

    DEFAULT_CSS = """
    LogView { scrollbar-size-horizontal: 0; scrollbar-size-vertical: 1; }
    LogView > .log--note { color: $text-muted; text-style: italic; }
    LogView > .log--error { color: $text-warning; }
    """
    COMPONENT_CLASSES = {"log--note", "log--error"}  # noqa: RUF012

    class Changed(Message):
        """The rank or the follow mode is another now."""

    rank: reactive[int | None] = reactive(None, repaint=False)
    """The only rank whose lines are shown; -1 for hosts and the session; None for all."""
    follow: reactive[bool] = reactive(True, repaint=False)
    """Whether the view stays at the newest line."""

    def __init__(self) -> None:
        super().__init__()
        self._kept: list[LogLine] = []
        self._lines: list[LogLine] = []
        self._count = 0
        self.unseen = 0
        """Lines that have come beneath the view since the follow mode was paused."""

    def show(self, log: deque[LogLine], count: int) -> None:
        """Take over what is new: the run has had `count` lines so far, of which `log` holds the
        last."""
        if count < self._count:  # a replay has gone back
            self._kept, self._lines, self._count = [], [], 0
        new = list(islice(reversed(log), min(count - self._count, len(log))))[::-1]
        self._count = count
        if not new:
            return
        self._kept += new
        fresh = new if self.rank is None else [line for line in new if self._shows(line)]
        self._lines += fresh
        if not self.follow:
            self.unseen += len(fresh)
        self._trim()
        if fresh:
            self._grown(fresh)

    def _shows(self, line: LogLine) -> bool:
        return self.rank is None or line.rank == self.rank

    def _trim(self) -> None:
        """Keep to the limit; where one reads, the lines in view stay where they are."""
        excess = len(self._kept) - KEPT
        if excess <= 0:
            return
        excess += KEPT // 10
        gone = sum(map(self._shows, self._kept[:excess]))
        del self._kept[:excess]
        del self._lines[:gone]
        self.virtual_size = Size(self.virtual_size.width, len(self._lines))
        if not self.follow:
            self.scroll_to(y=self.scroll_offset.y - gone, animate=False)

    def _grown(self, fresh: Sequence[LogLine]) -> None:
        top = self.scroll_offset.y
        widest = _widest(fresh)
        self._stretch(Size(max(self.virtual_size.width, widest), len(self._lines)))
        if self.follow:
            self._to_end()
            self.refresh()
        elif len(self._lines) - len(fresh) < top + self.size.height:
            self.refresh()

    def _stretch(self, size: Size) -> None:
        """Take a new size. Textual lays the whole screen out anew, which is needed only until there
        is a scrollbar."""
        if self.show_vertical_scrollbar:
            self.set_reactive(LogView.virtual_size, size)
            self.vertical_scrollbar.window_virtual_size = size.height
        else:
            self.virtual_size = size

    def _to_end(self) -> None:
        self.scroll_to(y=self.max_scroll_y, animate=False, force=True)

    def watch_rank(self) -> None:
        self._lines = [line for line in self._kept if self._shows(line)]
        self.virtual_size = Size(self.virtual_size.width, len(self._lines))
        self.follow = True
        self._to_end()
        self.refresh()
        self.post_message(self.Changed())

    def watch_follow(self) -> None:
        self.unseen = 0
        # Not where it is at the end already: it may be an animation that has just come there, and
        # it must not be stopped.
        if self.follow and self.scroll_offset.y < self.max_scroll_y:
            self._to_end()
        self.post_message(self.Changed())

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        super().watch_scroll_y(old_value, new_value)
        if round(old_value) != round(new_value):
            self.follow = round(new_value) >= self.max_scroll_y

    def on_resize(self, event: events.Resize) -> None:
        if self.follow:
            self._to_end()

    def render_line(self, y: int) -> Strip:
        """Line `y` of what is in view."""
        left, top = self.scroll_offset
        width = self.size.width - self.scrollbar_size_vertical
        if y + top >= len(self._lines):
            return Strip.blank(width, self.rich_style)
        line = self._lines[y + top]
        strip = self._strips.get(line.number)
        if strip is None:
            if len(self._strips) > 1_000:
                self._strips.clear()
            strip = self._strips[line.number] = Strip(self._segments(line))
        if strip.cell_length <= left + width:
            return strip.crop_extend(left, left + width, self.rich_style)
        return Strip.join(
            [
                strip.crop(left, left + width - 1),
                Strip([Segment("…", self.get_component_rich_style("log--note"))]),
            ]
        )

    def _segments(self, line: LogLine) -> list[Segment]:
        text = plain(line.text)
        if line.rank < 0:
            where = f"{line.host}: " if line.host else ""
            style = self.get_component_rich_style("log--note")
            return [Segment(f"    {palette.sign('row')} {plain(where)}{text}", style)]
        rank = Style(color=palette.colour(line.rank, self.app.current_theme.dark))
        style = (
            self.get_component_rich_style("log--error")
            if line.stream == "stderr"
            else self.rich_style
        )
        return [
            Segment(f"{line.rank:>3} {palette.sign('row')} ", self.rich_style + rank),
            Segment(text, style),
        ]


def _widest(lines: Sequence[LogLine]) -> int:
    """The cells that the widest takes at the most; half-width characters only are told by their
    number, much faster."""
    texts = [line.text for line in lines]
    odd = [cell_len(text[:LONGEST]) for text in texts if not text.isascii()]
    hosts = {line.host for line in lines if line.rank < 0}
    return 8 + max(map(len, hosts), default=0) + max(min(max(map(len, texts)), LONGEST), *odd, 0)


def plain(text: str) -> str:
    """The text without what is no visible character, and not longer than can be shown."""
    cut = text[:LONGEST] + "…" if len(text) > LONGEST else text
    return _UNFIT.sub("", cut)
