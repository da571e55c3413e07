"""A table with a fixed head, of which only the lines that changed are drawn again.

Textual's DataTable makes every visible cell anew after one has changed: 7.4 ms for 8 x 10 cells,
where this takes 2.0.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar, TypeVar

from msgspec import Struct
from msgspec.structs import replace
from rich.cells import cell_len, set_cell_size
from rich.segment import Segment
from rich.style import Style
from textual.geometry import Region, Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from tui.kit import palette
from tui.kit.widgets.lines import LineWidget


class TableColumn(Struct, frozen=True):
    """A column of a table. Widths are in cells of the terminal."""

    title: str
    width: int
    """The least width, with one blank behind the text: that of the title, or more."""
    right: bool = True
    """Whether texts stand at the right edge, as numbers do."""
    most: int = 0
    """The width up to which the column grows if there is room."""
    tail: bool = False
    """Whether a text that is too long shows its end."""


class TableCell(Struct, frozen=True):
    """A cell of a table."""

    text: str
    style: str = ""
    """A colour such as "#rrggbb", a name of `CELL_STYLES`, or "" for the usual style."""
    parts: tuple[tuple[str, str], ...] = ()
    """The text in parts, each with its style, if they differ."""


TableRow = tuple[TableCell, ...]
UNSEEN: TableRow = ()
"""Stands for a row out of view, for which no cells were made."""

CELL_STYLES = {
    "table--head": "bold $text-muted",
    "table--good": "$text-success",
    "table--warn": "$text-warning",
    "table--bad": "bold $text-error",
    "table--dim": "$text-muted",
    "table--strong": "bold $foreground",
    "table--data": "$ink-data",
    "table--compute": "$ink-compute",
    "table--sync": "$ink-sync",
}
"""The component classes of widgets with cells, and their styles in Textual's markup."""


def cell_style_css(widget: str) -> str:
    """Return the CSS of `CELL_STYLES` for a widget."""
    css_rules = []
    for class_name, style_text in CELL_STYLES.items():
        *attributes, colour = style_text.split()
        declarations = f"color: {colour};"
        if attributes:
            declarations += f" text-style: {' '.join(attributes)};"
        css_rules.append(f"{widget} > .{class_name} {{ {declarations} }}")
    return "\n".join(css_rules)


