"""What widgets that are drawn line by line share: cached lines and a cached style."""

from __future__ import annotations

from functools import cache
from typing import Any, Self

from rich.segment import Segment
from rich.style import Style
from rich.terminal_theme import DEFAULT_TERMINAL_THEME
from textual.color import Color
from textual.filter import LineFilter
from textual.geometry import Region, Spacing
from textual.renderables.text_opacity import TextOpacity
from textual.strip import Strip
from textual.widget import Widget


class FadingFilter(LineFilter):
    """Lets the inks of a line fade into what is behind them, as `opacity` does in other widgets."""

    def __init__(self, opacity: float) -> None:
        super().__init__()
        self._opacity = opacity

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        """Return the line as it is shown."""
        return list(TextOpacity.process_segments(segments, self._opacity, DEFAULT_TERMINAL_THEME))


@cache
def _fading_filter(opacity: float) -> FadingFilter:
    # One and the same, as a line keeps what a filter has made of it.
    return FadingFilter(opacity)


class SteadyWidget(Widget):
    """A widget whose lines are kept until it is refreshed, such as a frame around other widgets.

    Once a part of the screen is drawn anew, Textual asks all widgets in view for all their lines.
    As a mixin, it comes after other bases, since Textual takes styles from the first one.
    """

    _kept_lines: tuple[Region, list[Strip]] | None = None

    def render_lines(self, crop: Region) -> list[Strip]:
        """Draw the lines of a part of the widget, unless they are kept."""
        if self._kept_lines is None or self._kept_lines[0] != crop:
            self._kept_lines = crop, super().render_lines(crop)
        return self._kept_lines[1]

    def refresh(
        self,
        *regions: Region,
        repaint: bool = True,
        layout: bool = False,
        recompose: bool = False,
    ) -> Self:
        """Draw the widget anew, or parts of it."""
        self._kept_lines = None
        return super().refresh(*regions, repaint=repaint, layout=layout, recompose=recompose)

    def notify_style_update(self) -> None:
        super().notify_style_update()
        self._kept_lines = None


class LineWidget(Widget):
    """A widget that is drawn line by line.

    As a mixin, it comes after other bases, since Textual takes styles from the first one.
    """

    def __init__(self, *children: Widget, **settings: Any) -> None:
        super().__init__(*children, **settings)
        self._strips: dict[int, Strip] = {}
        """Drawn lines, kept until styles change."""
        self._cached_style: Style | None = None
        self._cached_background: Color | None = None
        self._has_border: bool | None = None
        self._finish_inputs: tuple[object, ...] = ()
        self._finished: dict[int, tuple[Strip, Strip]] = {}
        """Lines as they were drawn, and as they are shown."""

    def render_lines(self, crop: Region) -> list[Strip]:
        """Draw the lines of a part of the widget.

        Textual's own method asks for the styles of a border each time, and keeps each line once
        more. Without a border, a line is just what `render_line` returns.
        """
        # Asked once: the styles change seldom, see `notify_style_update`.
        if self._has_border is None:
            self._has_border = self.styles.gutter != Spacing()
        if self._has_border:
            return super().render_lines(crop)
        line_width = self.size.width
        if self._cached_background is None:
            self._cached_background = self.background_colors[1]
        background = self._cached_background
        line_filters = [*self.get_line_filters()]
        if self.opacity < 1:
            line_filters.append(_fading_filter(self.opacity))
        style = self.rich_style
        inputs = (line_width, background, style, *line_filters)
        if inputs != self._finish_inputs:
            self._finish_inputs = inputs
            self._finished.clear()
        is_whole = crop.column_span == (0, line_width)
        strips = []
        for y in crop.line_range:
            line = self.render_line(y)
            drawn_line, strip = self._finished.get(y, (None, line))
            if drawn_line is not line:
                strip = line.adjust_cell_length(line_width, style)
                for line_filter in line_filters:
                    strip = strip.apply_filter(line_filter, background)
                self._finished[y] = (line, strip)
            strips.append(strip if is_whole else strip.crop(*crop.column_span))
        return strips

    @property
    def rich_style(self) -> Style:
        """The widget's style.

        Textual's own property asks all ancestors at each call, which is most of what a line takes.
        """
        if self._cached_style is None:
            self._cached_style = super().rich_style
        return self._cached_style

    def notify_style_update(self) -> None:
        super().notify_style_update()
        self._strips.clear()
        self._finished.clear()
        self._cached_style = None
        self._cached_background = None
        self._has_border = None
