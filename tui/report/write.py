"""Writes a report: a folder with the page, the Markdown, the pictures and the values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from tui.report import data
from tui.report.chapter import chapter
from tui.report.document import Chapter, Report, Section
from tui.report.html import anchor, page
from tui.report.markdown import PICTURES, markdown
from tui.report.pictures.render import Rendered, render
from tui.report.subject import Subject

FILES = HTML, MARKDOWN, CSV, JSON = "report.html", "report.md", "data.csv", "data.json"
"""What a report has beside its pictures."""


def write(subjects: Sequence[Subject], target: Path, made: str) -> None:
    """Write the report of these subjects. Files of an earlier report there are replaced. Raises:
    OSError."""
    chapters = [chapter(subject) for subject in subjects]
    report = assemble(chapters, made)
    drawn = {picture.name: render(picture) for picture in report.pictures}
    target.mkdir(parents=True, exist_ok=True)
    _write_pictures(target / PICTURES, drawn)
    for name, text in (
        (MARKDOWN, markdown(report)),
        (CSV, data.table(subjects)),
        (JSON, data.objects(subjects, chapters)),
        (HTML, page(report, drawn)),
    ):
        _keep(target / name, text.encode())


def assemble(chapters: Sequence[Chapter], made: str) -> Report:
    """The report of chapters. Of several, the names of pictures begin with that of the chapter."""
    if len(chapters) == 1:
        return Report(chapters[0].title, made, chapters)
    title = f"{chapters[0].title} and {len(chapters) - 1} more"
    return Report(title, made, [_prefixed(one) for one in chapters])


def _prefixed(one: Chapter) -> Chapter:
    return replace(one, sections=[_named(section, anchor(one.name)) for section in one.sections])


def _named(section: Section, prefix: str) -> Section:
    pictures = [replace(picture, name=f"{prefix}-{picture.name}") for picture in section.pictures]
    return replace(section, pictures=pictures)


def _keep(path: Path, data: bytes) -> None:
    """Write a file whole, for all to read: a report is to be shown. Raises: OSError."""
    part = path.with_name(f".{path.name}.part")
    part.write_bytes(data)
    part.replace(path)


def _write_pictures(folder: Path, drawn: dict[str, Rendered]) -> None:
    """Write the pictures, and remove those of an earlier report. Raises: OSError."""
    folder.mkdir(exist_ok=True)
    for old in (*folder.glob("*.svg"), *folder.glob("*.png")):
        old.unlink()
    for name, one in drawn.items():
        _keep(folder / f"{name}.svg", one.svg.encode())
        _keep(folder / f"{name}.png", one.png)
