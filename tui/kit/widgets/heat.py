"""Many cells in few lines, on the line API: in blocks, each line with the number of its first
cell."""

from __future__ import annotations

from collections.abc import Sequence

from rich.segment import Segment
from rich.style import Style
from textual.geometry import Region
from textual.strip import Strip

from tui.kit.widgets.lines import Lines
from tui.kit.widgets.table import INKS, Cell, inks

BLOCK = 8
"""Cells between two gaps."""
LABEL = 6
"""Cells of the number of the first one of a line, and of the gap behind it."""


class Heat(Lines):
    """Cells of one character each. They are numbered by what they stand for: the first one is 0,
    the next one `step`."""

    DEFAULT_CSS = f"""
    Heat {{ height: 1; }}
    {inks("Heat")}
    """
    COMPONENT_CLASSES = set(INKS)  # noqa: RUF012

    def __init__(self) -> None:
        super().__init__()
        self._cells: Sequence[Cell] = ()
        self._layout = (BLOCK, 1)

    def fill(self, cells: Sequence[Cell], in_line: int, step: int) -> None:
        """Show these cells, so many in a line; only lines that differ are drawn."""
        before = self._cells
        self._cells = cells
        if self._layout != (in_line, step) or len(before) != len(cells):
            self._layout = in_line, step
            self._strips.clear()
            self.refresh()
            return
        for line, first in enumerate(range(0, len(cells), in_line)):
            if before[first : first + in_line] != cells[first : first + in_line]:
                self._strips.pop(line, None)
                self.refresh(Region(0, line, self.size.width, 1))

    def on_resize(self) -> None:
        self._strips.clear()

    def render_line(self, y: int) -> Strip:
        """Line `y`."""
        if y not in self._strips:
            line = Strip(self._segments(y))
            self._strips[y] = line.crop_extend(0, self.size.width, self.rich_style)
        return self._strips[y]

    def _segments(self, y: int) -> list[Segment]:
        in_line, step = self._layout
        first = y * in_line
        cells = self._cells[first : first + in_line]
        if not cells:
            return []
        label = f"{first * step:>{LABEL - 1}} "
        segments = [Segment(label, self.get_component_rich_style("table--dim"))]
        for number, cell in enumerate(cells):
            gap = " " if number % BLOCK == BLOCK - 1 else ""
            segments.append(Segment(cell.text + gap, self._style(cell.ink)))
        return segments

    def _style(self, ink: str) -> Style:
        return self.get_component_rich_style(ink) if ink else self.rich_style
