"""The contents of a report, before they are HTML or Markdown. All text is plain, never markup."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from remote.format import UNKNOWN
from remote.sanitise import one_line, shown

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

    def sanitised(self) -> ReportTable:
        """Return a copy that is fit to be shown, without columns in which nothing is known."""
        columns = [column for column in range(len(self.head)) if self._is_shown(column)]
        rows = [tuple(one_line(row[column]) for column in columns) for row in self.rows]
        head = tuple(one_line(self.head[column]) for column in columns)
        return ReportTable(one_line(self.title), head, rows, one_line(self.note))

    def _is_shown(self, column: int) -> bool:
        if column == 0 or not self.rows:
            return True
        return any(row[column] != UNKNOWN for row in self.rows)

    def is_number(self, column: int) -> bool:
        """Return True if a column holds numbers, which are aligned at their right."""
        if column == 0:
            return False
        cells = [row[column] for row in self.rows]
        return all(cell[:1] in NUMBER_STARTS and len(cell) <= LONGEST_NUMBER for cell in cells)


@dataclass(frozen=True)
class ReportPicture:
    """A picture that can be drawn."""

    name: str
    """The name of its files."""
    title: str
    alt: str
    """What the picture shows, in words."""
    draw: Callable[[], Figure]

    def sanitised(self) -> ReportPicture:
        """Return a copy that is fit to be shown."""
        return replace(self, title=one_line(self.title), alt=one_line(self.alt))


@dataclass(frozen=True)
class TextBlock:
    """Lines to show as they are, such as commands and classification reports."""

    title: str
    lines: Sequence[str]

    def sanitised(self) -> TextBlock:
        """Return a copy that is fit to be shown."""
        return TextBlock(one_line(self.title), [" ".join(shown(line)) for line in self.lines])


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

    def sanitised(self) -> Section:
        """Return a copy that is fit to be shown: names and causes come from hosts and files."""
        return Section(
            self.name,
            self.title,
            [one_line(paragraph) for paragraph in self.paragraphs],
            [table.sanitised() for table in self.tables],
            [picture.sanitised() for picture in self.pictures],
            [text.sanitised() for text in self.texts],
        )

    @property
    def is_list_of_tables(self) -> bool:
        """Return True if its tables are so small that several fit beside each other."""
        return len(self.tables) > 2 and max(len(table.head) for table in self.tables) <= 4


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
