"""Writes a report: a folder with the page, the Markdown, the pictures and the values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from tui.kit.output_folder import OutputFolder
from tui.report import data
from tui.report.chapter import chapter
from tui.report.document import Chapter, Report, Section
from tui.report.html import anchor, page
from tui.report.markdown import PICTURES, markdown
from tui.report.pictures.render import Rendered, render
from tui.report.subject import Subject

HTML = "report.html"
MARKDOWN = "report.md"
CSV = "data.csv"
JSON = "data.json"
"""What a report has beside its pictures."""


def write(subjects: Sequence[Subject], target: OutputFolder, made: str) -> list[str]:
    """Write the report of these subjects. Files of an earlier report there are replaced. Returns
    the names of the files. Raises: ForeignFilesError; OSError."""
    chapters = [chapter(subject) for subject in subjects]
    report = assemble(chapters, made)
    drawn = {picture.name: render(picture) for picture in report.pictures}
    files = _pictures(drawn) | {
        MARKDOWN: markdown(report).encode(),
        CSV: data.table(subjects).encode(),
        JSON: data.objects(subjects, chapters).encode(),
        HTML: page(report, drawn).encode(),  # at last: it says that the report is there
    }
    target.check(files)
    old_pictures = {name for name in target.written() if Path(name).parent.name == PICTURES}
    target.remove(old_pictures - files.keys())
    target.note(files)
    (target.path / PICTURES).mkdir(exist_ok=True)
    for name, content in files.items():
        _keep(target.path / name, content)
    return list(files)


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


def _pictures(drawn: dict[str, Rendered]) -> dict[str, bytes]:
    """Return the files of the pictures by their names."""
    files = {}
    for name, one in drawn.items():
        files[f"{PICTURES}/{name}.svg"] = one.svg.encode()
        files[f"{PICTURES}/{name}.png"] = one.png
    return files
