"""Writes a report: a folder with the page, the Markdown, the pictures and the values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from tui.kit.output_folder import OutputFolder
from tui.report.chapter import make_chapter
from tui.report.data import to_csv, to_json
from tui.report.document import Chapter, ReportDocument, Section
from tui.report.pages import PICTURES, to_anchor, to_html, to_markdown
from tui.report.render import RenderedPicture, render
from tui.report.subject import ReportSubject

HTML = "report.html"
MARKDOWN = "report.md"
CSV = "data.csv"
JSON = "data.json"


def write_report(subjects: Sequence[ReportSubject], target: OutputFolder, origin: str) -> list[str]:
    """Write the report of these subjects, and return the names of its files.

    Files of an earlier report there are replaced. Raises: ForeignFilesError; OSError.
    """
    chapters = [make_chapter(subject) for subject in subjects]
    report = assemble_report(chapters, origin)
    pictures = {picture.name: render(picture) for picture in report.pictures}
    named_files = _picture_files(pictures)
    named_files[MARKDOWN] = to_markdown(report).encode()
    named_files[CSV] = to_csv(subjects).encode()
    named_files[JSON] = to_json(subjects, chapters).encode()
    # The page comes last: it says that the report is there.
    named_files[HTML] = to_html(report, pictures).encode()
    # Before anything is changed: a file of somebody else ends the command here.
    target.check(named_files)
    # A picture that this report lacks would be taken for one of it.
    old_pictures = {
        file_name for file_name in target.written() if Path(file_name).parent.name == PICTURES
    }
    target.remove(old_pictures - named_files.keys())
    target.note(named_files)
    (target.path / PICTURES).mkdir(exist_ok=True)
    for file_name, content in named_files.items():
        _write_whole(target.path / file_name, content)
    return list(named_files)


def assemble_report(chapters: Sequence[Chapter], origin: str) -> ReportDocument:
    """Return the report of chapters.

    Of several, the names of pictures begin with that of the chapter.
    """
    if len(chapters) == 1:
        return ReportDocument(chapters[0].title, origin, chapters)
    report_title = f"{chapters[0].title} and {len(chapters) - 1} more"
    prefixed_chapters = []
    for chapter in chapters:
        prefix = to_anchor(chapter.name)
        sections = [_prefix_pictures(section, prefix) for section in chapter.sections]
        prefixed_chapters.append(replace(chapter, sections=sections))
    return ReportDocument(report_title, origin, prefixed_chapters)


def _prefix_pictures(section: Section, prefix: str) -> Section:
    pictures = [replace(picture, name=f"{prefix}-{picture.name}") for picture in section.pictures]
    return replace(section, pictures=pictures)


def _picture_files(pictures: Mapping[str, RenderedPicture]) -> dict[str, bytes]:
    files = {}
    for name, picture in pictures.items():
        files[f"{PICTURES}/{name}.svg"] = picture.svg.encode()
        files[f"{PICTURES}/{name}.png"] = picture.png
    return files


def _write_whole(path: Path, data: bytes) -> None:
    """Write a file whole, for all to read: a report is to be shown. Raises: OSError."""
    partial_file = path.with_name(f".{path.name}.part")
    partial_file.write_bytes(data)
    partial_file.replace(path)
