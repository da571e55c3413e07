"""A study as a live table on a terminal."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from rich.console import Group
from rich.live import Live
from rich.table import Table
from rich.text import Text as Line

from remote.format import UNKNOWN, between, count, duration, seconds
from remote.run.run_state import RunState
from remote.sanitise import one_line
from remote.study import estimate
from remote.study.folder import RunEnded, TrialOutcome
from remote.study.progress import CellState
from remote.study.runner import StudyRun, StudyRunner
from tui.kit.session_clock import SessionClock
from tui.study.text.line_printer import finish
from tui.study.text.run_texts import describe_end, describe_run

if TYPE_CHECKING:  # numpy takes a while to import
    from remote.study.results import StudyResult

EVERY = 0.5
"""Seconds between two drawings of the table."""
STYLES = {
    CellState.RUNNING: "green",
    CellState.DONE: "",
    CellState.WAITING: "dim",
    CellState.FAILED: "bold red",
    CellState.UNSTABLE: "yellow",
}
BESIDE = 6
"""Lines of the live picture beside the rows of the table."""


class LivePrinter:
    """The table of cells, and the run under way; lines scroll above them."""

    def __init__(self, runner: StudyRunner, live: Live) -> None:
        self._runner = runner
        self._live = live
        self._drawn = 0.0
        self._changes = -1
        self._clock = SessionClock()
        self._causes: dict[str, str] = {}

    def begin(self, run: StudyRun) -> None:
        """See `StudyPrinter`."""
        self._drawn = 0.0
        self._clock = SessionClock()
        if run.is_left:
            self.tell(describe_run(self._runner, run))

    def batch(self, run: StudyRun) -> None:
        """See `StudyPrinter`."""
        if time.monotonic() - self._drawn < EVERY:
            return
        self._drawn = time.monotonic()
        if self._changes != self._runner.changes:
            from remote.study.results import compute_results

            self._changes = self._runner.changes
            self._result = compute_results(self._runner.progress)
        self._live.update(self._picture(run), refresh=True)

    def _picture(self, run: StudyRun) -> Group:
        size = self._live.console.size
        state = run.session.state
        progress = self._runner.progress
        now = self._clock.now(state)
        took = now - state.started if state.started else 0.0
        left = duration(estimate.remaining_seconds(progress, took))
        lines = (
            describe_run(self._runner, run),
            doing(state),
            f"study: {count(progress.num_settled, 'run')} ended, ETA {left}",
        )
        table = picture(self._result, size.width, max(1, size.height - BESIDE))
        return Group(table, "", *(_cropped(one_line(line)) for line in lines))

    def ended(self, end: RunEnded) -> None:
        """See `StudyPrinter`."""
        if end.outcome is not TrialOutcome.COUNTED:
            self.tell(describe_end(end, self._causes))

    def tell(self, text: str) -> None:
        """See `StudyPrinter`."""
        self._live.console.print(Line(f"rankboard: {one_line(text)}", style="dim"), soft_wrap=True)

    def end(self) -> None:
        """See `StudyPrinter`."""
        self._live.stop()
        finish(self._runner)


def picture(result: StudyResult, width: int, height: int) -> Table:
    """Draw as many cells as fit, with the one that runs among them."""
    from tui.study.cell_table import make_cell_table

    shown = make_cell_table(result, width)
    running = next((row for row, one in enumerate(shown.states) if one is CellState.RUNNING), 0)
    first = max(0, min(running - height // 2, len(shown.rows) - height))
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
    for name in shown.head:
        table.add_column(name, no_wrap=True, overflow="ellipsis")
    for row, state in list(zip(shown.rows, shown.states, strict=True))[first : first + height]:
        table.add_row(*(Line(text, style=STYLES[state]) for text in row))
    return table


def doing(state: RunState) -> str:
    """How far a run is: "training, step 12/40, 0.512 s/iter, ETA 14 s"."""
    parts = [state.doing]
    if state.step:
        pace = seconds(state.step_seconds)
        left = between(*state.eta_between(state.now))
        parts += [
            f"step {state.step}/{state.progress.steps or UNKNOWN}",
            f"{pace} s/iter" if pace != UNKNOWN else "",
            f"ETA {left}" if left != UNKNOWN else "",
        ]
    return ", ".join(filter(None, parts))


def _cropped(text: str) -> Line:
    return Line(text, no_wrap=True, overflow="ellipsis")
