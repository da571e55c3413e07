"""How pictures look. Colours are those of Okabe and Ito, which people with any kind of colour
blindness tell apart; lines also differ in their markers and dashes, bars in their hatches."""

from __future__ import annotations

import math
import re
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from remote.sanitise import one_line

INK = "#1b1e23"
GRID = "#c3c7cd"
PAPER = "#fffffe"
"""Text and lines; grid; background. `render` makes them follow the theme of the page."""
SERIES = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00")
MARKERS = "osD^vPX"
DASHES: tuple[Any, ...] = ("-", (0, (5, 1.5)), (0, (1.5, 1.2)), (0, (6, 1.5, 1.5, 1.5)))
HATCHES = ("", "///", "...", "xx", "\\\\\\")
WIDTH = 5.6
"""Inches: so narrow that the text is readable on a phone."""
LINE = 0.24
"""Inches of a line of names."""
LONGEST = 44
NARROW = 22
"""Characters of a label, and of one line of it beside a chart."""
TAIL = re.compile(r" (\S{1,3})$")
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
    "svg.fonttype": "none",
    "svg.hashsalt": "rankboard",
    "text.color": INK,
    "text.parse_math": False,
    "xtick.color": INK,
    "ytick.color": INK,
}


@dataclass(frozen=True)
class Look:
    """How the series of a number is drawn."""

    colour: str
    marker: str
    dashes: Any
    hatch: str

    @classmethod
    def of(cls, number: int) -> Look:
        """Colour, marker and dashes repeat after different numbers, so that few look alike."""
        return cls(
            SERIES[number % len(SERIES)],
            MARKERS[number % len(MARKERS)],
            DASHES[number % len(DASHES)],
            HATCHES[number % len(HATCHES)],
        )


def canvas(
    across: str = "", up: str = "", height: float = 3.0, series: Sequence[str] = ()
) -> tuple[Figure, Axes]:
    """An empty chart with the names of its axes. It is higher where it names `series` below."""
    height += LINE * math.ceil(len(series) / columns(series)) if len(series) > 1 else 0.0
    figure = Figure(figsize=(WIDTH, height), layout="constrained")
    axes = figure.add_subplot()
    axes.set_xlabel(across)
    axes.set_ylabel(up)
    axes.xaxis.set_major_locator(MaxNLocator(6))
    return figure, axes


def columns(series: Sequence[str]) -> int:
    """In how many columns the names of series fit."""
    return 1 if max(map(len, series), default=0) > NARROW else 2


def legend(figure: Figure, axes: Axes) -> None:
    """Name the series below the chart."""
    handles, labels = axes.get_legend_handles_labels()
    if handles:
        across = columns(labels)
        figure.legend(handles, labels, loc="outside lower left", ncols=across, handlelength=3)


def label(text: str) -> str:
    """A name as a picture shows it."""
    text = one_line(text)
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"


def names(axes: Axes, found: Sequence[str]) -> None:
    """Name the rows of a chart from its top; long names take two lines."""
    whole = [TAIL.sub("\u00a0\\1", label(one)) for one in found]  # "nodes 2" stays together
    wrapped = ["\n".join(textwrap.wrap(one, NARROW)) for one in whole]
    axes.set_yticks(range(len(found)), wrapped)
    axes.set_ylim(len(found) - 0.5, -0.5)
    axes.grid(axis="y", visible=False)


def whole(axes: Axes) -> None:
    """Mark whole numbers only along the bottom."""
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))


def spaced(count: int, most: int = 12) -> list[int]:
    """Which of so many points have a marker."""
    places = np.linspace(0, max(0, count - 1), min(count, most))
    return list(dict.fromkeys(map(int, places)))
