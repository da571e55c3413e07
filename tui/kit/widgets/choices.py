"""A table of which one row is chosen with the arrow keys or the mouse."""

from __future__ import annotations

from collections.abc import Sequence

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.message import Message
from textual.reactive import reactive
from textual.strip import Strip

from tui.kit.actions import KeyPlace
from tui.kit.bindings import bindings
from tui.kit.widgets.table import CellTable, TableColumn, TableRow


class ChoiceTable(CellTable):
    """A table with a cursor. Its columns may change with the room there is."""

    DEFAULT_CSS = """
    ChoiceTable > .choices--cursor { background: $block-cursor-background 30%; text-style: bold; }
    """
    COMPONENT_CLASSES = CellTable.COMPONENT_CLASSES | {"choices--cursor"}
    place = KeyPlace.LIST
    BINDINGS = bindings(place)
    cursor = reactive(0)
    is_cursor_placed = False
    """Whether the user has put the cursor where it is."""

    class Chosen(Message):
        """Posted when the row under the cursor was clicked."""

    def show(self, columns: Sequence[TableColumn], rows: Sequence[TableRow]) -> None:
        """Show these rows, each with one cell per column."""
        self.fill(rows, columns)
        self.cursor = self.validate_cursor(self.cursor)

    def validate_cursor(self, number: int) -> int:
        """Keep the cursor on a row."""
        return max(0, min(number, len(self._rows) - 1))

    def watch_cursor(self) -> None:
        self.show_cursor()

    def show_cursor(self) -> None:
        """Scroll to the cursor as far as needed. The head takes the first line."""
        visible_rows = max(1, self.size.height - 1)
        top_row = self.scroll_offset.y
        if self.cursor < top_row:
            self.scroll_to(y=self.cursor, animate=False, force=True)
        elif self.cursor >= top_row + visible_rows:
            self.scroll_to(y=self.cursor - visible_rows + 1, animate=False, force=True)
        self.refresh()

    def render_line(self, y: int) -> Strip:
        """Draw line `y`, and highlight it if the cursor is there."""
        strip = super().render_line(y)
        is_at_cursor = y > 0 and y + self.scroll_offset.y == self.cursor + 1
        if not is_at_cursor or not self._rows:
            return strip
        cursor_background = self.get_component_rich_style("choices--cursor").bgcolor
        # Not all of 16 colours can be read on the cursor's background.
        has_few_colours = self.app.console.color_system == "standard"
        text_colour = self.rich_style.color if has_few_colours else None
        cursor_style = Style(color=text_colour, bgcolor=cursor_background, bold=True)
        return Strip(Segment.apply_style(strip, post_style=cursor_style), strip.cell_length)

    def place_cursor(self, row: int) -> None:
        """Put the cursor on a row, because the user asks for it."""
        self.is_cursor_placed = True
        self.cursor = row

    def action_move(self, step: int) -> None:
        self.place_cursor(self.cursor + step)

    def action_page(self, step: int) -> None:
        self.place_cursor(self.cursor + step * max(1, self.size.height - 2))

    def action_move_to(self, row: int) -> None:
        self.place_cursor(row if row >= 0 else len(self._rows) - 1)

    def on_click(self, event: events.Click) -> None:
        content_offset = event.get_content_offset(self)  # without a border
        # The head is no row.
        if content_offset is None or content_offset.y == 0:
            return
        clicked_row = content_offset.y + self.scroll_offset.y - 1
        if clicked_row < len(self._rows):
            self.place_cursor(clicked_row)
            self.post_message(self.Chosen())
