"""The page: one HTML file that asks for nothing else."""

from __future__ import annotations

from collections.abc import Mapping

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from tui.report.document import Report
from tui.report.pictures.render import Rendered


def page(report: Report, pictures: Mapping[str, Rendered]) -> str:
    """The HTML of a report. `pictures` are its pictures, drawn, by name. All text is escaped; only
    the pictures, which matplotlib has written, are markup."""
    templates = environment(autoescape=True)
    templates.filters["anchor"] = anchor
    style = Markup(templates.get_template("report.css").render())
    svg = {name: Markup(one.inline) for name, one in pictures.items()}
    return templates.get_template("report.html.j2").render(report=report, style=style, svg=svg)


def anchor(text: str) -> str:
    """A name as an identifier of the page."""
    return "".join(one if one.isalnum() else "-" for one in text)


def environment(*, autoescape: bool) -> Environment:
    """The templates."""
    return Environment(
        loader=PackageLoader("tui.report"),
        autoescape=autoescape,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
    )
