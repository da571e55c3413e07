"""The contents of a report, before they are HTML or Markdown. All text is plain, never markup.

Names and causes come from hosts and files. `pages` makes them fit to be shown.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from remote.format import UNKNOWN

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Row = tuple[str, ...]
LONGEST_NUMBER = 22
"""Characters of a number with its unit, or of an interval."""
NUMBER_STARTS = "+-≥0123456789"


@dataclass(frozen=True)
class ReportTable:
    """A table. Its first column names the rows."""

    title: str
    head: Row
    rows: Sequence[Row]
    note: str = ""
    """Text below the table."""

    def is_number(self, column: int) -> bool:
        """Return True if a column holds numbers, which are aligned at their right."""
        if column == 0:
            return False
        column_cells = [row[column] for row in self.rows]
        return all(
            cell[:1] in NUMBER_STARTS and len(cell) <= LONGEST_NUMBER for cell in column_cells
        )


def make_table(title: str, head: Row, rows: Sequence[Row], note: str = "") -> ReportTable:
    """Return a table without the columns in which nothing is known."""
    known_columns = []
    for column, column_cells in enumerate(zip(head, *rows, strict=True)):
        if column == 0 or set(column_cells[1:]) != {UNKNOWN}:
            known_columns.append(column_cells)
    known_head, *known_rows = zip(*known_columns, strict=True)
    return ReportTable(title, known_head, known_rows, note)


@dataclass(frozen=True)
class ReportPicture:
    """A picture that can be drawn."""

    name: str
    """The name of its files."""
    title: str
    series: Sequence[str]
    """The names of what it shows."""
    draw: Callable[[], Figure]

    @property
    def alt(self) -> str:
        """Return what the picture shows, in words."""
        return f"{self.title}: {', '.join(self.series)}. The tables have the numbers."


@dataclass(frozen=True)
class TextBlock:
    """Lines to show as they are, such as commands and classification reports."""

    title: str
    lines: Sequence[str]


@dataclass(frozen=True)
class Section:
    """A part of the report."""

    name: str
    """Its anchor in the page."""
    title: str
    paragraphs: Sequence[str] = ()
    tables: Sequence[ReportTable] = ()
    pictures: Sequence[ReportPicture] = ()
    texts: Sequence[TextBlock] = ()

    @property
    def is_list_of_tables(self) -> bool:
        """Return True if its tables are so small that several fit beside each other."""
        most_columns = max((len(table.head) for table in self.tables), default=0)
        return len(self.tables) > 2 and most_columns <= 4


@dataclass(frozen=True)
class Chapter:
    """All about one study, or about the runs that were named."""

    name: str
    title: str
    question: str
    verdict: Sequence[str]
    """What came out."""
    alerts: Sequence[str]
    """What makes figures doubtful. They come before everything."""
    sections: Sequence[Section]
    doubts: Sequence[str] = ()
    """Which figures cannot be used, at the head of the verdict."""


@dataclass(frozen=True)
class ReportDocument:
    """A whole report."""

    title: str
    origin: str
    """When and by what it was written."""
    chapters: Sequence[Chapter]

    @property
    def pictures(self) -> list[ReportPicture]:
        """Return all pictures, in order."""
        sections = [section for chapter in self.chapters for section in chapter.sections]
        return [picture for section in sections for picture in section.pictures]
