"""The looks of pictures. Colours are those of Okabe and Ito, which people with any kind of colour
blindness tell apart; lines also differ in their markers and dashes, bars in their hatches."""

from __future__ import annotations

import math
import re
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from remote.sanitise import one_line

INK = "#1b1e23"
GRID = "#c3c7cd"
# Not quite white: `render` finds these colours by their text, and replaces each of them.
PAPER = "#fffffe"
"""Text and lines; grid; background. `render` makes them follow the theme of the page."""
SERIES = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00")
MARKERS = "osD^vPX"
DASHES: tuple[Any, ...] = ("-", (0, (5, 1.5)), (0, (1.5, 1.2)), (0, (6, 1.5, 1.5, 1.5)))
HATCHES = ("", "///", "...", "xx", "\\\\\\")
WIDTH = 5.6
"""Inches: so narrow that the text is readable on a phone."""
LEGEND_LINE = 0.24
"""Inches of a line of names."""
LONGEST = 44
NARROW = 22
"""Characters of a label, and of one line of it beside a chart."""
SHORT_END = re.compile(r" (\S{1,3})$")
RC: Any = {
    "axes.edgecolor": INK,
    "axes.grid": True,
    "axes.labelcolor": INK,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.axisbelow": True,
    "figure.facecolor": PAPER,
    "axes.facecolor": "none",
    "font.family": "DejaVu Sans",
    "font.size": 10.5,
    "grid.color": GRID,
    "grid.linewidth": 0.7,
    "hatch.linewidth": 0.8,
    "legend.frameon": False,
    "lines.linewidth": 1.8,
    "lines.markersize": 6,
    # Text stays text, so that the page decides on its font.
    "svg.fonttype": "none",
    # Without it, identifiers are random, and a picture differs each time it is drawn.
    "svg.hashsalt": "rankboard",
    "text.color": INK,
    # A name may have a dollar sign, which would begin a formula.
    "text.parse_math": False,
    "xtick.color": INK,
    "ytick.color": INK,
}


@dataclass(frozen=True)
class SeriesStyle:
    """The look of one series of a chart."""

    colour: str
    marker: str
    dashes: Any

    @classmethod
    def of(cls, index: int) -> SeriesStyle:
        """Return the style of a series by its index.

        Colour, marker and dashes repeat after different numbers, so that few series look alike.
        """
        return cls(
            SERIES[index % len(SERIES)],
            MARKERS[index % len(MARKERS)],
            DASHES[index % len(DASHES)],
        )


def empty_chart(
    x_title: str = "", y_title: str = "", height: float = 3.0, series: Sequence[str] = ()
) -> tuple[Figure, Axes]:
    """Return a chart with titles at its axes, with room below it for the names of `series`."""
    if len(series) > 1:
        # The legend would otherwise take its room from the chart.
        height += LEGEND_LINE * math.ceil(len(series) / _count_columns(series))
    figure = Figure(figsize=(WIDTH, height), layout="constrained")
    axes = figure.add_subplot()
    axes.set_xlabel(x_title)
    axes.set_ylabel(y_title)
    # More ticks would run into each other at this width.
    axes.xaxis.set_major_locator(MaxNLocator(6))
    return figure, axes


def _count_columns(series: Sequence[str]) -> int:
    """Return in how many columns the names of series fit."""
    longest_name = max(map(len, series), default=0)
    return 1 if longest_name > NARROW else 2


def add_legend(figure: Figure, axes: Axes) -> None:
    """Name the series below the chart."""
    handles, labels = axes.get_legend_handles_labels()
    if handles:
        num_columns = _count_columns(labels)
        figure.legend(handles, labels, loc="outside lower left", ncols=num_columns, handlelength=3)


def shorten_label(text: str) -> str:
    """Return a name as a picture shows it."""
    text = one_line(text)
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"


def name_rows(axes: Axes, names: Sequence[str]) -> None:
    """Name the rows of a chart from its top; long names take two lines."""
    wrapped_labels = []
    for name in names:
        # A space that does not break keeps "nodes 2" together.
        short_name = SHORT_END.sub("\u00a0\\1", shorten_label(name))
        wrapped_labels.append("\n".join(textwrap.wrap(short_name, NARROW)))
    axes.set_yticks(range(len(names)), wrapped_labels)
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.grid(axis="y", visible=False)


def mark_whole_numbers(axes: Axes) -> None:
    """Mark whole numbers only along the bottom."""
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
