"""A line chart of several curves in braille dots, drawn on the line API: milliseconds where
libraries take hundreds.

Draws `Curve`s and knows nothing of runs. A frame is made once per change, and only the rows that
differ are drawn again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np
from rich.color import Color as RichColor
from rich.segment import Segment
from rich.style import Style
from textual.color import Color
from textual.geometry import Region
from textual.reactive import reactive
from textual.strip import Strip

from tui.charts import dots
from tui.charts.annotations import Mark
from tui.charts.axis import Axis
from tui.charts.plot_frame import PlotFrame, PlotOptions, frame
from tui.charts.raster import FAINT, MARK, NONE, Curve, DotPicture
from tui.kit import palette
from tui.kit.widgets.lines import Lines


class Chart(Lines, can_focus=True):
    """Curves over a common x axis, with ticks at the left and beneath, and optionally a logarithmic
    y axis."""

    DEFAULT_CSS = """
    Chart { height: 1fr; min-height: 1; }
    """
    COMPONENT_CLASSES = {"chart--axis"}  # noqa: RUF012

    logarithmic: reactive[bool] = reactive(False, repaint=False)

    def __init__(self, look: PlotOptions, empty: str = "no data yet") -> None:
        super().__init__()
        self._look = look
        self._empty = empty
        self._curves: Sequence[Curve] = ()
        self._marks: Sequence[Mark] = ()
        self._frame: PlotFrame | None = None
        self._styles: dict[tuple[int, int], Style] = {}

    def draw(
        self, curves: Sequence[Curve], marks: Sequence[Mark] = (), look: PlotOptions | None = None
    ) -> None:
        """Draw these curves and marks from now on. The drawing itself is done a moment later, and
        outside of any lock held here."""
        self._curves = curves
        self._marks = marks
        self._look = look or self._look
        self.call_next(self._redraw)

    def x_at(self, column: int) -> float | None:
        """The x at a column of the widget; None where nothing is drawn."""
        return self._frame.x_at(column) if self._frame else None

    @property
    def along(self) -> Axis | None:
        """The x axis in view; None where nothing is drawn."""
        return self._frame.along if self._frame else None

    def watch_logarithmic(self) -> None:
        self._redraw()

    def notify_style_update(self) -> None:
        super().notify_style_update()
        self._styles.clear()

    def on_resize(self) -> None:
        self._redraw()

    def _redraw(self) -> None:
        width, height = self.content_size
        before = self._frame
        self._frame = frame(self._curves, self._look, width, height, self.logarithmic, self._marks)
        if self._frame is None or before is None:
            self._strips.clear()
            self.refresh()
            return
        for row, (first, end) in self._frame.differing(before).items():
            self._strips.pop(row, None)
            self.refresh(Region(first, row, end - first, 1))

    def render_line(self, y: int) -> Strip:
        """Row `y` of the chart."""
        width = self.content_size.width
        strip = self._strips.get(y)
        if strip is None or strip.cell_length != width:
            strip = self._strips[y] = (
                Strip(self._segments(y)).adjust_cell_length(width, self.rich_style).crop(0, width)
            )
        return strip

    def _segments(self, y: int) -> list[Segment]:
        plain = self.rich_style
        faint = self.get_component_rich_style("chart--axis")
        width, height = self.content_size
        if self._frame is None:
            text = self._empty.center(width)[:width] if y == height // 2 else " " * width
            return [Segment(text, faint)]
        if y >= len(self._frame.rows):
            return [Segment(self._frame.beneath if y == len(self._frame.rows) else "", faint)]
        return [Segment(self._frame.rows[y], faint), *self._cells(self._frame.picture, y, plain)]

    def _cells(self, picture: DotPicture, y: int, plain: Style) -> Iterator[Segment]:
        """The cells of a row, those of one style together."""
        characters = dots.characters()
        curve = picture.curve[y]
        band = picture.band[y]
        signs = picture.sign[y]
        cells = [characters[cell] for cell in picture.dots[y].tolist()]
        for signed in np.flatnonzero(signs).tolist():
            cells[signed] = chr(signs[signed])
        if self.app.no_color or not palette.utf8():  # a tint would not be seen
            for tinted in np.flatnonzero((band != NONE) & (curve == NONE)).tolist():
                cells[tinted] = palette.sign("band")
        text = "".join(cells)
        changes = np.flatnonzero((np.diff(curve) != 0) | (np.diff(band) != 0)) + 1
        for start, end in pairwise([0, *changes.tolist(), len(text)]):
            yield Segment(text[start:end], plain + self._style(int(curve[start]), int(band[start])))

    def _style(self, curve: int, band: int) -> Style:
        """The style of a cell: the curve's colour on a ground tinted with the band's."""
        found = self._styles.get((curve, band))
        if found is None:
            ground = self.background_colors[1]
            tint = ground.blend(self._colour(band), self._tint).rich_color if band != NONE else None
            found = self._styles[(curve, band)] = Style(color=self._ink(curve), bgcolor=tint)
        return found

    def _ink(self, curve: int) -> RichColor | None:
        if curve == NONE:
            return None
        if curve == MARK:
            return self.get_component_rich_style("chart--axis").color
        if curve < FAINT:
            return self._colour(curve).rich_color
        faint = self.background_colors[1].blend(self._colour(curve - FAINT), 0.2 + self._tint)
        return faint.rich_color

    @property
    def _tint(self) -> float:
        """How much of its colour a band has."""
        return float(self.app.current_theme.variables.get("band-tint", 0.25))

    def _colour(self, number: int) -> Color:
        return Color.parse(palette.colour(number, self.app.current_theme.dark))
