"""A chart as lines of text, for output without the dashboard. Imports no Textual."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import typer

from tui import palette
from tui.widgets.dots import characters
from tui.widgets.frame import Look, frame
from tui.widgets.raster import NONE, Cells, Curve

OFTEN = 3
"""How often the name of each curve stands on it."""


def plot(
    curves: Sequence[Curve], look: Look, width: int, height: int, colour: bool = False
) -> list[str]:
    """The lines of a chart; none where there is nothing to see. The label of a curve is one
    character that stands on it, so that curves can be told apart without colours."""
    shown = frame(curves, look, width, height)
    if shown is None:
        return []
    signs = characters()
    cells = [[signs[dots] for dots in row] for row in shown.picture.dots.tolist()]
    for place, curve in enumerate(curves):
        mine = shown.picture.curve == curve.colour
        alone = mine & (shown.picture.count == 1)
        for row, column in _spots(mine, alone, (place + 0.5) / len(curves)):
            cells[row][column] = curve.label
    rows = zip(shown.rows, cells, shown.picture.curve, strict=True)
    lines = [label + _row(row, ink, colour) for label, row, ink in rows]
    return [line.rstrip() for line in (*lines, shown.beneath) if line]


def _spots(mine: Cells, alone: Cells, share: float) -> list[tuple[int, int]]:
    """Cells of a curve for its name: spread over the width, at this share of each part, and so
    elsewhere than those of others. Where curves meet, a name would stand on all of them: it keeps
    to cells that are the curve's `alone`, if the part has any."""
    part = mine.shape[1] / OFTEN
    spots = set()
    for column in (np.arange(OFTEN) + share) * part:
        begin = int(column // part * part)
        of_part = slice(begin, max(begin + 1, int(begin + part)))
        there = alone if alone[:, of_part].any() else mine
        columns = np.flatnonzero(there.any(axis=0))
        if columns.size:
            nearest = int(columns[np.abs(columns - column).argmin()])
            spots.add((int(there[:, nearest].argmax()), nearest))
    return sorted(spots, key=lambda spot: spot[1])


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
    return typer.style(text, fg=(red, green, blue))
