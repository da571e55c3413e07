"""A scroll view that stays at its newest line until the user scrolls up."""

from __future__ import annotations

from textual.geometry import Size
from textual.message import Message
from textual.reactive import reactive
from textual.scroll_view import ScrollView

from tui.kit.widgets.lines import LineWidget


class FollowingView(ScrollView, LineWidget, can_focus=True):
    """Follow the newest line. Scrolling up pauses that, and scrolling to the end resumes it."""

    class FollowChanged(Message):
        """Posted when the follow mode or the set of shown lines has changed."""

    follow = reactive(True, repaint=False)
    """Whether the view stays at the newest line."""

    def __init__(self) -> None:
        super().__init__()
        self.unseen = 0
        """Lines that have arrived since the follow mode was paused."""
        self._lines_in_view = 0

    def scroll_to_newest(self) -> None:
        """Scroll to the newest line."""
        self.scroll_to(y=self.max_scroll_y, animate=False, force=True)

    def set_virtual_size(self, size: Size) -> None:
        """Take a new virtual size, without a new layout of the whole screen if possible."""
        if self.show_vertical_scrollbar:
            # Setting `virtual_size` lays the screen out anew, which only a first scrollbar needs.
            self.set_reactive(FollowingView.virtual_size, size)
            self.vertical_scrollbar.window_virtual_size = size.height
        else:
            self.virtual_size = size

    def on_resize(self) -> None:
        """Keep the newest line in view if it was in view, even while the follow mode is paused."""
        last_line_in_view = self.scroll_offset.y + self._lines_in_view
        was_newest_in_view = last_line_in_view >= self.virtual_size.height
        self._lines_in_view = self.size.height
        if self.follow or was_newest_in_view:
            follow = self.follow
            self.scroll_to_newest()
            self.follow = follow  # reaching the end would resume the follow mode

    def watch_follow(self) -> None:
        self.unseen = 0
        # At the end already, a scroll animation may just be arriving: do not stop it.
        if self.follow and self.scroll_offset.y < self.max_scroll_y:
            self.scroll_to_newest()
        self.post_message(self.FollowChanged())

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        super().watch_scroll_y(old_value, new_value)
        # An animated scroll moves in fractions of a line.
        if round(old_value) == round(new_value):
            return
        # Scrolling up can end at the end, too: when lines vanish or the view grows.
        may_follow = self.follow or new_value > old_value
        self.follow = may_follow and round(new_value) >= self.max_scroll_y