class CellTable(ScrollView, LineWidget, can_focus=True):
    """Rows of cells beneath the titles of their columns.

    The first column stays in view. Only whole columns are shown, and signs in the head say that
    there are more. One scrolls sideways by whole columns, so `scroll_x` counts those left out.
    """

    DEFAULT_CSS = f"""
    CellTable {{ scrollbar-size-horizontal: 0; scrollbar-size-vertical: 1; }}
    {cell_style_css("CellTable")}
    """
    COMPONENT_CLASSES: ClassVar[set[str]] = set(CELL_STYLES)

    class Uncovered(Message):
        """Posted when rows have come into view for which no cells were made."""

    def __init__(self, columns: Sequence[TableColumn] = ()) -> None:
        super().__init__()
        self._columns = columns
        self._rows: Sequence[TableRow] = ()
        self._layout: TableLayout | None = None
        self._cached_styles: dict[str, Style] = {}

    @property
    def room(self) -> int:
        """The cells of a line, without the scrollbar."""
        return max(0, self.size.width - self.scrollbar_size_vertical)

    @property
    def near(self) -> range:
        """The rows that are in view or less than a page away."""
        top_row = self.scroll_offset.y
        page_rows = max(1, self.size.height)
        return range(max(0, top_row - page_rows), top_row + 2 * page_rows)

    def fill(self, rows: Sequence[TableRow], columns: Sequence[TableColumn] | None = None) -> None:
        """Show these rows, each with one cell per column, and these columns if any are given."""
        previous_rows = self._rows
        self._rows = rows
        has_new_columns = columns is not None and columns != self._columns
        if columns is not None:
            self._columns = columns
        if has_new_columns or len(previous_rows) != len(rows):
            self._lay_out()
        else:
            self._refresh_changed_rows(previous_rows)

    def _refresh_changed_rows(self, previous_rows: Sequence[TableRow]) -> None:
        top_row = self.scroll_offset.y
        regions = []
        for line_number, (old_row, new_row) in enumerate(
            zip(previous_rows, self._rows, strict=True), 1
        ):
            if old_row != new_row:
                self._strips.pop(line_number, None)
                regions.append(Region(0, line_number - top_row, self.size.width, 1))
        if regions:
            self.refresh(*regions)

    def on_resize(self) -> None:
        self._lay_out()

    def watch_has_focus(self, _has_focus: bool) -> None:
        super().watch_has_focus(_has_focus)
        self._strips.pop(0, None)
        self.refresh(Region(0, 0, self.size.width, 1))

    def watch_show_vertical_scrollbar(self) -> None:
        # The scrollbar takes a cell of the room, so other columns may fit.
        self._lay_out()

    def watch_scroll_x(self, old_value: float, new_value: float) -> None:
        super().watch_scroll_x(old_value, new_value)
        # A scroll is animated in fractions, while only whole columns move.
        if round(old_value) != round(new_value):
            self._layout = None
            self._strips.clear()

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        super().watch_scroll_y(old_value, new_value)
        top_row = self.scroll_offset.y
        if UNSEEN in self._rows[top_row : top_row + self.size.height]:
            self.post_message(self.Uncovered())

    def _lay_out(self) -> None:
        """Draw everything anew, as the rows, the columns or the room have changed."""
        self._layout = None
        self._strips.clear()
        # The virtual width lets `scroll_x` count columns.
        skippable = max_skipped(self._columns, self.room)
        self.virtual_size = Size(self.size.width + skippable, len(self._rows) + 1)
        self.refresh()

    def render_line(self, y: int) -> Strip:
        """Draw line `y` of what is in view. Line 0 is the head, however far one has scrolled."""
        line_number = y + self.scroll_offset.y if y else 0
        width = self.size.width
        if line_number > len(self._rows):
            return Strip.blank(width, self.rich_style)
        if line_number not in self._strips:
            line = self._draw_row(self._rows[line_number - 1]) if line_number else self._draw_head()
            self._strips[line_number] = line.crop_extend(0, width, self.rich_style)
        return self._strips[line_number]

    def _current_layout(self) -> TableLayout:
        if self._layout is None:
            self._layout = choose_columns(self._columns, self.room, self.scroll_offset.x)
        return self._layout

    def _draw_head(self) -> Strip:
        """Draw the titles, and signs where columns are left out."""
        layout = self._current_layout()
        titles = tuple(TableCell(column.title, "table--head") for column in self._columns)
        head_line = self._draw_row(titles)
        # The keys that bring them into view work, and are told, only with the focus.
        if not self.has_focus:
            return head_line
        if layout.has_columns_before:
            head_line = self._put_sign(head_line, "less", layout.widths[0] - 1)
        if layout.has_columns_behind:
            head_line = self._put_sign(head_line, "more", self.room - 1)
        return head_line

    def _put_sign(self, line: Strip, name: str, column: int) -> Strip:
        whole_line = line.crop_extend(0, self.size.width, self.rich_style)
        sign_strip = Strip([Segment(palette.sign(name), self._cell_style("table--head"))])
        return Strip.join([whole_line.crop(0, column), sign_strip, whole_line.crop(column + 1)])

    def _draw_row(self, cells: TableRow) -> Strip:
        # A row that has just come into view: its cells come with the next drawing.
        if cells == UNSEEN:
            return Strip([])
        layout = self._current_layout()
        segments: list[Segment] = []
        for column_index, width in zip(layout.columns, layout.widths, strict=True):
            cell = cells[column_index]
            fitted_text = _fit_text(cell.text, width, self._columns[column_index])
            segments += self._cell_segments(cell, fitted_text)
        return Strip(segments)

    def _cell_segments(self, cell: TableCell, fitted_text: str) -> Iterator[Segment]:
        """Yield the fitted text of a cell, its parts in their own styles if it is whole."""
        style = self._cell_style(cell.style)
        if not cell.parts or cell.text not in fitted_text:
            yield Segment(fitted_text, style)
            return
        before, _, behind = fitted_text.partition(cell.text)
        yield Segment(before, style)
        for part_text, part_style in cell.parts:
            yield Segment(part_text, self._cell_style(part_style))
        yield Segment(behind, style)

    def _cell_style(self, name: str) -> Style:
        rich_style = self._cached_styles.get(name)
        if rich_style is None:
            if name.startswith("table--"):
                rich_style = self.get_component_rich_style(name)
            else:
                rich_style = self.rich_style + Style(color=name or None)
            self._cached_styles[name] = rich_style
        return rich_style

    def notify_style_update(self) -> None:
        super().notify_style_update()
        self._cached_styles.clear()


