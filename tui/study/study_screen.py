"""The screen of a study: its cells, and the run under way."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from typing import ClassVar

import numpy as np
from textual import work
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Container, VerticalScroll
from textual.content import Content
from textual.events import Resize
from textual.screen import Screen
from textual.widgets import Static
from textual.worker import get_current_worker

from remote.format import count, duration, step_time
from remote.plan.serialize import OtherFormat
from remote.record.events_file import RunFolderError
from remote.record.loss_course import LossPoint, read_loss_points
from remote.run.findings.rates import step_means
from remote.run.run_state import RunState
from remote.sanitise import plain
from remote.statistics.mean import finite_mean
from remote.study import estimate
from remote.study.conclusion import answer_text, doubt_lines, effect_lines
from remote.study.results import CellResult, StudyResult, compute_results
from remote.study.runner import StudyRun, StudyRunner
from remote.study.shortcomings import failure_lines, limit_lines
from remote.study.study import Study
from tui.charts.chart import Chart
from tui.charts.plot_frame import PlotOptions
from tui.charts.raster import Curve
from tui.home.history import RecordedStudy
from tui.kit import palette
from tui.kit.actions import KeyPlace
from tui.kit.bindings import bindings
from tui.kit.inks import LINE, SERIES_INKS
from tui.kit.messages import RetryStudy, ShowCell, ShowRun
from tui.kit.run_session import LiveScreen
from tui.kit.session_clock import SessionClock
from tui.kit.text_table import align_lines, justify, progress_line
from tui.kit.widgets.choices import ChoiceTable
from tui.kit.widgets.keys import KeyFooter
from tui.kit.widgets.phase import phase_cell
from tui.kit.widgets.table import TableCell, TableColumn, TableRow
from tui.run.components.header import RunHeader
from tui.study.cell_screen import list_cell_runs
from tui.study.cell_table import VALUES, StudyTable, format_value, make_cell_table
from tui.study.text.run_texts import describe_run

SIGN = 2
"""Columns that the sign of a state takes."""
NARROW = 7
"""Columns that a label keeps at least."""
SPACE = 2
"""Columns between two of the table."""
DURATION_WIDTH = 9
"""Columns of the time that runs took."""
AXIS_WIDTHS = range(12, 33)
"""Columns of the axis on which the values of runs stand."""
LOSS_PLACES = 60
"""Places at which the loss of a run is read."""


class StudyScreen(LiveScreen, Screen[None]):
    """All cells of a study, the run under way, and the answer so far. `tick` draws what has
    changed."""

    CSS = """
    StudyScreen #title { height: 2; padding: 0 1; background: $panel; }
    StudyScreen ChoiceTable { max-height: 60%; min-height: 3; padding: 0 1; }
    StudyScreen #cell { height: auto; max-height: 30%; padding: 0 1; display: none; }
    StudyScreen.-roomy #cell { display: block; }
    StudyScreen #cell, StudyScreen #curve {
        border-top: solid $ink-rule; border-title-color: $text-muted;
        scrollbar-size-vertical: 1;
    }
    StudyScreen #cell Static { height: auto; }
    StudyScreen #curve { height: 1fr; display: none; padding: 0 1; }
    StudyScreen.-running #curve, StudyScreen.-roomy.-curves #curve { display: block; }
    StudyScreen #run { height: auto; border-top: solid $ink-rule; }
    StudyScreen #run RunHeader { background: $background; }
    StudyScreen #which { height: 1; padding: 0 1; color: $text-muted; }
    StudyScreen #answer {
        height: auto; max-height: 30%; padding: 0 1; scrollbar-size-vertical: 1;
    }
    StudyScreen #answer Static { height: auto; }
    StudyScreen.-low #answer { display: none; }
    """
    VERTICAL_BREAKPOINTS = [(0, "-low"), (16, "-tall"), (30, "-roomy")]  # noqa: RUF012
    place = KeyPlace.STUDY
    BINDINGS: ClassVar[list[BindingType]] = bindings(place)

    def __init__(self, runner: StudyRunner | RecordedStudy) -> None:
        super().__init__()
        self.runner = runner
        self._clock = SessionClock()
        self._changes = -1

    def compose(self) -> ComposeResult:
        yield Static(id="title", markup=False)
        with VerticalScroll(id="answer"):
            yield Static(markup=False)
        yield ChoiceTable(())
        with VerticalScroll(id="cell", can_focus=False):
            yield Static(markup=False)
        with Container(id="run"):
            yield Static(id="which", markup=False)
            yield RunHeader()
        with Container(id="curve"):
            yield Chart(PlotOptions("step"))
        yield KeyFooter()

    def on_mount(self) -> None:
        table = self.query_one(ChoiceTable)
        table.focus()
        self.query_one(Chart).can_focus = False
        self.watch(table, "cursor", self._show_cell, init=False)
        self.tick()

    def on_resize(self, event: Resize) -> None:
        # Columns depend on the room, so the table is made anew.
        self._changes = -1
        self.call_after_refresh(self.tick)

    def tick(self) -> None:
        """Draw what has changed."""
        current_run = self.runner.current
        with self.runner.lock:
            is_new = self._changes != self.runner.changes
            if is_new:
                self._changes = self.runner.changes
                self._progress = self.runner.progress.copy()
                self._is_over = self.runner.is_over
                self.refresh_bindings()
        with self.app.batch_update():
            if is_new:
                self._show_cells()
            run_seconds = self._show_run(current_run)
            self._show_title(run_seconds)

    def _show_cells(self) -> None:
        table = self.query_one(ChoiceTable)
        result = compute_results(self._progress)
        table_width = self.app.size.width - SPACE * 2 - SIGN
        cell_table = make_cell_table(result, table_width)
        self._keys = [row.cell.key for row in result.cells]
        extra_columns, extra_cells = make_time_columns(result, table_width - cell_table.width)
        table.styles.height = len(result.cells) + 1
        table.show(
            columns(cell_table) + extra_columns,
            [row + cells for row, cells in zip(rows(cell_table), extra_cells, strict=True)],
        )
        self._show_cell()
        is_over = self._is_over
        is_known = any(row.value for row in result.cells)
        # What to do about failures comes before what is known without those runs.
        answer_lines = failure_lines(self._progress) if is_over else []
        answer_lines += doubt_lines(result)
        answer_lines.append(answer_text(result) if is_over or is_known else "no run has ended yet")
        # Before the end, every cell lacks runs: that would only be repeated.
        if is_over:
            answer_lines += effect_lines(result)
            answer_lines += limit_lines(result)
        elif is_known:
            answer_lines[0] = f"so far: {answer_lines[0]}"
        first_line, *more_lines = map(plain, answer_lines)
        answer = Content("\n").join([Content.styled(first_line, "bold"), *map(Content, more_lines)])
        self.query_one("#answer Static", Static).update(answer)

    def _show_cell(self) -> None:
        """Show the runs of the cell under the cursor."""
        panel = self.query_one("#cell")
        key = self._chosen
        panel.border_title = f" runs of {plain(key)} "
        metric = self.runner.study.metric
        cell_runs = list_cell_runs(self._progress, self._progress.cells[key])
        table_rows = [cell_run.row(number, metric) for number, cell_run in enumerate(cell_runs, 1)]
        lines = align_lines([[cell.text for cell in row] for row in table_rows])
        panel.query_one(Static).update("\n".join(lines))
        # Beside a run under way, whose loss is drawn, this need not be read.
        if self.runner.current is None:
            self._read_losses(key, [run.end.run for run in cell_runs if run.end])

    @work(thread=True, exclusive=True)
    def _read_losses(self, key: str, runs: Sequence[str]) -> None:
        """Read the training loss of the runs of a cell, and draw it."""
        courses = []
        for run in runs[:SERIES_INKS]:
            with suppress(OtherFormat, RunFolderError):
                courses.append(read_loss_points(self.runner.runs_dir / run, LOSS_PLACES).training)
        # The cursor may have gone on, or the screen may have closed.
        if not get_current_worker().is_cancelled:
            self.app.call_from_thread(self._draw_losses, key, courses)

    def _draw_losses(self, key: str, courses: Sequence[Sequence[LossPoint]]) -> None:
        """Draw a curve for each run of a cell, named by its number."""
        if self.runner.current is not None or not self.is_attached:
            return
        curves = []
        for number, course in enumerate(courses, 1):
            if len(course) > 1:
                # Of a short run, places overlap, so that a step comes several times.
                steps, losses = np.array(sorted(dict(course).items()), float).T
                curve = Curve(str(number), number - 1, steps, losses, losses, losses, band=False)
                curves.append(curve)
        self.query_one("#curve").border_title = f" training loss of the runs of {plain(key)} "
        self.set_class(bool(curves), "-curves")
        self.query_one(Chart).draw(curves, options=PlotOptions("step", named=len(curves) > 1))

    def _show_run(self, run: StudyRun | None) -> float:
        """Show the run under way; return for how many seconds it has run."""
        self.query_one("#run").display = run is not None
        self.set_class(run is not None, "-running")
        if run is None:
            return 0.0
        state = run.session.state
        # The session's thread takes in records meanwhile.
        with run.session.lock:
            now = self._clock.now(state)
            self.query_one(RunHeader).show(state)
            pace_text = _pace(state)
            losses = state.curves.whole("loss")
        curve = Curve("", LINE, losses.step, losses.low, losses.high, losses.mean, band=False)
        self.query_one("#curve").border_title = " training loss of this run "
        options = PlotOptions("step")
        self.query_one(Chart).draw([curve] if len(losses.step) else [], options=options)
        assert isinstance(self.runner, StudyRunner)
        run_line = justify(describe_run(self.runner, run), pace_text, self.app.size.width - 2)
        self.query_one("#which", Static).update(run_line)
        return max(0.0, now - state.started) if state.started else 0.0

    def _show_title(self, run_seconds: float) -> None:
        study = self.runner.study
        progress = self._progress
        width = self.app.size.width - 2
        num_done = progress.num_settled
        # With --until-stable there may be more runs than are planned.
        num_planned = len(study.trials())
        runs_text = f"{num_done} of {count(max(num_done, num_planned), 'run')}"
        times_text = f"{duration(progress.seconds + run_seconds)} of runs"
        if not self._is_over:
            times_text += f"  ETA {duration(estimate.remaining_seconds(progress, run_seconds))}"
        progress_bar = progress_line(
            runs_text, num_done / max(num_done, num_planned, 1), times_text, width
        )
        title_text = "; ".join(filter(None, (f"{study.name}  {study.title}", study.overrides_text)))
        title = justify(title_text, self._state(), width)
        self.query_one("#title", Static).update(f"{title}\n{progress_bar}")

    def _state(self) -> str:
        """Return what becomes of the study, as a sign and a word."""
        is_stopped = self.runner.is_stopped and not self.runner.is_refused
        if is_stopped:
            return phase_cell("stopped" if self._is_over else "stopping").text
        if not self._is_over:
            return phase_cell("running").text
        has_failed = self._progress.num_failed > 0
        return phase_cell("failed" if has_failed else "done").text

    # Keys

    @property
    def _chosen(self) -> str:
        """Return the key of the cell under the cursor."""
        return self._keys[self.query_one(ChoiceTable).cursor]

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Return False for going back, unless the study is recorded, and for a retry if nothing has
        failed. Only a study that makes its runs can make them again."""
        if action == "retry":
            is_live = isinstance(self.runner, StudyRunner)
            return is_live and self._is_over and self._progress.num_failed > 0
        return action != "back" or isinstance(self.runner, RecordedStudy)

    def action_back(self) -> None:
        self.dismiss()

    def on_choice_table_chosen(self) -> None:
        self.action_open()

    def action_open(self) -> None:
        """Open the run under way of the cell, or the runs that it has."""
        current_run = self.runner.current
        if current_run and current_run.trial.cell.key == self._chosen:
            self.post_message(ShowRun(current_run.session.plan.run))
        else:
            self.action_cell()

    def action_retry(self) -> None:
        self.post_message(RetryStudy())

    def action_cell(self) -> None:
        self.post_message(ShowCell(self._chosen))


