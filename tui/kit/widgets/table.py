"""A table with a fixed head, on the line API: only the lines that changed are drawn again.

Textual's DataTable makes every visible cell anew after one has changed: 7.4 ms for 8 x 10 cells,
where this takes 2.0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from rich.cells import cell_len, set_cell_size
from rich.segment import Segment
from rich.style import Style
from textual.geometry import Region, Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from tui.kit import palette
from tui.kit.widgets.lines import Lines


@dataclass(frozen=True)
class Column:
    """A column at least `width` cells wide, at the right edge of which numbers stand, and up to
    `most` where there is room. `tail`: of a text that is too long the end is shown."""

    title: str
    width: int
    right: bool = True
    most: int = 0
    tail: bool = False


@dataclass(frozen=True)
class Cell:
    """A cell's text and its colour: "#rrggbb", the name of one of the table's component classes, or
    the default."""

    text: str
    ink: str = ""


Row = tuple[Cell, ...]
UNSEEN: Row = ()
"""A row that is out of view, for which no cells were made."""


INKS = {
    "table--head": "bold $text-muted",
    "table--good": "$text-success",
    "table--work": "$text-warning",
    "table--bad": "bold $text-error",
    "table--dim": "$text-muted",
}
"""The component classes of widgets with cells, and their styles, as text in them has them."""


def inks(widget: str) -> str:
    """The CSS of the component classes of a widget."""
    return "\n".join(f"{widget} > .{name} {{ {_css(style)} }}" for name, style in INKS.items())


def _css(style: str) -> str:
    *letters, colour = style.split()
    return f"color: {colour};" + f" text-style: {' '.join(letters)};" * bool(letters)


class Table(ScrollView, Lines, can_focus=True):
    """Rows of cells beneath the titles of their columns. The first column stays in view; only whole
    columns are shown, and signs in the head tell that there are more. One scrolls sideways by whole
    columns: `scroll_x` counts those that are left out."""

    DEFAULT_CSS = f"""
    Table {{ scrollbar-size-horizontal: 0; scrollbar-size-vertical: 1; }}
    {inks("Table")}
    """
    COMPONENT_CLASSES = set(INKS)  # noqa: RUF012

    class Uncovered(Message):
        """Rows have come into view for which no cells were made."""

    def __init__(self, columns: Sequence[Column] = ()) -> None:
        super().__init__()
        self._columns = columns
        self._rows: Sequence[Row] = ()
        self._layout: Layout | None = None
        self._inks: dict[str, Style] = {}

    @property
    def room(self) -> int:
        """The cells of a line, without the scrollbar."""
        return max(0, self.size.width - self.scrollbar_size_vertical)

    @property
    def near(self) -> range:
        """The numbers of the rows that are in view or less than a page away."""
        top = self.scroll_offset.y
        page = max(1, self.size.height)
        return range(max(0, top - page), top + 2 * page)

    def fill(self, rows: Sequence[Row], columns: Sequence[Column] | None = None) -> None:
        """Show these rows, each with one cell per column, and other columns where some are
        given."""
        before = self._rows
        self._rows = rows
        changed = columns is not None and columns != self._columns
        if columns is not None:
            self._columns = columns
        if changed or len(before) != len(rows):
            self._lay_out()
            return
        pairs = enumerate(zip(before, rows, strict=True), 1)
        changed_rows = [number for number, (old, new) in pairs if old != new]
        for number in changed_rows:
            self._strips.pop(number, None)
        top = self.scroll_offset.y
        width = self.size.width
        if changed_rows:
            self.refresh(*(Region(0, number - top, width, 1) for number in changed_rows))

    def on_resize(self) -> None:
        self._lay_out()

    def watch_show_vertical_scrollbar(self) -> None:
        self._lay_out()

    def watch_scroll_x(self, old_value: float, new_value: float) -> None:
        super().watch_scroll_x(old_value, new_value)
        if round(old_value) != round(new_value):
            self._layout = None
            self._strips.clear()

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        super().watch_scroll_y(old_value, new_value)
        top = self.scroll_offset.y
        if UNSEEN in self._rows[top : top + self.size.height]:
            self.post_message(self.Uncovered())

    def _lay_out(self) -> None:
        """Begin anew, as rows, columns or the room are others."""
        self._layout = None
        self._strips.clear()
        skippable = most_skipped(self._columns, self.room)
        self.virtual_size = Size(self.size.width + skippable, len(self._rows) + 1)
        self.refresh()

    def render_line(self, y: int) -> Strip:
        """Line `y` of what is in view; the head is line 0, however far one has scrolled."""
        number = y + self.scroll_offset.y if y else 0
        width = self.size.width
        if number > len(self._rows):
            return Strip.blank(width, self.rich_style)
        if number not in self._strips:
            line = self._line(self._rows[number - 1]) if number else self._head()
            self._strips[number] = line.crop_extend(0, width, self.rich_style)
        return self._strips[number]

    def _laid_out(self) -> Layout:
        if self._layout is None:
            self._layout = layout(self._columns, self.room, self.scroll_offset.x)
        return self._layout

    def _head(self) -> Strip:
        """The titles, and signs where columns are left out."""
        shown = self._laid_out()
        line = self._line(tuple(Cell(column.title, "table--head") for column in self._columns))
        if shown.before:
            line = self._with_sign(line, "less", shown.widths[0] - 1)
        return self._with_sign(line, "more", self.room - 1) if shown.behind else line

    def _with_sign(self, line: Strip, name: str, place: int) -> Strip:
        whole = line.crop_extend(0, self.size.width, self.rich_style)
        sign = Strip([Segment(palette.sign(name), self._style("table--head"))])
        return Strip.join([whole.crop(0, place), sign, whole.crop(place + 1)])

    def _line(self, cells: Row) -> Strip:
        if cells == UNSEEN:
            return Strip([])
        shown = self._laid_out()
        return Strip(
            [
                Segment(
                    _fit(cells[number].text, width, self._columns[number]),
                    self._style(cells[number].ink),
                )
                for number, width in zip(shown.columns, shown.widths, strict=True)
            ]
        )

    def _style(self, ink: str) -> Style:
        if ink not in self._inks:  # they are asked for often, and seldom change
            if ink.startswith("table--"):
                self._inks[ink] = self.get_component_rich_style(ink)
            else:
                self._inks[ink] = self.rich_style + Style(color=ink or None)
        return self._inks[ink]

    def notify_style_update(self) -> None:
        super().notify_style_update()
        self._inks.clear()


def fitted(column: Column, cells: Sequence[Cell], most: int = 0) -> Column:
    """The column, as wide as its longest cell: at least its own width, and at most `most`."""
    longest = max((cell_len(cell.text) for cell in cells), default=0) + 1
    limit = most or column.most or longest
    return replace(column, width=max(column.width, min(longest, limit)), most=0)


@dataclass(frozen=True)
class Layout:
    """The numbers of the columns that are shown and their widths; whether some are left out
    `before` them, after the first, or `behind` them."""

    columns: Sequence[int]
    widths: Sequence[int]
    before: bool
    behind: bool


def layout(columns: Sequence[Column], room: int, skipped: int = 0) -> Layout:
    """Choose the columns that fit as a whole: the first one, and those after the `skipped` ones."""
    chosen = [0] if columns else []
    used = sum(column.width for column in columns[:1])
    for number in range(1 + skipped, len(columns)):
        used += columns[number].width
        is_last = number == len(columns) - 1
        if used > room - (not is_last):  # the sign of more takes a cell
            break
        chosen.append(number)
    behind = bool(columns) and max(chosen[-1], skipped) < len(columns) - 1
    widths = _widths([columns[number] for number in chosen], room - behind)
    return Layout(chosen, widths, skipped > 0, behind)


def most_skipped(columns: Sequence[Column], room: int) -> int:
    """How many columns have to be left out after the first, so that the last one is in view."""
    left = room - sum(column.width for column in columns[:1])
    for number in range(len(columns) - 1, 0, -1):
        left -= columns[number].width
        if left < 0:
            return min(number, len(columns) - 2)
    return 0


def _widths(columns: Sequence[Column], room: int) -> list[int]:
    """What is left of the room goes first to the columns that want more, then to all alike."""
    spare = max(0, room - sum(column.width for column in columns))
    widths = []
    for column in columns:
        more = min(spare, max(0, column.most - column.width))
        spare -= more
        widths.append(column.width + more)
    return [width + min(2, spare // len(columns)) for width in widths]


def _fit(text: str, width: int, column: Column) -> str:
    """The text in `width` cells, one of them a space at the right."""
    room = max(0, width - 1)
    wide = cell_len(text)
    if wide > room:
        if column.tail:
            text = text[len(text) - room :]
        else:
            text = set_cell_size(text, max(0, room - 1)) + "…"[:room]
        wide = cell_len(text)
    blank = " " * (room - wide)
    return (blank + text if column.right else text + blank) + " " * (width - room)
