"""A line chart of several curves in braille dots, drawn line by line.

A frame takes milliseconds, where plotting libraries take hundreds. It is made once per change,
and only the rows that differ are drawn again. The chart draws `Curve`s and knows nothing of runs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import ClassVar

import numpy as np
from msgspec import structs
from numpy.typing import NDArray
from rich.color import Color as RichColor
from rich.segment import Segment
from rich.style import Style
from textual.color import Color
from textual.geometry import Region, Size
from textual.strip import Strip

from tui.charts.axis import Axis
from tui.charts.plot_frame import PlotFrame, PlotOptions, make_frame
from tui.charts.raster import (
    ALARM_COLOUR,
    FAINT,
    MARK_COLOUR,
    NO_COLOUR,
    Curve,
    DotPicture,
)
from tui.charts.x_labels import Mark
from tui.kit import palette
from tui.kit.themes import inks_of
from tui.kit.widgets.lines import LineWidget

TINTED = 10_000
"""Added to the colour of a band that fills half of a cell, and is drawn as a sign."""


class Chart(LineWidget, can_focus=True):
    """Curves over a common x axis, with ticks."""

    DEFAULT_CSS = """
    Chart { height: 1fr; min-height: 1; }
    Chart > .chart--axis { color: $text-muted; }
    """
    COMPONENT_CLASSES: ClassVar[set[str]] = {"chart--axis"}

    def __init__(self, options: PlotOptions, empty_text: str = "no data yet") -> None:
        super().__init__()
        self.options = options
        self.empty_text = empty_text
        """What stands in it while there are no curves."""
        self._curves: Sequence[Curve] = ()
        self._marks: Sequence[Mark] = ()
        self._frame: PlotFrame | None = None
        self._frame_size = Size()
        self._cell_styles: dict[tuple[int, int], Style] = {}

    def draw(
        self,
        curves: Sequence[Curve],
        marks: Sequence[Mark] = (),
        options: PlotOptions | None = None,
    ) -> None:
        """Draw these curves and marks from now on.

        The drawing itself happens a moment later, outside of any lock that the caller holds.
        """
        self._curves = curves
        self._marks = marks
        self.options = options or self.options
        self.call_next(self._redraw)

    def x_at(self, column: int) -> float | None:
        """Return the x at a column of the widget, or None if nothing is drawn."""
        return self._frame.x_at(column) if self._frame else None

    @property
    def x_axis(self) -> Axis | None:
        """The x axis in view, or None if nothing is drawn."""
        return self._frame.x_axis if self._frame else None

    def notify_style_update(self) -> None:
        super().notify_style_update()
        # They are made of the colours of the theme, which may be another one now.
        self._cell_styles.clear()

    def on_resize(self) -> None:
        if self._frame_size != self.content_size:
            self._redraw()

    def _redraw(self) -> None:
        previous = self._frame
        self._make_frame()
        if self._frame is None or previous is None:
            self._strips.clear()
            self.refresh()
            return
        for row, (first, end) in self._frame.changed_rows(previous).items():
            self._strips.pop(row, None)
            self.refresh(Region(first, row, end - first, 1))

    def _make_frame(self) -> None:
        self._frame_size = self.content_size
        width, height = self._frame_size
        options = structs.replace(self.options, dashed=self.app.no_color)
        self._frame = make_frame(self._curves, options, width, height, self._marks)

    def render_line(self, y: int) -> Strip:
        """Draw row `y` of the chart."""
        # A widget is painted in its new size before it is told of it.
        if self._frame_size != self.content_size:
            self._make_frame()
            self._strips.clear()
        width = self._frame_size.width
        strip = self._strips.get(y)
        if strip is None or strip.cell_length != width:
            strip = Strip(self._row_segments(y))
            strip = strip.adjust_cell_length(width, self.rich_style).crop(0, width)
            self._strips[y] = strip
        return strip

    def _row_segments(self, y: int) -> list[Segment]:
        label_style = self.get_component_rich_style("chart--axis")
        width, height = self._frame_size
        frame = self._frame
        if frame is None:
            text = self.empty_text.center(width)[:width] if y == height // 2 else " " * width
            return [Segment(text, label_style)]
        row_count = len(frame.row_labels)
        if y < row_count:
            label = Segment(frame.row_labels[y], label_style)
            ends = [
                Segment(text, label_style if ink < 0 else self._ink_style(ink))
                for text, ink in frame.row_ends[y]
            ]
            return [label, *self._cell_segments(frame.picture, y), *ends]
        bottom_rows = [row for row in (frame.mark_labels, frame.bottom_labels) if row]
        below = y - row_count
        return [Segment(bottom_rows[below] if below < len(bottom_rows) else "", label_style)]

    def _ink_style(self, ink: int) -> Style:
        return self.rich_style + Style(color=self._palette_colour(ink).rich_color)

    def _cell_segments(self, picture: DotPicture, y: int) -> Iterator[Segment]:
        """Yield the cells of a row, each run of one style as a segment."""
        curve = picture.curve[y]
        upper, lower = picture.band[2 * y], picture.band[2 * y + 1]
        band = np.where(upper == lower, upper, NO_COLOUR)
        cells = picture.characters(y)
        is_free = (picture.dots[y] == 0) & (picture.sign[y] == 0)
        has_upper, has_lower = is_free & (upper != NO_COLOUR), is_free & (lower != NO_COLOUR)
        if self.app.no_color or not palette.has_utf8():  # a tint would not be seen
            _put_sign(cells, has_upper | has_lower, "band")
        else:
            for has_half, other, half, name in (
                (has_upper, has_lower, upper, "upper"),
                (has_lower, has_upper, lower, "lower"),
            ):
                is_half = has_half & ~other
                _put_sign(cells, is_half, name)
                curve = np.where(is_half, TINTED + half, curve)
        text = "".join(cells)
        is_change = (np.diff(curve) != 0) | (np.diff(band) != 0)
        changes = np.flatnonzero(is_change) + 1
        for start, end in pairwise([0, *changes.tolist(), len(text)]):
            style = self._cell_style(int(curve[start]), int(band[start]))
            yield Segment(text[start:end], self.rich_style + style)

    def _cell_style(self, curve: int, band: int) -> Style:
        """Return the curve's colour on a ground that is tinted with the band's colour."""
        style = self._cell_styles.get((curve, band))
        if style is None:
            ground = None if band == NO_COLOUR else self._tinted(band)
            style = Style(color=self._text_colour(curve), bgcolor=ground)
            self._cell_styles[(curve, band)] = style
        return style

    def _text_colour(self, curve: int) -> RichColor | None:
        if curve == NO_COLOUR:
            return None
        if curve == MARK_COLOUR:
            return self.get_component_rich_style("chart--axis").color
        if curve == ALARM_COLOUR:
            return Color.parse(inks_of(self.app.current_theme).warn).rich_color
        if curve >= TINTED:
            return self._tinted(curve - TINTED)
        if curve < FAINT:
            return self._palette_colour(curve).rich_color
        # More than the tint of the band, on which a faint curve lies.
        faint = self._ground.blend(self._palette_colour(curve - FAINT), 0.3 + self._tint)
        return faint.rich_color

    def _tinted(self, band: int) -> RichColor:
        return self._ground.blend(self._palette_colour(band), self._tint).rich_color

    @property
    def _ground(self) -> Color:
        # The first of the pair is the ground that lies below the widget.
        return self.background_colors[1]

    @property
    def _tint(self) -> float:
        """How much of its colour a band has, from 0 to 1."""
        return float(self.app.current_theme.variables.get("band-tint", 0.16))

    def _palette_colour(self, number: int) -> Color:
        return Color.parse(inks_of(self.app.current_theme).by_number(number))


def _put_sign(cells: list[str], where: NDArray[np.bool_], name: str) -> None:
    """Put the same sign into some cells of a row."""
    for column in np.flatnonzero(where).tolist():
        cells[column] = palette.sign(name)
