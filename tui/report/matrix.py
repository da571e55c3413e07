"""Matrices of numbers as shaded cells: the confusion matrix, and who waited for whom."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from tui.report.picture_style import INK, SERIES, WIDTH, shorten_label

STRONGEST = 0.55
"""The shade of the greatest cell: text in it stays readable in light and dark."""
MOST_WITH_NUMBERS = 14
"""Columns up to which numbers stand in the cells."""
LONGEST_NAME = 12


@dataclass(frozen=True)
class MatrixDrawing:
    """A square matrix that can be drawn."""

    values: Sequence[Sequence[float]]
    names: Sequence[str]
    """Of its rows, which are those of its columns, too."""
    x_title: str
    y_title: str
    format_value: Callable[[float], str]
    """Writes a number in few characters."""

    def draw(self) -> Figure:
        """Draw the matrix."""
        count = len(self.values)
        height = min(5.2, 1.4 + 0.42 * count)
        figure = Figure(figsize=(WIDTH, height), layout="constrained")
        axes = figure.add_subplot()
        for row, values in enumerate(self.values):
            # Each row has its own scale: a class with few images would be pale otherwise.
            most = max(values) or 1
            for column, value in enumerate(values):
                shade = STRONGEST * max(0.0, value) / most
                _shade_cell(axes, column, row, shade)
                if value and count <= MOST_WITH_NUMBERS:
                    text = self.format_value(value)
                    axes.text(column, row, text, ha="center", va="center", fontsize=8.5)
        self._add_frame(axes)
        return figure

    def _add_frame(self, axes: Axes) -> None:
        count = len(self.values)
        names = [shorten_label(name)[:LONGEST_NAME] for name in self.names]
        is_long = max(map(len, names), default=0) > 3
        distance = 1 if count <= 2 * MOST_WITH_NUMBERS else 10
        ticks = list(range(0, count, distance))
        tick_names = [names[tick] for tick in ticks]
        axes.set_xticks(ticks, tick_names, rotation=60 if is_long else 0)
        axes.set_yticks(ticks, tick_names)
        axes.set_xlim(-0.5, count - 0.5)
        axes.set_ylim(count - 0.5, -0.5)
        axes.set_xlabel(self.x_title)
        axes.set_ylabel(self.y_title)
        axes.grid(visible=False)
        for spine in axes.spines.values():
            spine.set(visible=True, color=INK, linewidth=0.6)


def _shade_cell(axes: Axes, column: int, row: int, shade: float) -> None:
    corner = (column - 0.5, row - 0.5)
    axes.add_patch(Rectangle(corner, 1, 1, color=SERIES[0], alpha=shade, linewidth=0))
