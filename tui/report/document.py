"""What a report says, before it is HTML or Markdown. All text in it is plain text, never markup."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from remote.format import UNKNOWN
from remote.sanitise import one_line, shown

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Row = tuple[str, ...]
LONGEST = 22
"""Characters of a number with its unit, or of an interval."""


@dataclass(frozen=True)
class Table:
    """A table. The first column names its row; `note` stands below it."""

    title: str
    head: Row
    rows: Sequence[Row]
    note: str = ""

    def fitted(self) -> Table:
        """The same without columns in which nothing is known, and fit to be shown."""
        kept = [
            at
            for at in range(len(self.head))
            if at == 0 or not self.rows or any(row[at] != UNKNOWN for row in self.rows)
        ]
        rows = [tuple(one_line(row[at]) for at in kept) for row in self.rows]
        head = tuple(one_line(self.head[at]) for at in kept)
        return Table(one_line(self.title), head, rows, one_line(self.note))

    def is_number(self, column: int) -> bool:
        """Whether a column holds numbers, which are aligned at their right."""
        cells = [row[column] for row in self.rows]
        return column > 0 and all(
            cell[:1] in "+-≥0123456789" and len(cell) <= LONGEST for cell in cells
        )


@dataclass(frozen=True)
class Picture:
    """A picture. `name` is that of its files; `alt` says in words what it shows."""

    name: str
    title: str
    alt: str
    draw: Callable[[], Figure]

    def fitted(self) -> Picture:
        """The same, fit to be shown."""
        return replace(self, title=one_line(self.title), alt=one_line(self.alt))


@dataclass(frozen=True)
class Text:
    """Lines to show as they are, such as commands and classification reports."""

    title: str
    lines: Sequence[str]

    def fitted(self) -> Text:
        """The same, fit to be shown."""
        return Text(one_line(self.title), [" ".join(shown(line)) for line in self.lines])


@dataclass(frozen=True)
class Section:
    """A part of the report. `name` is its anchor; `says` are its paragraphs."""

    name: str
    title: str
    says: Sequence[str] = ()
    tables: Sequence[Table] = ()
    pictures: Sequence[Picture] = ()
    texts: Sequence[Text] = ()

    def fitted(self) -> Section:
        """The same, fit to be shown: names and causes are from hosts and files."""
        return Section(
            self.name,
            self.title,
            [one_line(said) for said in self.says],
            [table.fitted() for table in self.tables],
            [picture.fitted() for picture in self.pictures],
            [text.fitted() for text in self.texts],
        )

    @property
    def is_list_of_tables(self) -> bool:
        """Whether it has so small tables that several stand beside each other."""
        return len(self.tables) > 2 and max(len(table.head) for table in self.tables) <= 4


@dataclass(frozen=True)
class Chapter:
    """All about one study, or about the runs that were named.

    `alerts` come before everything: what makes figures doubtful. `doubts` say which figures cannot
    be used, at the head of the `verdict`, which is what came out.
    """

    name: str
    title: str
    question: str
    verdict: Sequence[str]
    alerts: Sequence[str]
    sections: Sequence[Section]
    doubts: Sequence[str] = ()


@dataclass(frozen=True)
class Report:
    """A whole report. `made` tells when and by what it was written."""

    title: str
    made: str
    chapters: Sequence[Chapter]

    @property
    def pictures(self) -> list[Picture]:
        """All pictures, in order."""
        return [
            picture
            for chapter in self.chapters
            for section in chapter.sections
            for picture in section.pictures
        ]