def columns(table: StudyTable) -> list[TableColumn]:
    """Return the columns of the table of cells; labels give way if there is little room."""
    table_columns = []
    for index, (title, *texts) in enumerate(zip(table.head, *table.rows, strict=True)):
        width = max(map(len, (title, *texts))) + SPACE
        if index < table.labels:
            column = TableColumn(title, min(width, NARROW + SPACE), right=False, most=width)
        else:
            sign_width = SIGN if index == table.labels else 0
            column = TableColumn(title, width + sign_width, right=False)
        table_columns.append(column)
    return table_columns


def rows(table: StudyTable) -> list[TableRow]:
    """Return the rows of the table of cells, each state as a sign and a word."""
    table_rows = []
    for texts, state in zip(table.rows, table.states, strict=True):
        row = [TableCell(plain(text)) for text in texts]
        # The state is the first column behind the labels.
        row[table.labels] = phase_cell(state.value)
        table_rows.append(tuple(row))
    return table_rows


# Times and values of runs


def make_time_columns(result: StudyResult, room: int) -> tuple[list[TableColumn], list[TableRow]]:
    """Return further columns that fit, with their cells: how long runs took, and where their values
    lie on an axis that all cells share."""
    columns = list[TableColumn]()
    rows: list[TableRow] = [() for _ in result.cells]
    if room >= DURATION_WIDTH:
        columns.append(TableColumn("duration", DURATION_WIDTH))
        rows = [(*row, _took_cell(cell)) for row, cell in zip(rows, result.cells, strict=True)]
    values = [value for cell in result.cells for value in _values(cell)]
    axis_width = min(AXIS_WIDTHS[-1], room - DURATION_WIDTH - SPACE - 1)
    ends = [format_value(end(values), result.study.metric) for end in (min, max) if values]
    # Values that differ by less than is shown would look far apart.
    if len(set(ends)) > 1 and axis_width in AXIS_WIDTHS:
        low, high = min(values), max(values)
        title = f"  {_axis_title(ends[0], ends[1], result.study, axis_width)}"
        columns.append(TableColumn(title, SPACE + axis_width + 1, right=False))
        rows = [
            (*row, TableCell(f"  {draw_values(_values(cell), low, high, axis_width)}"))
            for row, cell in zip(rows, result.cells, strict=True)
        ]
    return columns, rows


