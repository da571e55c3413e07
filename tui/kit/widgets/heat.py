"""Many cells of one character in few lines, in blocks, each line with the number of its first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from tui.kit.widgets.lines import LineWidget
from tui.kit.widgets.table import CELL_STYLES, TableCell, cell_style_css

CELLS_PER_BLOCK = 8
"""Cells between two gaps."""
LABEL_WIDTH = 6
"""Cells of the number at the beginning of a line, and of the gap behind it."""


class HeatStrip(LineWidget):
    """Cells of one character each, numbered by what they stand for."""

    DEFAULT_CSS = f"""
    HeatStrip {{ height: 1; }}
    {cell_style_css("HeatStrip")}
    """
    COMPONENT_CLASSES: ClassVar[set[str]] = set(CELL_STYLES)

    def __init__(self) -> None:
        super().__init__()
        self._cells: Sequence[TableCell] = ()
        self._cells_per_line = CELLS_PER_BLOCK
        self._numbers_per_cell = 1

    def fill(self, cells: Sequence[TableCell], cells_per_line: int, numbers_per_cell: int) -> None:
        """Show these cells. Each stands for so many numbers, from 0 on."""
        old_contents = (self._cells, self._cells_per_line, self._numbers_per_cell)
        if old_contents == (cells, cells_per_line, numbers_per_cell):
            return
        self._cells = cells
        self._cells_per_line = cells_per_line
        self._numbers_per_cell = numbers_per_cell
        # All lines, as only cells that change are written to the terminal anyway.
        self._strips.clear()
        self.refresh()

    def on_resize(self) -> None:
        self._strips.clear()

    def render_line(self, y: int) -> Strip:
        """Draw line `y`."""
        if y not in self._strips:
            drawn_line = Strip(self._segments(y))
            self._strips[y] = drawn_line.crop_extend(0, self.size.width, self.rich_style)
        return self._strips[y]

    def _segments(self, y: int) -> list[Segment]:
        first_index = y * self._cells_per_line
        line_cells = self._cells[first_index : first_index + self._cells_per_line]
        if not line_cells:
            return []
        number_label = f"{first_index * self._numbers_per_cell:>{LABEL_WIDTH - 1}} "
        segments = [Segment(number_label, self.get_component_rich_style("table--dim"))]
        for index, cell in enumerate(line_cells, 1):
            gap_text = " " if index % CELLS_PER_BLOCK == 0 else ""
            segments.append(Segment(cell.text + gap_text, self._cell_style(cell.style)))
        return segments

    def _cell_style(self, name: str) -> Style:
        return self.get_component_rich_style(name) if name else self.rich_style