# Widths

ColumnT = TypeVar("ColumnT", bound=TableColumn)


def fit_column(column: ColumnT, cells: Sequence[TableCell], max_width: int = 0) -> ColumnT:
    """Return the column as wide as its longest cell.

    It keeps its own width at least, and has `max_width` (0: the column's `most`) at the most.
    """
    longest_text = max((cell_len(cell.text) for cell in cells), default=0) + 1
    width_limit = max_width or column.most or longest_text
    return replace(column, width=max(column.width, min(longest_text, width_limit)), most=0)


class TableLayout(Struct, frozen=True):
    """The columns that are shown."""

    columns: Sequence[int]
    widths: Sequence[int]
    has_columns_before: bool
    """Whether columns are left out after the first one."""
    has_columns_behind: bool
    """Whether columns are left out behind the last one."""


def choose_columns(columns: Sequence[TableColumn], room: int, skipped: int = 0) -> TableLayout:
    """Choose the columns that fit as a whole: the first one, and those after the `skipped` ones."""
    if not columns:
        return TableLayout([], [], skipped > 0, False)
    last_column = len(columns) - 1
    chosen_columns = [0]
    used_width = columns[0].width
    for column_index in range(1 + skipped, len(columns)):
        used_width += columns[column_index].width
        # The sign that there are more columns takes a cell.
        sign_width = 0 if column_index == last_column else 1
        if used_width > room - sign_width:
            break
        chosen_columns.append(column_index)
    has_more = max(chosen_columns[-1], skipped) < last_column
    widths = _share_out([columns[column_index] for column_index in chosen_columns], room - has_more)
    return TableLayout(chosen_columns, widths, skipped > 0, has_more)


def max_skipped(columns: Sequence[TableColumn], room: int) -> int:
    """Return how many columns have to be skipped so that the last one is in view."""
    if not columns:
        return 0
    room -= columns[0].width
    for column_index in range(len(columns) - 1, 0, -1):
        room -= columns[column_index].width
        if room < 0:
            return min(column_index, len(columns) - 2)
    return 0


def _share_out(columns: Sequence[TableColumn], room: int) -> list[int]:
    """Return widths that share out the room: first to columns that may grow, then to all alike."""
    spare_width = max(0, room - sum(column.width for column in columns))
    widths = []
    for column in columns:
        growth = min(spare_width, max(0, column.most - column.width))
        spare_width -= growth
        widths.append(column.width + growth)
    # No more: on a wide screen, columns would stand too far apart to be read as a row.
    extra_width = min(2, spare_width // len(columns))
    return [width + extra_width for width in widths]


def _fit_text(text: str, width: int, column: TableColumn) -> str:
    """Return the text in `width` cells, of which the last one is a space."""
    text_width = max(0, width - 1)
    if cell_len(text) > text_width:
        if column.tail:
            text = text[len(text) - text_width :]
        else:
            text = set_cell_size(text, max(0, text_width - 1)) + "…"[:text_width]
    padding = " " * (text_width - cell_len(text))
    padded_text = padding + text if column.right else text + padding
    return padded_text + " " * (width - text_width)
