"""The report as Markdown, such as GitHub shows, with its pictures as files beside it."""

from __future__ import annotations

from remote.sanitise import one_line
from tui.report.document import Report, Row
from tui.report.html import environment

PICTURES = "pictures"
"""The folder of the pictures."""
SPECIAL = "\\`*_{}[]<>|#~!&$"


def markdown(report: Report) -> str:
    """The Markdown of a report."""
    templates = environment(autoescape=False)
    templates.filters |= {"plain": plain, "row": row, "code": code}
    return templates.get_template("report.md.j2").render(report=report, folder=PICTURES)


def plain(text: str) -> str:
    """Text as Markdown shows it: names may hold any character."""
    return "".join(f"\\{one}" if one in SPECIAL else one for one in one_line(text))


def row(cells: Row) -> str:
    """A row of a table."""
    return f"| {' | '.join(map(plain, cells))} |"


def code(lines: list[str]) -> str:
    """Lines as a block of code, indented: no text in it can end the block."""
    return "\n".join(f"    {line}".rstrip() for line in lines)
