"""What the widgets on the line API share: the strips they have made, and their own style, both kept
until styles change."""

from __future__ import annotations

from typing import Any

from rich.style import Style
from textual.strip import Strip
from textual.widget import Widget


class Lines(Widget):
    """A widget drawn line by line. A mixin; other bases come first, since Textual takes styles from
    the first one."""

    def __init__(self, *children: Widget, **settings: Any) -> None:
        super().__init__(*children, **settings)
        self._strips: dict[int, Strip] = {}
        self._rich_style: Style | None = None

    @property
    def rich_style(self) -> Style:
        """The widget's style. Textual's own asks all ancestors at each call, which is most of what
        a line takes."""
        if self._rich_style is None:
            self._rich_style = super().rich_style
        return self._rich_style

    def notify_style_update(self) -> None:
        super().notify_style_update()
        self._strips.clear()
        self._rich_style = None
