"""A chart as lines of text, for output without the dashboard. Imports no Textual."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from msgspec import structs

from tui.charts.plot_frame import PlotOptions, make_frame
from tui.charts.raster import Cells, Curve
from tui.kit.inks import DARK


def plot_as_text(
    curves: Sequence[Curve], options: PlotOptions, width: int, height: int, colour: bool = False
) -> list[str]:
    """Return the lines of a chart, or none if there is nothing to see.

    The label of each curve stands where it ends, so that curves can be told apart without colours.
    """
    options = structs.replace(options, named=True, dashed=not colour)
    frame = make_frame(curves, options, width, height)
    if frame is None:
        return []
    picture = frame.picture
    lines = []
    for row, label in enumerate(frame.row_labels):
        cells = picture.characters(row)
        text = _coloured(cells, picture.curve[row]) if colour else "".join(cells)
        for name, ink in frame.row_ends[row]:
            text += _in_ink(name, ink) if colour and ink >= 0 else name
        lines.append(label + text)
    lines.append(frame.bottom_labels)
    return [line.rstrip() for line in lines if line]


def _coloured(cells: Sequence[str], colours: Cells) -> str:
    """Return the cells of a row, each run of one colour with its escape sequence."""
    changes = (np.flatnonzero(np.diff(colours)) + 1).tolist()
    parts = []
    for start, end in pairwise([0, *changes, len(colours)]):
        text = "".join(cells[start:end])
        colour = int(colours[start])
        parts.append(text if colour < 0 else _in_ink(text, colour))
    return "".join(parts)


def _in_ink(text: str, ink: int) -> str:
    red, green, blue = bytes.fromhex(DARK.by_number(ink).removeprefix("#"))
    return f"\x1b[38;2;{red};{green};{blue}m{text}\x1b[0m"
