"""The report as an HTML page that asks for nothing else, and as Markdown with files beside it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from remote.sanitise import one_line, shown
from tui.report.document import ReportDocument, Row
from tui.report.render import RenderedPicture

PICTURES = "pictures"
"""The folder of the pictures, beside the Markdown."""
MARKDOWN_SIGNS = "\\`*_{}[]<>|#~!&$"


def to_html(report: ReportDocument, pictures: Mapping[str, RenderedPicture]) -> str:
    """Return the page of a report. `pictures` has its pictures by name.

    All text is escaped; only the pictures, which matplotlib has written, are markup.
    """
    # Names and causes come from hosts and files: whatever is shown is made fit for it here.
    templates = _environment(autoescape=True, finalize=_make_fit)
    templates.filters |= {"anchor": to_anchor, "code": _escape_code}
    page_style = Markup(templates.get_template("report.css").render())
    inline_pictures = {name: Markup(picture.inline) for name, picture in pictures.items()}
    return templates.get_template("report.html.j2").render(
        report=report, style=page_style, svg=inline_pictures
    )


def to_markdown(report: ReportDocument) -> str:
    """Return the report as Markdown, such as GitHub shows."""
    templates = _environment(autoescape=False)
    templates.filters |= {"plain": escape_markdown, "row": markdown_row, "code": indent_code}
    return templates.get_template("report.md.j2").render(report=report, folder=PICTURES)


def to_anchor(text: str) -> str:
    """Return a name as an identifier of the page."""
    return "".join(character if character.isalnum() else "-" for character in text)


def escape_markdown(text: str) -> str:
    """Return text so that Markdown shows it as it is: names may hold any character."""
    return "".join(
        f"\\{character}" if character in MARKDOWN_SIGNS else character
        for character in one_line(text)
    )


def markdown_row(cells: Row) -> str:
    """Return a row of a Markdown table."""
    return f"| {' | '.join(map(escape_markdown, cells))} |"


def indent_code(lines: Sequence[str]) -> str:
    """Return lines as a block of code. It is indented, so that no text can end it."""
    return "\n".join(f"    {line}".rstrip() for line in _fit_lines(lines))


def _escape_code(lines: Sequence[str]) -> Markup:
    return escape("\n".join(_fit_lines(lines)))


def _fit_lines(lines: Sequence[str]) -> list[str]:
    return [" ".join(shown(line)) for line in lines]


def _make_fit(value: object) -> object:
    """Return a value of a template fit to be shown: text without control characters."""
    # Not isinstance: `Markup` is a string, too, and holds the pictures, which are fit already.
    return one_line(value) if type(value) is str else value


def _environment(
    *, autoescape: bool, finalize: Callable[[object], object] | None = None
) -> Environment:
    return Environment(
        loader=PackageLoader("tui.report"),
        autoescape=autoescape,
        finalize=finalize,
        trim_blocks=True,
        lstrip_blocks=True,
        # A wrong name in a template would otherwise be an empty text.
        undefined=StrictUndefined,
    )
