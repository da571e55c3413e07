"""One chart as files: a table of its points, and pictures."""

from __future__ import annotations

import csv
import io
from pathlib import Path

from training.writing import write_whole
from tui.charts.drawing import Drawing
from tui.charts.kinds import ChartKind

FIGURES = ("step", "time", "mean", "low", "high", "lowest", "highest")
"""The columns of a table that are fields of `Points`."""


def save_chart(
    folder: Path, name: str, drawing: Drawing, kind: ChartKind, run: str = ""
) -> list[Path]:
    """Write a chart as NAME.csv and, if matplotlib is installed, as NAME.svg and NAME.png.

    `run` says of which run it is.

    Raises: OSError.
    """
    files = {"csv": to_csv(drawing).encode()}
    try:
        from tui.charts.picture import draw_pictures
    except ImportError:  # it needs the extra `report`
        pass
    else:
        files |= draw_pictures(drawing, kind, run)
    paths = []
    for ending, data in files.items():
        path = folder / f"{name}.{ending}"
        write_whole(path, data)
        paths.append(path)
    return paths


def to_csv(drawing: Drawing) -> str:
    """Return all points of a chart as CSV, whether they are in view or not.

    Times are in seconds since the run began.
    """
    text = io.StringIO()
    # By default, csv ends lines with a carriage return as well.
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(("series", "of", *FIGURES))
    for line in drawing.lines:
        columns = [getattr(line.points, name) for name in FIGURES]
        for row in zip(*columns, strict=True):
            numbers = [f"{value:.10g}" for value in row]
            writer.writerow((line.series, line.name, *numbers))
    return text.getvalue()
