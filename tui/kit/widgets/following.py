"""A view that stays at the newest of what it shows, until one scrolls up."""

from __future__ import annotations

from textual.geometry import Size
from textual.message import Message
from textual.reactive import reactive
from textual.scroll_view import ScrollView

from tui.kit.widgets.lines import Lines


class Following(ScrollView, Lines, can_focus=True):
    """Scrolling up pauses the follow mode, coming to the end resumes it."""

    class Changed(Message):
        """The follow mode, or what is shown, is another now."""

    follow: reactive[bool] = reactive(True, repaint=False)
    """Whether the view stays at the newest line."""

    def __init__(self) -> None:
        super().__init__()
        self.unseen = 0
        """Lines that have come beneath the view since the follow mode was paused."""
        self._lines_in_view = 0

    def to_end(self) -> None:
        """Scroll to the newest line."""
        self.scroll_to(y=self.max_scroll_y, animate=False, force=True)

    def stretch(self, size: Size) -> None:
        """Take a new size. Textual lays the whole screen out anew, which is needed only until there
        is a scrollbar."""
        if self.show_vertical_scrollbar:
            self.set_reactive(Following.virtual_size, size)
            self.vertical_scrollbar.window_virtual_size = size.height
        else:
            self.virtual_size = size

    def on_resize(self) -> None:
        """Where the newest line was in view it stays in view, also while the follow mode is
        paused."""
        was_seen = self.scroll_offset.y + self._lines_in_view >= self.virtual_size.height
        self._lines_in_view = self.size.height
        if self.follow or was_seen:
            follow = self.follow
            self.to_end()
            self.follow = follow  # to come to the end would resume it

    def watch_follow(self) -> None:
        self.unseen = 0
        # Not where it is at the end already: it may be an animation that has just come there, and
        # it must not be stopped.
        if self.follow and self.scroll_offset.y < self.max_scroll_y:
            self.to_end()
        self.post_message(self.Changed())

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        super().watch_scroll_y(old_value, new_value)
        if round(old_value) != round(new_value):
            # Upwards it may come to the end as well: where there are fewer lines, or more room
            goes_on = self.follow or new_value > old_value
            self.follow = goes_on and round(new_value) >= self.max_scroll_y
