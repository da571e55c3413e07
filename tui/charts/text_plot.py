"""A chart as lines of text, for output without the dashboard. Imports no Textual."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np

from tui.charts.dots import characters
from tui.charts.plot_frame import PlotOptions, frame
from tui.charts.raster import NONE, Cells, Curve
from tui.kit import palette


def plot(
    curves: Sequence[Curve], look: PlotOptions, width: int, height: int, colour: bool = False
) -> list[str]:
    """The lines of a chart; none where there is nothing to see. The label of a curve is one
    character that stands on it, so that curves can be told apart without colours."""
    shown = frame(curves, replace(look, named=True), width, height)
    if shown is None:
        return []
    signs = characters()
    cells = [[signs[dots] for dots in row] for row in shown.picture.dots.tolist()]
    for row, column in np.argwhere(shown.picture.sign).tolist():
        cells[row][column] = chr(shown.picture.sign[row, column])
    rows = zip(shown.rows, cells, shown.picture.curve, strict=True)
    lines = [label + _row(row, ink, colour) for label, row, ink in rows]
    return [line.rstrip() for line in (*lines, shown.beneath) if line]


def _row(cells: Sequence[str], ink: Cells, colour: bool) -> str:
    """The cells of a row, those of one curve in its colour."""
    if not colour:
        return "".join(cells)
    changes = (np.flatnonzero(np.diff(ink)) + 1).tolist()
    parts = (
        (cells[start:end], int(ink[start])) for start, end in pairwise([0, *changes, len(ink)])
    )
    return "".join(_inked("".join(part), number) for part, number in parts)


def _inked(text: str, number: int) -> str:
    if number == NONE:
        return text
    shade = palette.colour(number, dark=True).removeprefix("#")
    red, green, blue = bytes.fromhex(shade)
    return f"\x1b[38;2;{red};{green};{blue}m{text}\x1b[0m"
