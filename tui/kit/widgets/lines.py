"""What the widgets on the line API share: the strips they have made, and their own style, both kept
until styles change."""

from __future__ import annotations

from typing import Any

from rich.style import Style
from textual.geometry import Region, Spacing
from textual.strip import Strip
from textual.widget import Widget


class Lines(Widget):
    """A widget drawn line by line. A mixin; other bases come first, since Textual takes styles from
    the first one."""

    def __init__(self, *children: Widget, **settings: Any) -> None:
        super().__init__(*children, **settings)
        self._strips: dict[int, Strip] = {}
        self._rich_style: Style | None = None
        self._is_bare: bool | None = None

    def render_lines(self, crop: Region) -> list[Strip]:
        """The rows of a part of it. Without a border or the like a row is what `render_line`
        returns: Textual's own asks for the styles of a border each time, and keeps each row once
        more."""
        if self._is_bare is None:
            self._is_bare = self.styles.gutter == Spacing()
        if not self._is_bare:
            return super().render_lines(crop)
        width = self.size.width
        ground = self.background_colors[1]
        filters = self.get_line_filters()
        found = []
        for y in crop.line_range:
            strip = self.render_line(y).adjust_cell_length(width, self.rich_style)
            for one in filters:
                strip = strip.apply_filter(one, ground)
            found.append(strip.crop(*crop.column_span))
        return found

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
        self._rich_style = self._is_bare = None
