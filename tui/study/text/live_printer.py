"""A study as a live table on a terminal."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from rich.console import ConsoleDimensions, Group
from rich.table import Table
from rich.text import Text as Line

from remote.format import count, duration
from remote.run.run_state import RunState
from remote.sanitise import one_line
from remote.study import estimate
from remote.study.folder import RunEnded, TrialOutcome
from remote.study.progress import CellState
from remote.study.runner import StudyRun, StudyRunner
from tui.kit.live_table import LiveTable, bare_table
from tui.kit.session_clock import SessionClock
from tui.run.progress_lines import progress_text
from tui.study.text.line_printer import finish
from tui.study.text.run_texts import describe_end, describe_run

if TYPE_CHECKING:  # numpy takes a while to import
    from remote.study.results import StudyResult

STYLES = {
    CellState.RUNNING: "green",
    CellState.FINISHED: "",
    CellState.WAITING: "dim",
    CellState.FAILED: "bold red",
    CellState.UNSTABLE: "yellow",
}
BESIDE = 6
"""Lines of the live picture beside the rows of the table."""


class StudyLivePrinter:
    """The table of cells, and the run under way; lines scroll above them."""

    def __init__(self, runner: StudyRunner, table: LiveTable) -> None:
        self._runner = runner
        self._table = table
        self._changes = -1
        self._clock = SessionClock()
        self._causes: dict[str, str] = {}

    def begin(self, run: StudyRun) -> None:
        """See `StudyPrinter`."""
        self._table.renew()
        self._clock = SessionClock()
        if run.is_left:
            self.tell(describe_run(self._runner, run))

    def batch(self, run: StudyRun) -> None:
        """See `StudyPrinter`."""
        self._table.draw(partial(self._draw_picture, run))

    def _draw_picture(self, run: StudyRun, size: ConsoleDimensions) -> Group:
        if self._changes != self._runner.changes:
            from remote.study.results import compute_results

            self._changes = self._runner.changes
            self._result = compute_results(self._runner.progress)
        state = run.session.state
        progress = self._runner.progress
        now = self._clock.now(state)
        run_seconds = now - state.started if state.started else 0.0
        remaining_text = duration(estimate.remaining_seconds(progress, run_seconds))
        status_lines = (
            describe_run(self._runner, run),
            doing(state, now),
            f"study: {count(progress.num_settled, 'run')} ended, ETA {remaining_text}",
        )
        table = picture(self._result, size.width, max(1, size.height - BESIDE))
        return Group(table, "", *(_cropped(one_line(line)) for line in status_lines))

    def ended(self, end: RunEnded) -> None:
        """See `StudyPrinter`."""
        if end.outcome is not TrialOutcome.COUNTED:
            self.tell(describe_end(end, self._causes))

    def tell(self, text: str) -> None:
        """See `StudyPrinter`."""
        self._table.tell([one_line(text)])

    def end(self) -> None:
        """See `StudyPrinter`."""
        self._table.stop()
        finish(self._runner)


def picture(result: StudyResult, width: int, height: int) -> Table:
    """Draw as many cells as fit, with the one that runs among them."""
    from tui.study.cell_table import make_cell_table

    cell_table = make_cell_table(result, width)
    # Without a run under way the first rows are shown.
    running_row = next(
        (row for row, row_state in enumerate(cell_table.states) if row_state is CellState.RUNNING),
        0,
    )
    first_row = max(0, min(running_row - height // 2, len(cell_table.rows) - height))
    rich_table = bare_table(cell_table.head, left=cell_table.head)
    for row, state in list(zip(cell_table.rows, cell_table.states, strict=True))[
        first_row : first_row + height
    ]:
        rich_table.add_row(*(Line(text, style=STYLES[state]) for text in row))
    return rich_table


def doing(state: RunState, now: float) -> str:
    """Return how far a run is: "training, step 12/40, 512 ms/step, ETA 14 s"."""
    return f"{state.doing}, {progress_text(state, now)}" if state.step else state.doing


def _cropped(text: str) -> Line:
    return Line(text, no_wrap=True, overflow="ellipsis")
