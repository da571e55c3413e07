"""The screen of a study: its cells, and the run under way."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Container, VerticalScroll
from textual.events import Resize
from textual.screen import Screen
from textual.widgets import Static

from remote.format import count, duration, seconds
from remote.run.run_state import RunState
from remote.sanitise import plain
from remote.study import estimate
from remote.study.conclusion import answer_text, doubt_lines, effect_lines
from remote.study.results import compute_results
from remote.study.runner import StudyRun, StudyRunner
from remote.study.shortcomings import failure_lines, limit_lines
from tui.home.history import RecordedStudy
from tui.kit.actions import KeyPlace
from tui.kit.bindings import bindings
from tui.kit.messages import ShowCell, ShowRun
from tui.kit.run_session import LiveScreen
from tui.kit.session_clock import SessionClock
from tui.kit.text_table import justify, progress_line
from tui.kit.widgets.choices import ChoiceTable
from tui.kit.widgets.keys import KeyFooter
from tui.kit.widgets.phase import phase_cell
from tui.kit.widgets.table import TableCell, TableColumn, TableRow
from tui.run.components.header import RunHeader
from tui.study.cell_table import StudyTable, make_cell_table
from tui.study.text.run_texts import describe_run

SIGN = 2
"""Columns that the sign of a state takes."""
NARROW = 7
"""Columns that a label keeps at least."""
SPACE = 2
"""Columns between two of the table."""


class StudyScreen(LiveScreen, Screen[None]):
    """All cells of a study, the run under way, and the answer so far. `tick` draws what has
    changed."""

    CSS = """
    StudyScreen #title { height: 2; padding: 0 1; background: $panel; }
    StudyScreen ChoiceTable { height: 1fr; min-height: 3; padding: 0 1; }
    StudyScreen #run { height: auto; border-top: solid $ink-rule; }
    StudyScreen #run RunHeader { background: $background; }
    StudyScreen #which { height: 1; padding: 0 1; color: $text-muted; }
    StudyScreen #answer {
        height: auto; max-height: 30%; padding: 0 1; scrollbar-size-vertical: 1;
        border-top: solid $ink-rule;
    }
    StudyScreen #answer Static { height: auto; }
    StudyScreen.-low #answer { display: none; }
    """
    VERTICAL_BREAKPOINTS = [(0, "-low"), (16, "-tall")]  # noqa: RUF012
    place = KeyPlace.STUDY
    BINDINGS: ClassVar[list[BindingType]] = bindings(place)

    def __init__(self, runner: StudyRunner | RecordedStudy) -> None:
        super().__init__()
        self.runner = runner
        self._clock = SessionClock()
        self._changes = -1

    def compose(self) -> ComposeResult:
        yield Static(id="title", markup=False)
        yield ChoiceTable(())
        with Container(id="run"):
            yield Static(id="which", markup=False)
            yield RunHeader()
        with VerticalScroll(id="answer"):
            yield Static(markup=False)
        yield KeyFooter()

    def on_mount(self) -> None:
        self.query_one(ChoiceTable).focus()
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
        table.show(columns(cell_table), rows(cell_table))
        is_over = self._is_over
        is_known = any(row.value for row in result.cells)
        answer_lines = doubt_lines(result)
        answer_lines.append(answer_text(result) if is_over or is_known else "no run has ended yet")
        # Before the end, every cell lacks runs: that would only be repeated.
        if is_over:
            answer_lines += effect_lines(result)
            answer_lines += failure_lines(self._progress)
            answer_lines += limit_lines(result)
        elif is_known:
            answer_lines[0] = f"so far: {answer_lines[0]}"
        self.query_one("#answer Static", Static).update("\n".join(map(plain, answer_lines)))

    def _show_run(self, run: StudyRun | None) -> float:
        """Show the run under way; return for how many seconds it has run."""
        self.query_one("#run").display = run is not None
        if run is None:
            return 0.0
        state = run.session.state
        # The session's thread takes in records meanwhile.
        with run.session.lock:
            now = self._clock.now(state)
            self.query_one(RunHeader).show(state)
            pace_text = _pace(state)
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
        """Return False for going back, unless the study is recorded."""
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


def _pace(state: RunState) -> str:
    """Return the seconds of an iteration, of the rank that is slowest."""
    return f"{seconds(state.step_seconds)} s/iter"
