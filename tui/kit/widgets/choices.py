"""A table of which one row is chosen with the arrow keys or the mouse."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.binding import BindingType
from textual.message import Message
from textual.reactive import reactive
from textual.strip import Strip

from tui.kit.actions import Place
from tui.kit.bindings import bindings
from tui.kit.widgets.table import Column, Row, Table


class Choices(Table):
    """A table with a cursor. Its columns may change with the room there is.

    `is_cursor_placed`: a person has put the cursor where it is."""

    DEFAULT_CSS = """
    Choices > .choices--cursor { background: $block-cursor-background 30%; text-style: bold; }
    """
    COMPONENT_CLASSES = Table.COMPONENT_CLASSES | {"choices--cursor"}
    place = Place.LIST
    BINDINGS: ClassVar[list[BindingType]] = bindings(place)
    cursor: reactive[int] = reactive(0)
    is_cursor_placed = False

    class Chosen(Message):
        """The row under the cursor was clicked."""

    def show(self, columns: Sequence[Column], rows: Sequence[Row]) -> None:
        """Show these rows, each with one cell per column."""
        self.fill(rows, columns)
        self.cursor = self.validate_cursor(self.cursor)

    def validate_cursor(self, number: int) -> int:
        """Keep the cursor on a row."""
        return max(0, min(number, len(self._rows) - 1))

    def watch_cursor(self) -> None:
        self.show_cursor()

    def show_cursor(self) -> None:
        """Scroll to it as far as needed; the head takes the first line."""
        room = max(1, self.size.height - 1)
        top = self.scroll_offset.y
        if self.cursor < top or self.cursor >= top + room:
            line = self.cursor if self.cursor < top else self.cursor - room + 1
            self.scroll_to(y=line, animate=False, force=True)
        self.refresh()

    def render_line(self, y: int) -> Strip:
        """A line as of `Table`; that of the cursor is highlighted."""
        strip = super().render_line(y)
        if y and y + self.scroll_offset.y == self.cursor + 1 and self._rows:
            ground = self.get_component_rich_style("choices--cursor")
            ink = self.rich_style.color if self._has_few_colours else None
            bar = Style(color=ink, bgcolor=ground.bgcolor, bold=True)
            return Strip(Segment.apply_style(strip, post_style=bar), strip.cell_length)
        return strip

    @property
    def _has_few_colours(self) -> bool:
        """Whether the terminal has 16 colours, of which not all can be read on the cursor's."""
        return self.app.console.color_system == "standard"

    def place_cursor(self, row: int) -> None:
        """Put the cursor on a row, as a person asks for."""
        self.is_cursor_placed = True
        self.cursor = row

    def action_move(self, step: int) -> None:
        self.place_cursor(self.cursor + step)

    def action_page(self, step: int) -> None:
        self.place_cursor(self.cursor + step * max(1, self.size.height - 2))

    def action_move_to(self, row: int) -> None:
        self.place_cursor(row if row >= 0 else len(self._rows) - 1)

    def on_click(self, event: events.Click) -> None:
        at = event.get_content_offset(self)  # without a border
        number = at.y + self.scroll_offset.y - 1 if at else -1
        if at and at.y and number < len(self._rows):
            self.place_cursor(number)
            self.post_message(self.Chosen())
