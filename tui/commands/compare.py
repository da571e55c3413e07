"""`rankboard compare`: recorded runs beside each other."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from tui.exit import UsageError, refusing
from tui.flags.common import RUNS, RunsDir
from tui.flags.recorded import folder_of
from tui.narrate import narrate

if TYPE_CHECKING:
    from remote.figures.compare import Compared
    from remote.figures.run import RunFigures

MOST = 26
"""Runs that are compared at most: one per letter."""
WIDTH, HEIGHT = 100, 12
"""Cells of a chart at most."""


def compare(
    runs: Annotated[
        list[str],
        typer.Argument(
            metavar="RUN",
            help="the names of the runs, their beginnings, or last for the newest run; all are "
            "compared with the first",
        ),
    ],
    json: Annotated[bool, typer.Option("--json", help="print one JSON object")] = False,
    markdown: Annotated[bool, typer.Option("--markdown", help="print Markdown")] = False,
    runs_dir: RunsDir = RUNS,
) -> None:
    """Compare recorded runs: settings, final figures, time per step, and loss curves.

    The first run is the reference. The others are faster or slower, or no difference is shown.

    Examples:
      rankboard compare 20261123-0931 last
      rankboard compare last 20261123-0931 20261123-0947 --markdown > comparison.md

    Exit codes:
      0  the runs were compared
      2  the command line is wrong, or a run cannot be read
    """
    with refusing():
        if json and markdown:
            raise UsageError("--json and --markdown exclude each other: give one of them")
        figures = _read(runs, runs_dir)
        from remote.figures.compare import compare as compared

        _show(compared(figures), json, markdown)


def _read(runs: Sequence[str], runs_dir: RunsDir) -> list[RunFigures]:
    """Read the runs. Raises: UsageError, PlanError, RunFolderError."""
    if not 2 <= len(runs) <= MOST:
        raise UsageError(f"compare needs 2 to {MOST} runs: {len(runs)} given")
    folders = [folder_of(run, runs_dir) for run in runs]
    for index, folder in enumerate(folders):
        if folder in folders[:index]:
            raise UsageError(f"{folder.name} is named twice")
    from remote.figures.run import read  # which needs numpy, as few commands do

    return [read(folder, narrate) for folder in folders]


def _show(compared: Sequence[Compared], json: bool, markdown: bool) -> None:
    from tui.text import compare as text

    if json:
        from training.wire.jsonl import dumps

        typer.echo(dumps(text.objects(compared)))
    elif markdown:
        typer.echo(text.markdown(compared, _charts(compared, 80, colour=False)), nl=False)
    else:
        width = min(WIDTH, shutil.get_terminal_size().columns)
        colour = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
        text.print_plain(compared, _charts(compared, width, colour=colour))


def _charts(compared: Sequence[Compared], width: int, *, colour: bool) -> dict[str, list[str]]:
    """Draw the loss of all runs against steps and against time, by the titles of the charts."""
    from tui.text.compare import LETTERS
    from tui.widgets.frame import Look
    from tui.widgets.plot import plot
    from tui.widgets.raster import Curve

    charts = {}
    for title, clock in (("training loss by step", False), ("training loss by time", True)):
        curves = []
        for place, one in enumerate(compared):
            steps, losses = one.run.steps.mean_over_ranks("loss")
            times = one.run.steps.mean_over_ranks("time")[1]
            along = times if clock else steps.astype(float)
            curves.append(Curve(LETTERS[place], place, along, losses, losses, losses))
        look = Look("time" if clock else "step", clock=clock)
        if lines := plot(curves, look, width, HEIGHT, colour):
            charts[title] = lines
    return charts
