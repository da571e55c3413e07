"""The screen of a cell of a study: its runs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import compress
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import VerticalScroll
from textual.events import Resize
from textual.screen import Screen
from textual.widgets import Static

from remote.format import UNKNOWN, count, duration, fixed
from remote.plan.plan import what as described
from remote.sanitise import plain
from remote.study.conclusion import comparison_text, doubt_text
from remote.study.folder import RunEnded
from remote.study.length import TrainingLength, count_steps
from remote.study.progress import CellProgress, CellState, StudyProgress
from remote.study.results import compute_results
from remote.study.runner import StudyRunner
from remote.study.study import Cell, Trial
from tui.home.history import RecordedStudy
from tui.kit.actions import KeyPlace
from tui.kit.bindings import bindings
from tui.kit.messages import OpenRun, ShowRun
from tui.kit.run_session import LiveScreen
from tui.kit.text_table import align_lines
from tui.kit.widgets.choices import ChoiceTable
from tui.kit.widgets.keys import KeyFooter
from tui.kit.widgets.phase import phase_cell
from tui.kit.widgets.table import TableCell, TableColumn, TableRow
from tui.study.cell_table import format_value, metric_header
from tui.study.verdict_text import name_cell

FIRST_RUN = "incl. host start"
"""Why the first run of a study took longer than the others."""
SLOW_START = 1.5
"""The first run is remarkable from so many times the time of another one on."""
RUN_COLUMNS = (
    TableColumn("#", 4),
    TableColumn("run", 20, right=False, most=48),
    TableColumn("state", 13, right=False),
    TableColumn("value", 9),
    TableColumn("duration", 9),
    TableColumn(" why", 1, right=False, most=200),
)


class CellScreen(LiveScreen, Screen[None]):
    """The runs of a cell: their values, and why some failed."""

    CSS = """
    CellScreen #title { height: auto; padding: 0 1; background: $panel; }
    CellScreen ChoiceTable { height: 1fr; min-height: 3; padding: 0 1; }
    CellScreen #about {
        height: auto; max-height: 50%; padding: 0 1; scrollbar-size-vertical: 1;
        border-top: solid $ink-rule;
    }
    CellScreen #about Static { height: auto; }
    """
    place = KeyPlace.CELL
    BINDINGS: ClassVar[list[BindingType]] = bindings(place)

    def __init__(self, runner: StudyRunner | RecordedStudy, key: str) -> None:
        super().__init__()
        self._runner = runner
        self._key = key
        # No count and no row is -1, so the first tick draws everything.
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
        title_lines = (f"runs of {name_cell(cell)}", describe_cells([cell]))
        self.query_one("#title", Static).update("\n".join(map(plain, title_lines)))
        self.query_one(ChoiceTable).focus()
        self.tick()

    def on_resize(self, event: Resize) -> None:
        # Widgets have their new sizes only after the next refresh.
        self.call_after_refresh(self.tick)

    def tick(self) -> None:
        """Draw what has changed."""
        # The copy is drawn without the lock: the study need not wait for the screen.
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
                RUN_COLUMNS,
                [cell_run.row(number, metric) for number, cell_run in enumerate(self._runs, 1)],
            )
        if is_new or self._cursor != table.cursor:
            self._cursor = table.cursor
            self.query_one("#about Static", Static).update(plain(self._about()))

    def _about(self) -> str:
        """Return what there is to know of the run under the cursor, and of the cell."""
        run_end = self._runs[self._cursor].end
        result = compute_results(self._progress)
        cell_result = next(
            candidate for candidate in result.cells if candidate.cell.key == self._key
        )
        remark_lines = [run_end.cause, *run_end.remarks] if run_end else []
        remark_lines += (
            [comparison_text(result.study, cell_result)] if cell_result.comparison else []
        )
        if cell_result.speed_up_doubt:
            remark_lines.append(doubt_text(result.study, cell_result.speed_up_doubt))
        remark_lines += cell_result.stability.warnings
        # The cause of a run may be said again by its remarks or by the cell.
        return "\n".join(dict.fromkeys(line for line in remark_lines if line)) or "no remarks"

    def on_choice_table_chosen(self) -> None:
        self.tick()

    def action_back(self) -> None:
        self.dismiss()

    def action_open(self) -> None:
        """Open the run under way, or of a recorded study the one under the cursor."""
        if isinstance(self._runner, RecordedStudy):
            run_name = self._runs[self._cursor].run
            if run_name != UNKNOWN:
                self.post_message(OpenRun(run_name))
            return
        current_run = self._runner.current
        if current_run and current_run.trial.cell.key == self._key:
            self.post_message(ShowRun(current_run.session.plan.run))


def describe_cells(cells: Sequence[Cell]) -> str:
    """Return what the runs of cells do that differ in the compared setting only, where, and how
    long they train."""
    cell = cells[0]
    place = cell.place
    work_text = described(cell.work)
    if cell.job and len({described(other.work) for other in cells}) > 1:
        work_text = f"{cell.job.model} on {cell.job.dataset}"
    parts = [
        work_text,
        f"{count(place.ranks, 'rank')} on {count(place.nodes, 'host')}",
    ]
    job = cell.job
    if job:
        length = TrainingLength.of(job)
        num_steps = count_steps(cell)
        steps_text = f" of {count(num_steps // length.value, 'step')}" if not job.steps else ""
        parts += [f"batch size {job.batch_size}", f"lr {job.lr:g}"]
        parts.append(f"{length}{steps_text}" if num_steps else str(length))
    return ", ".join(parts)


def list_run_lines(
    progress: StudyProgress, cells: Sequence[CellProgress], room: float = math.inf
) -> list[str]:
    """Return a head, and below it a line for each run of these cells, with what tells the cells
    apart and its training losses. If `room` columns do not hold them, the names of the runs go."""
    study = progress.study
    axes = [
        axis.name for axis in study.axes if len({cell.cell.label(axis.name) for cell in cells}) > 1
    ]
    head = [*axes, "#", "run", "state", metric_header(study), "duration", "training loss", ""]
    table = [head]
    for cell in cells:
        labels = [cell.cell.label(axis) for axis in axes]
        for position, cell_run in enumerate(list_cell_runs(progress, cell), 1):
            *texts, cause = [table_cell.text for table_cell in cell_run.row(position, study.metric)]
            if cell_run.remark:
                texts[-1] += f" ({cell_run.remark})"
                cause = ""
            losses = cell_run.end.losses if cell_run.end else None
            losses_text = " to ".join(fixed(value, 4) for value in losses) if losses else ""
            table.append([*labels, *texts, losses_text, cause.strip()])
    # Of a script the training loss may be unknown, and few runs have a cause.
    shown_columns = [any(texts) for texts in zip(*table[1:], strict=True)]
    lines = _align_columns(table, shown_columns)
    if max(map(len, lines)) > room:
        shown_columns[head.index("run")] = False
        lines = _align_columns(table, shown_columns)
    return lines


def _align_columns(table: Sequence[Sequence[str]], shown_columns: Sequence[bool]) -> list[str]:
    return align_lines([list(compress(texts, shown_columns)) for texts in table])


@dataclass(frozen=True)
class CellRun:
    """One repetition of a cell: its state, the name of its run, and how that has ended."""

    state: str
    run: str = UNKNOWN
    end: RunEnded | None = None
    remark: str = ""
    """What explains a value of it."""

    def row(self, number: int, metric: str) -> TableRow:
        """Return its row in the table."""
        took_text = value_text = UNKNOWN
        cause_text = ""
        if self.end:
            took_text = duration(self.end.seconds or math.nan)
            value_text = format_value(self.end.value, metric)
            cause_text = plain(f" {self.end.cause or self.remark}")
        return (
            TableCell(str(number)),
            TableCell(plain(self.run)),
            phase_cell(self.state),
            TableCell(value_text),
            TableCell(took_text),
            TableCell(cause_text, "table--dim"),
        )


def _is_slow_first_run(progress: StudyProgress, cell: CellProgress, run_end: RunEnded) -> bool:
    """Return True if a run was the first one of the study, and took longer than others of its
    cell."""
    if run_end.run != progress.first_run:
        return False
    other_seconds = [other.seconds for other in cell.counted_runs if other is not run_end]
    return any(run_end.seconds > SLOW_START * seconds > 0 for seconds in other_seconds)


def list_cell_runs(progress: StudyProgress, cell: CellProgress) -> list[CellRun]:
    """Return the repetitions of a cell, in order."""
    # With --until-stable there may be more runs than are planned.
    last_repetition = max([progress.study.repetitions, *cell.counted, *cell.failed])
    runs = []
    for repetition in range(1, last_repetition + 1):
        # What counts goes first, though another run of the repetition may have failed.
        run_end = cell.counted.get(repetition) or cell.failed.get(repetition)
        open_run = progress.open.get(Trial(cell.cell, repetition).key)
        if open_run and open_run == cell.running:
            runs.append(CellRun(CellState.RUNNING.value, open_run))
        elif run_end:
            state = "failed" if repetition in cell.failed else "finished"
            remark = FIRST_RUN if _is_slow_first_run(progress, cell, run_end) else ""
            runs.append(CellRun(state, run_end.run, run_end, remark))
        else:
            runs.append(CellRun(CellState.WAITING.value))
    return runs
