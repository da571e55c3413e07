"""The screen of a cell of a study: its runs."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import VerticalScroll
from textual.events import Resize
from textual.screen import Screen
from textual.widgets import Static

from remote.format import UNKNOWN, count, duration
from remote.plan.plan import what as described
from remote.sanitise import plain
from remote.study.conclusion import comparison_text, doubt_text
from remote.study.folder import RunEnded
from remote.study.progress import CellProgress, CellState, StudyProgress
from remote.study.results import compute_results
from remote.study.runner import StudyRunner
from remote.study.study import Trial
from tui.home.history import RecordedStudy
from tui.kit.actions import KeyPlace
from tui.kit.bindings import bindings
from tui.kit.messages import OpenRun, ShowRun
from tui.kit.run_session import LiveScreen
from tui.kit.widgets.choices import ChoiceTable
from tui.kit.widgets.keys import KeyFooter
from tui.kit.widgets.phase import phase_cell
from tui.kit.widgets.table import TableCell, TableColumn, TableRow
from tui.study.cell_table import format_value

RUN_COLUMNS = (
    TableColumn("#", 4),
    TableColumn("run", 20, right=False, most=48),
    TableColumn("state", 13, right=False),
    TableColumn("value", 9),
    TableColumn("took", 8),
    TableColumn(" why", 1, right=False, most=200),
)


class CellScreen(LiveScreen, Screen[None]):
    """The runs of a cell: their values, and why some failed."""

    CSS = """
    CellScreen #title { height: auto; padding: 0 1; background: $panel; }
    CellScreen ChoiceTable { height: 1fr; min-height: 3; padding: 0 1; }
    CellScreen #about {
        height: auto; max-height: 50%; padding: 0 1; scrollbar-size-vertical: 1;
        border-top: solid $primary 40%;
    }
    CellScreen #about Static { height: auto; }
    """
    place = KeyPlace.CELL
    BINDINGS: ClassVar[list[BindingType]] = bindings(place)

    def __init__(self, runner: StudyRunner | RecordedStudy, key: str) -> None:
        super().__init__()
        self._runner = runner
        self._key = key
        self._changes = -1
        self._cursor = -1

    def compose(self) -> ComposeResult:
        yield Static(id="title", markup=False)
        yield ChoiceTable(RUN_COLUMNS)
        with VerticalScroll(id="about"):
            yield Static(markup=False)
        yield KeyFooter()

    def on_mount(self) -> None:
        cell = self._runner.progress.cells[self._key].cell
        place = cell.place
        where = f"{count(place.ranks, 'rank')} on {count(place.nodes, 'host')}"
        what = f"{described(cell.work)}, {where}"
        self.query_one("#title", Static).update(f"{self._key}\n{what}")
        self.query_one(ChoiceTable).focus()
        self.tick()

    def on_resize(self, event: Resize) -> None:
        self.call_after_refresh(self.tick)

    def tick(self) -> None:
        """Draw what has changed."""
        with self._runner.lock:
            is_new = self._changes != self._runner.changes
            if is_new:
                self._changes = self._runner.changes
                self._progress = self._runner.progress.copy()
        table = self.query_one(ChoiceTable)
        # Comparing cells takes a moment, so it is done only after a change.
        if is_new:
            self._runs = list_cell_runs(self._progress, self._progress.cells[self._key])
            metric = self._runner.study.metric
            table.show(
                RUN_COLUMNS, [one.row(number, metric) for number, one in enumerate(self._runs, 1)]
            )
        if is_new or self._cursor != table.cursor:
            self._cursor = table.cursor
            self.query_one("#about Static", Static).update(plain(self._about()))

    def _about(self) -> str:
        """Return what there is to know of the run under the cursor, and of the cell."""
        end = self._runs[self._cursor].end
        result = compute_results(self._progress)
        row = next(one for one in result.cells if one.cell.key == self._key)
        lines = [end.cause, *end.remarks] if end else []
        lines += [comparison_text(result.study, row)] if row.comparison else []
        if row.speed_up_doubt:
            lines.append(doubt_text(result.study, row.speed_up_doubt))
        lines += row.stability.warnings
        return "\n".join(dict.fromkeys(line for line in lines if line)) or "no remarks"

    def on_choice_table_chosen(self) -> None:
        self.tick()

    def action_back(self) -> None:
        self.dismiss()

    def action_open(self) -> None:
        """Open the run under way, or of a recorded study the one under the cursor."""
        if isinstance(self._runner, RecordedStudy):
            name = self._runs[self._cursor].run
            if name != UNKNOWN:
                self.post_message(OpenRun(name))
            return
        run = self._runner.current
        if run and run.trial.cell.key == self._key:
            self.post_message(ShowRun(run.session.plan.run))


@dataclass(frozen=True)
class CellRun:
    """One repetition of a cell: its state, the name of its run, and how that has ended."""

    state: str
    run: str = UNKNOWN
    end: RunEnded | None = None

    def row(self, number: int, metric: str) -> TableRow:
        """Return its row in the table."""
        took = value = UNKNOWN
        cause = ""
        if self.end:
            took = duration(self.end.seconds or math.nan)
            value = format_value(self.end.value, metric)
            cause = plain(f" {self.end.cause}")
        return (
            TableCell(str(number)),
            TableCell(plain(self.run)),
            phase_cell(self.state),
            TableCell(value),
            TableCell(took),
            TableCell(cause, "table--dim"),
        )


def list_cell_runs(progress: StudyProgress, cell: CellProgress) -> list[CellRun]:
    """Return the repetitions of a cell, in order."""
    last = max([progress.study.repetitions, *cell.counted, *cell.failed])
    runs = []
    for number in range(1, last + 1):
        end = cell.counted.get(number) or cell.failed.get(number)
        open_run = progress.open.get(Trial(cell.cell, number).key)
        if open_run and open_run == cell.running:
            runs.append(CellRun(CellState.RUNNING.value, open_run))
        elif end:
            runs.append(CellRun("failed" if number in cell.failed else "finished", end.run, end))
        else:
            runs.append(CellRun(CellState.WAITING.value))
    return runs
