"""Matrices of numbers as shaded cells: the confusion matrix, and who waited for whom."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from tui.report.picture_style import INK, SERIES, WIDTH, shorten_label

STRONGEST = 0.55
"""The shade of the greatest cell: text in it stays readable in light and dark."""
MOST_WITH_NUMBERS = 14
"""Columns up to which numbers stand in the cells."""
LONGEST_NAME = 12


def draw_matrix(
    matrix: Sequence[Sequence[float]],
    names: Sequence[str],
    titles: tuple[str, str],
    format_value: Callable[[float], str],
    *,
    shades_rows_apart: bool = False,
) -> Figure:
    """Draw a square matrix.

    `names` are those of its rows and columns, `titles` those of its x and y axis. `format_value`
    writes a number in few characters. `shades_rows_apart`: the greatest cell of each row is as dark
    as that of the others, whose numbers are of other sizes.
    """
    size = len(matrix)
    height = min(5.2, 1.4 + 0.42 * size)
    figure = Figure(figsize=(WIDTH, height), layout="constrained")
    axes = figure.add_subplot(xlabel=titles[0], ylabel=titles[1])
    maximum = max(map(max, matrix))
    for row, values in enumerate(matrix):
        darkest = (max(values) if shades_rows_apart else maximum) or 1
        for column, value in enumerate(values):
            shade = STRONGEST * max(0.0, value) / darkest
            corner = (column - 0.5, row - 0.5)
            axes.add_patch(Rectangle(corner, 1, 1, color=SERIES[0], alpha=shade, linewidth=0))
            if value and size <= MOST_WITH_NUMBERS:
                cell_text = format_value(value)
                axes.text(column, row, cell_text, ha="center", va="center", fontsize=8.5)
    _name_ticks(axes, [shorten_label(name)[:LONGEST_NAME] for name in names])
    for spine in axes.spines.values():
        spine.set(visible=True, color=INK, linewidth=0.6)
    return figure


def _name_ticks(axes: Axes, names: Sequence[str]) -> None:
    num_names = len(names)
    is_long = max(map(len, names), default=0) > 3
    tick_distance = 1 if num_names <= 2 * MOST_WITH_NUMBERS else 10
    ticks = range(0, num_names, tick_distance)
    axes.set_xticks(ticks, names[::tick_distance], rotation=60 if is_long else 0)
    axes.set_yticks(ticks, names[::tick_distance])
    axes.set_xlim(-0.5, num_names - 0.5)
    # From top to bottom, as the rows of a table.
    axes.set_ylim(num_names - 0.5, -0.5)
    axes.grid(visible=False)