def _axis_title(low: str, high: str, study: Study, width: int) -> str:
    """Return both ends of an axis, and between them what it shows, in as long a word as fits."""
    room = width - len(low) - len(high)
    names = (VALUES.get(study.metric, study.measured), study.metric)
    name = next((name for name in names if len(name) + 2 <= room), "")
    return f"{low}{name:^{room}}{high}"


def _values(cell: CellResult) -> list[float]:
    return [run.value for run in cell.runs if run.value is not None and math.isfinite(run.value)]


def _took_cell(cell: CellResult) -> TableCell:
    """Return the mean time of the runs that count."""
    return TableCell(duration(finite_mean([run.seconds for run in cell.runs if run.seconds])))


def draw_values(values: Sequence[float], low: float, high: float, width: int) -> str:
    """Draw values on an axis from `low` to `high`, joined from the least to the largest."""
    if not values:
        return ""
    places = [round((value - low) / (high - low) * (width - 1)) for value in values]
    cells = [" "] * width
    for place in range(min(places), max(places) + 1):
        cells[place] = palette.sign("rest")
    for place in places:
        cells[place] = palette.sign("curve")
    return "".join(cells)


def _pace(state: RunState) -> str:
    """Return the mean time of the last steps."""
    return f"{step_time(step_means(state).seconds)}/step"
