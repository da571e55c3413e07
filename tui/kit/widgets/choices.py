"""A table of which one row is chosen with the arrow keys or the mouse."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache

from rich.color import Color as RichColor
from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.color import Color
from textual.message import Message
from textual.reactive import reactive
from textual.strip import Strip

from tui.kit.actions import KeyPlace
from tui.kit.bindings import bindings
from tui.kit.widgets.table import CellTable, TableColumn, TableRow

LEAST_CONTRAST = 5.0
"""The contrast of text on the cursor's background; WCAG asks for 4.5."""


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
        return Strip(self._highlight(strip), strip.cell_length)

    def _highlight(self, strip: Strip) -> Iterator[Segment]:
        """Yield a line on the background of the cursor, in inks that can be read on it."""
        ground = self.get_component_rich_style("choices--cursor").bgcolor
        plain = self.rich_style.color
        # Not all of 16 colours can be read on the cursor's background.
        has_few_colours = self.app.console.color_system == "standard"
        for text, style, control in strip:
            ink = style.color if style else None
            if has_few_colours:
                ink = plain
            elif ink and ground and plain:
                ink = _make_legible(ink, ground, plain)
            cursor_style = Style(color=ink, bgcolor=ground, bold=True)
            yield Segment(text, style + cursor_style if style else cursor_style, control)

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


@lru_cache(maxsize=256)
def _make_legible(ink: RichColor, ground: RichColor, plain: RichColor) -> RichColor:
    """Return the ink, blended with the plain one as far as it takes to be read on the ground."""
    if ink.triplet is None or ground.triplet is None or plain.triplet is None:
        return ink  # the terminal's own colours, which are not known
    behind = Color(*ground.triplet)
    for share in range(0, 101, 10):
        blended = Color(*ink.triplet).blend(Color(*plain.triplet), share / 100)
        if _measure_contrast(blended, behind) >= LEAST_CONTRAST:
            return blended.rich_color
    return plain


def _measure_contrast(one: Color, other: Color) -> float:
    """Return the contrast of two colours by WCAG: 1 if they are equal, 21 for black on white."""
    low, high = sorted(map(_measure_luminance, (one, other)))
    return (high + 0.05) / (low + 0.05)


def _measure_luminance(colour: Color) -> float:
    parts = [
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4
        for part in colour.normalized
    ]
    red, green, blue = parts
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
