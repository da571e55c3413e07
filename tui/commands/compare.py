"""`rankboard compare`: recorded runs beside each other."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from tui.flags.common import RUNS, Ascii, RunsDir
from tui.flags.recorded import folder_of
from tui.flags.run_completion import complete_runs
from tui.kit.exit import UsageError, refusing
from tui.kit.narrate import echo, narrate

if TYPE_CHECKING:
    from pathlib import Path

    from remote.metrics.compare import ComparedRun

MOST = 26
ON_SCREEN = 8
"""Runs that are compared at most: one per letter; on the screen one per colour."""
WIDTH = 100
HEIGHT = 12
"""Cells of a chart at most."""


def compare(
    runs: Annotated[
        list[str],
        Parameter(
            name="RUN",
            help="the names of the runs, their beginnings, or last for the newest run; all are "
            "compared with the first",
            completer=complete_runs,
        ),
    ],
    /,
    *,
    json: Annotated[bool, Parameter(help="print one JSON object")] = False,
    markdown: Annotated[bool, Parameter(help="print Markdown")] = False,
    dashboard: Annotated[
        bool, Parameter(help="compare them on the screen: by step and by time")
    ] = False,
    ascii_only: Ascii = False,
    runs_dir: RunsDir = RUNS,
) -> None:
    """Compare recorded runs: settings, final figures, time per step, and loss curves.

    The first run is the reference. The others are faster or slower, or no difference is shown.

    Examples:
      rankboard compare 20261123-0931 last
      rankboard compare last 20261123-0931 --dashboard
      rankboard compare last 20261123-0931 20261123-0947 --markdown > comparison.md

    Exit codes:
      0  the runs were compared
      2  the command line is wrong, or a run cannot be read
    """
    with refusing():
        if json + markdown + dashboard > 1:
            raise UsageError("--json, --markdown and --dashboard exclude each other: give one")
        folders = _find_folders(runs, runs_dir, ON_SCREEN if dashboard else MOST)
        if dashboard:
            raise SystemExit(_show_dashboard(folders))
        from remote.metrics.run import read_figures  # which needs numpy, as few commands do

        figures = [read_figures(folder, narrate) for folder in folders]
        from remote.metrics.compare import compare_runs as compared

        _print_comparison(compared(figures), json, markdown)


def _find_folders(runs: Sequence[str], runs_dir: Path, most: int) -> list[Path]:
    """The folders of the runs. Raises: UsageError, PlanError."""
    if not 2 <= len(runs) <= most:
        raise UsageError(f"compare needs 2 to {most} runs: {len(runs)} given")
    folders = [folder_of(run, runs_dir) for run in runs]
    for index, folder in enumerate(folders):
        # `last` and the beginning of a name may mean the same run.
        if folder in folders[:index]:
            raise UsageError(f"{folder.name} is named twice")
    return folders


def _show_dashboard(folders: Sequence[Path]) -> int:
    """Compare the runs on the screen until the user quits. Raises: UsageError."""
    from tui.app.show_run import is_on_terminal

    if not is_on_terminal():
        raise UsageError("--dashboard needs a terminal on stdin, stdout and stderr")
    from tui.app.compare_app import CompareApp

    app = CompareApp(folders)
    app.show()
    return app.exit_code


def _print_comparison(compared: Sequence[ComparedRun], json: bool, markdown: bool) -> None:
    from tui.compare.comparison_text import print_comparison, to_markdown, to_object

    if json:
        from training.wire.jsonl import dumps

        echo(dumps(to_object(compared)))
    elif markdown:
        # Markdown has no colours, and its reader's terminal is not this one.
        echo(to_markdown(compared, _draw_charts(compared, 80, colour=False)), end="")
    else:
        chart_width = min(WIDTH, shutil.get_terminal_size().columns)
        has_colour = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
        print_comparison(compared, _draw_charts(compared, chart_width, colour=has_colour))


def _draw_charts(
    compared: Sequence[ComparedRun], width: int, *, colour: bool
) -> dict[str, list[str]]:
    """Draw the loss of all runs against steps and against time, by the titles of the charts."""
    from tui.charts.overlay import LOSS
    from tui.charts.plot_frame import PlotOptions
    from tui.charts.text_plot import plot_as_text

    charts = {}
    for axis_title in ("step", "time"):
        by_time = axis_title == "time"
        curves = LOSS.curves([compared_run.run for compared_run in compared], clock=by_time)
        options = PlotOptions(axis_title, clock=by_time, log_y=LOSS.is_log(curves))
        chart_lines = plot_as_text(curves, options, width, HEIGHT, colour)
        # Runs without a loss have no chart.
        if chart_lines:
            scale = ", logarithmic" if options.log_y else ""
            charts[f"{LOSS.title} by {axis_title}{scale}"] = chart_lines
    return charts
