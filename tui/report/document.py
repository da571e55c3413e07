"""What a report says, before it is HTML or Markdown. All text in it is plain text, never markup."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from remote.format import UNKNOWN

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Row = tuple[str, ...]


@dataclass(frozen=True)
class Table:
    """A table. The first column names its row; `note` stands below it."""

    title: str
    head: Row
    rows: Sequence[Row]
    note: str = ""

    def fitted(self) -> Table:
        """The same without columns in which nothing is known."""
        kept = [
            at
            for at in range(len(self.head))
            if at == 0 or not self.rows or any(row[at] != UNKNOWN for row in self.rows)
        ]
        head = tuple(self.head[at] for at in kept)
        return replace(self, head=head, rows=[tuple(row[at] for at in kept) for row in self.rows])

    def is_number(self, column: int) -> bool:
        """Whether a column holds numbers, which are aligned at their right."""
        cells = [row[column] for row in self.rows]
        return column > 0 and all(cell[:1] in "+-0123456789" or cell == "inf" for cell in cells)


@dataclass(frozen=True)
class Picture:
    """A picture. `name` is that of its files; `alt` says in words what it shows."""

    name: str
    title: str
    alt: str
    draw: Callable[[], Figure]


@dataclass(frozen=True)
class Text:
    """Lines to show as they are, such as commands and classification reports."""

    title: str
    lines: Sequence[str]


@dataclass(frozen=True)
class Section:
    """A part of the report. `name` is its anchor; `says` are its paragraphs."""

    name: str
    title: str
    says: Sequence[str] = ()
    tables: Sequence[Table] = ()
    pictures: Sequence[Picture] = ()
    texts: Sequence[Text] = ()

    @property
    def is_list_of_tables(self) -> bool:
        """Whether it has so small tables that several stand beside each other."""
        return len(self.tables) > 2 and max(len(table.head) for table in self.tables) <= 4


@dataclass(frozen=True)
class Chapter:
    """All about one study, or about the runs that were named.

    `alerts` come before everything: what makes figures doubtful. `verdict` is what came out.
    """

    name: str
    title: str
    question: str
    verdict: Sequence[str]
    alerts: Sequence[str]
    sections: Sequence[Section]


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
