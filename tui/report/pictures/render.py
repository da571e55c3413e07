"""Makes SVG and PNG of pictures.

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

from tui.report.document import Picture
from tui.report.pictures.style import GRID, INK, PAPER, RC

SVG = "http://www.w3.org/2000/svg"
XLINK = "http://www.w3.org/1999/xlink"
THEME = {INK: "currentColor", GRID: "var(--grid)", PAPER: "var(--paper)"}
FONT = re.compile(r"(font(?:-family)?: *[^;]*?)(?:'DejaVu Sans'|DejaVu Sans)[^;]*")
FAMILY = "system-ui, Segoe UI, Helvetica, Arial, sans-serif"
REFERENCE = re.compile(r"url\(#([^)]*)\)")
DPI = 160
ALONE = (
    ":root{color:#1b1e23;--grid:#c3c7cd;--paper:#fff}"
    "@media (prefers-color-scheme:dark){:root{color:#e6e8eb;--grid:#454b54;--paper:#16181c}}"
)
"""The theme of a picture that is a file of its own."""


@dataclass(frozen=True)
class Rendered:
    """A picture. `inline` is SVG for a page, `svg` the same as a file, `png` its picture in light
    colours."""

    picture: Picture
    inline: str
    svg: str
    png: bytes


def render(picture: Picture) -> Rendered:
    """Draw a picture."""
    svg = io.StringIO()
    png = io.BytesIO()
    with matplotlib.rc_context(RC), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a character that the font of the PNG lacks
        figure = picture.draw()
        figure.draw_without_rendering()  # lays it out, once for both
        figure.set_layout_engine("none")
        figure.savefig(svg, format="svg", metadata=_NONE)
        figure.savefig(png, format="png", dpi=DPI, metadata={"Software": None})
    root = _themed(svg.getvalue(), picture)
    inline = ElementTree.tostring(root, "unicode")
    style = ElementTree.Element(f"{{{SVG}}}style")
    style.text = ALONE
    root.insert(0, style)
    alone = ElementTree.tostring(root, "unicode") + "\n"
    return Rendered(picture, inline, alone, png.getvalue())


_NONE = dict.fromkeys(("Creator", "Date", "Format", "Type"))


def _themed(text: str, picture: Picture) -> ElementTree.Element:
    """The SVG with the colours of the theme, and what it shows said in words."""
    ElementTree.register_namespace("", SVG)
    ElementTree.register_namespace("xlink", XLINK)
    root = ElementTree.fromstring(text)
    for parent in root.iter():
        for child in list(parent):
            if _name(child) in ("metadata", "style"):
                parent.remove(child)
    for element in root.iter():
        for key, value in list(element.attrib.items()):
            element.set(key, _attribute(key, value, picture.name))
    for key in ("width", "height"):
        root.attrib.pop(key, None)
    root.set("role", "img")
    root.set("aria-label", picture.alt)
    root.set("style", "stroke-linejoin: round; stroke-linecap: butt")
    return root


def _attribute(key: str, value: str, name: str) -> str:
    """The value of an attribute of an element: identifiers get the name of the picture, because a
    page has several."""
    if key == "id":
        return f"{name}-{value}"
    if key == f"{{{XLINK}}}href":
        return f"#{name}-{value.removeprefix('#')}"
    value = REFERENCE.sub(rf"url(#{name}-\1)", value)
    for colour, theme in THEME.items():
        value = value.replace(colour, theme)
    return FONT.sub(rf"\1{FAMILY}", value)


def _name(element: ElementTree.Element) -> str:
    return element.tag.rpartition("}")[2]
