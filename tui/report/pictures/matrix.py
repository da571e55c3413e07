"""Matrices of numbers as shaded cells: the confusion matrix, and who waited for whom."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from tui.report.document import Picture
from tui.report.pictures.style import INK, SERIES, WIDTH, label

STRONGEST = 0.55
"""The shade of the greatest cell: text in it stays readable in light and dark."""
WRITTEN = 14
"""Columns up to which numbers stand in the cells."""


def picture(
    name: str,
    title: str,
    alt: str,
    matrix: Sequence[Sequence[float]],
    names: Sequence[str],
    axes: tuple[str, str],
    written: Callable[[float], str],
) -> Picture:
    """The picture of a square matrix. `axes` are what its columns and its rows are. `written`
    writes a number in few characters."""
    return Picture(name, title, alt, lambda: _draw(matrix, names, axes, written))


def _draw(
    matrix: Sequence[Sequence[float]],
    names: Sequence[str],
    titles: tuple[str, str],
    written: Callable[[float], str],
) -> Figure:
    count = len(matrix)
    figure = Figure(figsize=(WIDTH, min(5.2, 1.4 + 0.42 * count)), layout="constrained")
    axes = figure.add_subplot()
    for place, row in enumerate(matrix):
        most = max(row) or 1
        for column, value in enumerate(row):
            shade = STRONGEST * max(0.0, value) / most
            axes.add_patch(
                Rectangle(
                    (column - 0.5, place - 0.5), 1, 1, color=SERIES[0], alpha=shade, linewidth=0
                )
            )
            if count <= WRITTEN and value:
                axes.text(column, place, written(value), ha="center", va="center", fontsize=8.5)
    _frame(axes, count, names, titles)
    return figure


def _frame(axes: Axes, count: int, names: Sequence[str], titles: tuple[str, str]) -> None:
    shown = [label(name)[:12] for name in names]
    is_long = max(map(len, shown), default=0) > 3
    ticks = range(count) if count <= 2 * WRITTEN else range(0, count, 10)
    axes.set_xticks(list(ticks), [shown[at] for at in ticks], rotation=60 if is_long else 0)
    axes.set_yticks(list(ticks), [shown[at] for at in ticks])
    axes.set_xlim(-0.5, count - 0.5)
    axes.set_ylim(count - 0.5, -0.5)
    axes.set_xlabel(titles[0])
    axes.set_ylabel(titles[1])
    axes.grid(visible=False)
    for spine in axes.spines.values():
        spine.set(visible=True, color=INK, linewidth=0.6)
