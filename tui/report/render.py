"""Turns pictures into SVG and PNG.

The SVG names its colours by the theme of the page: `currentColor`, `var(--grid)`, `var(--paper)`.
It has no script, no style sheet of its own in the page, and identifiers of its own.
"""

from __future__ import annotations

import io
import re
import warnings
from dataclasses import dataclass
from xml.etree import ElementTree

import matplotlib

from remote.sanitise import one_line
from tui.report.document import ReportPicture
from tui.report.picture_style import GRID, INK, PAPER, RC

SVG = "http://www.w3.org/2000/svg"
XLINK = "http://www.w3.org/1999/xlink"
THEME = {INK: "currentColor", GRID: "var(--grid)", PAPER: "var(--paper)"}
FONT = re.compile(r"(font(?:-family)?: *[^;]*?)(?:'DejaVu Sans'|DejaVu Sans)[^;]*")
FAMILY = "system-ui, Segoe UI, Helvetica, Arial, sans-serif"
REFERENCE = re.compile(r"url\(#([^)]*)\)")
DPI = 160
# Among these is the time of the drawing, by which equal pictures would differ.
NO_METADATA = dict.fromkeys(("Creator", "Date", "Format", "Type"))
FILE_THEME = (
    ":root{color:#1b1e23;--grid:#c3c7cd;--paper:#fff}"
    "@media (prefers-color-scheme:dark){:root{color:#e6e8eb;--grid:#454b54;--paper:#16181c}}"
)
"""The theme of a picture that is a file of its own."""


@dataclass(frozen=True)
class RenderedPicture:
    """A picture that was drawn."""

    inline: str
    """SVG to stand in a page."""
    svg: str
    """The same as a file of its own."""
    png: bytes
    """In light colours."""


def render(picture: ReportPicture) -> RenderedPicture:
    """Draw a picture."""
    svg_text = io.StringIO()
    png_bytes = io.BytesIO()
    with matplotlib.rc_context(RC), warnings.catch_warnings():
        # The font of the PNG may lack a character of a name.
        warnings.simplefilter("ignore")
        figure = picture.draw()
        # This lays it out, once for both formats.
        figure.draw_without_rendering()
        # Otherwise each format would be laid out anew, and differently.
        figure.set_layout_engine("none")
        figure.savefig(svg_text, format="svg", metadata=NO_METADATA)
        figure.savefig(png_bytes, format="png", dpi=DPI, metadata={"Software": None})
    root = _apply_theme(svg_text.getvalue(), picture)
    inline_svg = ElementTree.tostring(root, "unicode")
    # Only after the inline text is made: within a page, this style would hold for all of it.
    theme_style = ElementTree.Element(f"{{{SVG}}}style")
    theme_style.text = FILE_THEME
    root.insert(0, theme_style)
    svg_file = ElementTree.tostring(root, "unicode") + "\n"
    return RenderedPicture(inline_svg, svg_file, png_bytes.getvalue())


def _apply_theme(text: str, picture: ReportPicture) -> ElementTree.Element:
    """Return the SVG with the colours of the page's theme, and with its description in words."""
    # Otherwise all elements would be written with a prefix such as "ns0:".
    ElementTree.register_namespace("", SVG)
    ElementTree.register_namespace("xlink", XLINK)
    root = ElementTree.fromstring(text)
    # A style sheet within the SVG would hold for the whole page.
    for parent in root.iter():
        for child in list(parent):
            if child.tag.rpartition("}")[2] in ("metadata", "style"):
                parent.remove(child)
    for element in root.iter():
        for attribute_name, value in list(element.attrib.items()):
            element.set(attribute_name, _adapt_attribute(attribute_name, value, picture.name))
    # Without a size of its own it fits the page, and its view box keeps the proportions.
    for attribute_name in ("width", "height"):
        root.attrib.pop(attribute_name, None)
    root.set("role", "img")
    root.set("aria-label", one_line(picture.alt))
    root.set("style", "stroke-linejoin: round; stroke-linecap: butt")
    return root


def _adapt_attribute(key: str, value: str, name: str) -> str:
    """Return an attribute's value with the theme's colours and font.

    Identifiers get the name of the picture, because a page has several pictures.
    """
    if key == "id":
        return f"{name}-{value}"
    if key == f"{{{XLINK}}}href":
        return f"#{name}-{value.removeprefix('#')}"
    value = REFERENCE.sub(rf"url(#{name}-\1)", value)
    for colour, theme_colour in THEME.items():
        value = value.replace(colour, theme_colour)
    return FONT.sub(rf"\1{FAMILY}", value)
