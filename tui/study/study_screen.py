"""The screen of a study: its cells, and the run under way."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import ClassVar, NamedTuple

import numpy as np
from textual import work
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Container, Horizontal, VerticalScroll
from textual.content import Content
from textual.events import Resize
from textual.screen import Screen
from textual.widgets import Static
from textual.worker import get_current_worker

from remote.format import count, duration, number
from remote.plan.serialize import OtherFormat
from remote.record.events_file import RunFolderError
from remote.record.loss_course import LossCourse, LossPoint, read_loss_points
from remote.run.run_state import RunState
from remote.sanitise import plain
from remote.statistics.mean import finite_mean
from remote.study import estimate
from remote.study.conclusion import guess_text
from remote.study.progress import CellProgress, CellState
from remote.study.results import CellResult, StudyResult, compute_results
from remote.study.runner import StudyRun, StudyRunner
from remote.study.study import Cell, Study
from tui.charts.chart import Chart
from tui.charts.plot_frame import PlotOptions
from tui.charts.raster import Curve
from tui.home.history import RecordedStudy
from tui.kit import palette
from tui.kit.actions import KeyPlace
from tui.kit.bindings import bindings, key_of
from tui.kit.inks import LINE, SERIES_INKS
from tui.kit.messages import CopyText, RetryStudy, ShowCell, ShowRun
from tui.kit.run_session import LiveScreen
from tui.kit.session_clock import SessionClock
from tui.kit.text_table import align_lines, justify, progress_line
from tui.kit.themes import inks_of
from tui.kit.widgets.choices import ChoiceTable
from tui.kit.widgets.keys import KeyFooter
from tui.kit.widgets.phase import phase_cell
from tui.kit.widgets.table import TableCell, TableColumn, TableRow
from tui.kit.widgets.verdict_strip import NextKey, Reason, VerdictStrip
from tui.run.components.header import RunHeader
from tui.study.cell_screen import list_cell_runs
from tui.study.cell_table import StudyTable, format_value, make_cell_table, metric_header
from tui.study.text.run_texts import run_number
from tui.study.verdict_text import (
    judge_running,
    judge_study,
    name_cell,
    name_place,
    name_trial,
)
from tui.study.whole_command import format_whole_command

SIGN = 2
"""Columns that the sign of a state takes."""
NARROW = 7
"""Columns that a label keeps at least."""
SPACE = 2
"""Columns between two of the table."""
DURATION_WIDTH = 9
"""Columns of the time that runs took."""
AXIS_WIDTHS = range(12, 49)
"""Columns of the axis on which the values of runs stand."""
LOSS_PLACES = 60
"""Places at which the loss of a run is read."""
MOST_PLACES = 3
"""Charts beside each other."""
PLACE_WIDTH = 38
"""Columns that such a chart has at least."""
HIDDEN = 0.002
"""Share of a loss by which curves differ that cannot be told apart."""


class StudyScreen(LiveScreen, Screen[None]):
    """All cells of a study, the run under way, and the answer so far. `tick` draws what has
    changed."""

    CSS = """
    StudyScreen #title { height: 2; padding: 0 1; background: $panel; }
    StudyScreen VerdictStrip { max-height: 40%; }
    StudyScreen ChoiceTable { max-height: 60%; min-height: 3; padding: 0 1; }
    StudyScreen #legend { height: 1; padding: 0 1; color: $text-muted; display: none; }
    StudyScreen.-values #legend { display: block; }
    StudyScreen #cell { height: auto; max-height: 30%; padding: 0 1; display: none; }
    StudyScreen.-roomy #cell { display: block; }
    StudyScreen #cell, StudyScreen #curve {
        border-top: solid $ink-rule; border-title-color: $text-muted;
        scrollbar-size-vertical: 1;
    }
    StudyScreen #cell Static { height: auto; }
    StudyScreen #curve { height: 1fr; display: none; padding: 0 1; }
    StudyScreen.-curves #curve { display: block; }
    StudyScreen .place { width: 1fr; height: 1fr; }
    StudyScreen.-places .place { padding: 0 1 0 0; }
    StudyScreen.-places .place { border-top: blank; border-title-color: $text-muted; }
    StudyScreen #run { height: auto; border-top: solid $ink-rule; }
    StudyScreen #run RunHeader { background: $background; }
    StudyScreen.-low VerdictStrip, StudyScreen.-low #legend { display: none; }
    """
    VERTICAL_BREAKPOINTS = [(0, "-low"), (16, "-tall"), (30, "-roomy")]  # noqa: RUF012
    place = KeyPlace.STUDY
    BINDINGS: ClassVar[list[BindingType]] = bindings(place)

    def __init__(self, runner: StudyRunner | RecordedStudy) -> None:
        super().__init__()
        self.runner = runner
        self._clock = SessionClock()
        self._changes = -1
        self._curves: Sequence[Curve] = ()
        """The losses of the cells that are compared with that under the cursor."""
        self._places: Sequence[PlacedCurves] = ()
        """Those at each place, if lines lie on each other, so that one chart says little."""
        self._curves_name = TRAINING_LOSS
        self._whole_command = ""
        """The command of the whole study, if its short variant says little."""

    def compose(self) -> ComposeResult:
        yield Static(id="title", markup=False)
        yield VerdictStrip()
        yield ChoiceTable(())
        name = metric_header(self.runner.study)
        values_text = (
            f"{palette.sign('curve')} {name} of one run, joined from the lowest to the highest"
        )
        yield Static(values_text, id="legend", markup=False)
        with VerticalScroll(id="cell", can_focus=False):
            yield Static(markup=False)
        with Container(id="run"):
            yield RunHeader()
        with Horizontal(id="curve"):
            for _ in range(MOST_PLACES):
                with Container(classes="place"):
                    yield Chart(PlotOptions("step"))
        yield KeyFooter()

    def on_mount(self) -> None:
        table = self.query_one(ChoiceTable)
        table.focus()
        for chart in self.query(Chart):
            chart.can_focus = False
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
        with self.app.batch_update():
            if is_new:
                self._show_cells()
            run_seconds = self._show_run(current_run)
            self._show_title(run_seconds)
            self._show_verdict(current_run, run_seconds)

    def _show_cells(self) -> None:
        table = self.query_one(ChoiceTable)
        self._result = result = compute_results(self._progress)
        says_little = self._is_over and bool(guess_text(result))
        runner = self.runner
        self._whole_command = (
            format_whole_command(runner.study, runner.runs_dir) if says_little else ""
        )
        self.refresh_bindings()
        table_width = self.app.size.width - SPACE * 2 - SIGN
        best_cells = find_best_cells(result)
        room = table_width - (len(best_word(result.study)) + 1 if best_cells else 0)
        cell_table = mark_cells(make_cell_table(result, room), result, best_cells)
        self._keys = [row.cell.key for row in result.cells]
        extra_columns, extra_cells = make_time_columns(result, table_width - cell_table.width)
        self.set_class(len(extra_columns) > 1, "-values")
        table.styles.height = len(result.cells) + 1
        table.show(
            columns(cell_table) + extra_columns,
            [row + cells for row, cells in zip(rows(cell_table), extra_cells, strict=True)],
        )
        running_key = self._progress.running_cell
        if running_key and not table.is_cursor_placed:
            table.cursor = self._keys.index(running_key)
        self._show_cell()

    def _show_verdict(self, run: StudyRun | None, run_seconds: float) -> None:
        """Say what came out of the study, or what it does now, and which keys help."""
        result, progress = self._result, self._progress
        if self._is_over:
            stop_reason = getattr(self.runner, "stop_reason", "")
            verdict = judge_study(result, progress, stop_reason=stop_reason)
        else:
            seconds_left = estimate.remaining_seconds(progress, run_seconds)
            verdict = judge_running(result, progress, self._describe_run(run), seconds_left)
        next_keys = []
        if self._whole_command:
            copy_text = "copy the command of the whole study"
            next_keys.append(NextKey(key_of(self.app, "copy-study-command"), copy_text))
        if self.check_action("retry", ()):
            next_keys.append(NextKey(key_of(self.app, "retry"), self._describe_retry()))
        is_running_chosen = run is not None and run.trial.cell.key == self._chosen
        runs_text = "runs of this row"
        enter_text = "open this run" if is_running_chosen else f"open the {runs_text}"
        next_keys.append(NextKey(key_of(self.app, "open"), enter_text))
        if is_running_chosen:
            next_keys.append(NextKey(key_of(self.app, "cell"), runs_text))
        reasons: list[Reason] = list(verdict.reasons)
        if verdict.warning:
            warning_text = f"{palette.sign('slow')} {plain(verdict.warning)}"
            reasons.insert(0, Content.styled(warning_text, "$text-warning"))
        strip = self.query_one(VerdictStrip)
        strip.show(verdict.severity, verdict.title, reasons, next_keys)

    def _describe_run(self, run: StudyRun | None) -> str:
        """Return which run is under way: "run 5 of 12: ring, batch 20"."""
        number = run_number(self._progress)
        trial_key = run.trial.key if run else next(iter(self._progress.open), "")
        if not trial_key:
            return f"run {number} begins"
        name = name_trial(self._progress, trial_key)
        if run and run.is_left:
            return f"ending a run that an earlier call left: {name}"
        return f"run {number}: {name}"

    def _describe_retry(self) -> str:
        num_failed = self._progress.num_failed
        if num_failed:
            return "try it again" if num_failed == 1 else f"try the {num_failed} failed runs again"
        num_missing = len(self._progress.missing_trials())
        return (
            "make the missing run" if num_missing == 1 else f"make the {num_missing} missing runs"
        )

    def _show_cell(self) -> None:
        """Show the runs of the cell under the cursor."""
        panel = self.query_one("#cell")
        chosen_cell = self._progress.cells[self._chosen]
        panel.border_title = Content(f" runs of {plain(name_cell(chosen_cell.cell))} ")
        metric = self.runner.study.metric
        cell_runs = list_cell_runs(self._progress, chosen_cell)
        table_rows = [cell_run.row(number, metric) for number, cell_run in enumerate(cell_runs, 1)]
        lines = align_lines([[cell.text for cell in row] for row in table_rows])
        panel.query_one(Static).update("\n".join(lines))
        self._read_losses(self._chosen, self._list_compared(chosen_cell), self._list_places())

    def _list_compared(self, chosen: CellProgress) -> list[ComparedRuns]:
        """Return the runs of the cells that differ from this one in the compared axis only;
        without such an axis, its own runs, each for itself."""
        study = self.runner.study
        compared = [
            cell
            for cell in self._progress.cells.values()
            if study.compare and has_same_place(cell.cell, chosen.cell, study.compare)
        ]
        if len(compared) < 2:
            return [
                ComparedRuns(f"run {number}", (end.run,))
                for number, end in enumerate(chosen.counted_runs, 1)
            ]
        return [
            ComparedRuns(
                cell.cell.label(study.compare), tuple(end.run for end in cell.counted_runs)
            )
            for cell in compared
        ]

    def _list_places(self) -> dict[str, list[ComparedRuns]]:
        """Return the compared runs at all places, by their names, if there is room for a chart of
        each."""
        axis = self.runner.study.compare
        places = dict[str, list[ComparedRuns]]()
        for cell in self._progress.cells.values():
            name = name_place(cell.cell, axis)
            if axis and name not in places:
                places[name] = self._list_compared(cell)
        has_room = self.app.size.width >= len(places) * PLACE_WIDTH
        return places if 2 <= len(places) <= MOST_PLACES and has_room else {}

    @work(thread=True, exclusive=True)
    def _read_losses(
        self,
        key: str,
        compared: Sequence[ComparedRuns],
        compared_by_place: Mapping[str, Sequence[ComparedRuns]],
    ) -> None:
        """Read the losses of these runs, and draw them."""
        name, curves = read_curves(self.runner.runs_dir, compared)
        places = []
        if has_hidden_curve(curves):
            for place_name, group in compared_by_place.items():
                _, place_curves = read_curves(self.runner.runs_dir, group)
                places.append(PlacedCurves(place_name, place_curves))
        # The cursor may have gone on, or the screen may have closed.
        if not get_current_worker().is_cancelled:
            self.app.call_from_thread(self._take_curves, key, curves, name, places)

    def _take_curves(
        self, key: str, curves: Sequence[Curve], name: str, places: Sequence[PlacedCurves]
    ) -> None:
        if self.is_attached and key == self._chosen:
            self._curves = curves
            self._curves_name = name
            self._places = places
            if self.runner.current is None:
                self._draw_curves()

    def _draw_curves(self, own_curve: Curve | None = None) -> None:
        """Draw the losses of the compared cells over each other, and that of the run under way."""
        curves = [*self._curves, *([own_curve] if own_curve else [])]
        # A run under way is seen best in a large chart.
        places = self._places if own_curve is None else ()
        self.set_class(bool(curves), "-curves")
        self.set_class(bool(places), "-places")
        self.query_one("#curve").border_title = self._describe_curves(curves, len(places))
        shown_places = places or [PlacedCurves("", curves)]
        panels = list(self.query(".place"))
        for panel in panels[len(shown_places) :]:
            panel.display = False
        for panel, place in zip(panels, shown_places, strict=False):
            panel.display = True
            panel.border_title = Content(f" {plain(place.name)} ") if place.name else None
            panel.query_one(Chart).draw(place.curves, options=PlotOptions("step"))

    def _describe_curves(self, curves: Sequence[Curve], num_places: int) -> Content:
        """Return what is drawn, with the sign of each curve in its ink."""
        cell = self._progress.cells[self._chosen].cell
        place_name = "" if num_places else name_place(cell, self.runner.study.compare)
        place_text = f" at {place_name}" if place_name else ""
        title = f" {self._curves_name}{plain(place_text)}:"
        parts: list[tuple[str, str]] = [(title, "")]
        inks = inks_of(self.app.current_theme)
        for curve in curves:
            ink = inks.by_number(curve.colour)
            parts += [(f"  {palette.sign('curve')}", ink), (f" {plain(curve.label)}", "")]
        if has_hidden_curve(curves):
            parts.append(("  (lines lie on each other)", ""))
        elif any(len(cell.counted) > 1 for cell in self._progress.cells.values()):
            parts.append(("  (mean of its runs)", ""))
        return Content.assemble(*parts, " ")

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
            own_curve = make_own_curve(state, is_test=self._curves_name == TEST_LOSS)
        self._draw_curves(own_curve)
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
        return phase_cell("failed" if has_failed else "finished").text

    # Keys

    @property
    def _chosen(self) -> str:
        """Return the key of the cell under the cursor."""
        return self._keys[self.query_one(ChoiceTable).cursor]

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Return False for going back, unless the study is recorded, for a retry if nothing has
        failed or is missing, and for the command of the whole study unless it helps."""
        if action == "retry":
            is_complete = self._progress.num_settled >= len(self.runner.study.trials())
            return self._is_over and (self._progress.num_failed > 0 or not is_complete)
        if action == "copy_command":
            return bool(self._whole_command)
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

    def action_copy_command(self) -> None:
        """Copy the command of the whole study."""
        self.post_message(CopyText(self._whole_command))

    def action_retry(self) -> None:
        self.post_message(RetryStudy(self.runner.study.name))

    def action_cell(self) -> None:
        self.post_message(ShowCell(self._chosen))


# The cells ----------------------------------------------------------------------------------------


def has_same_place(cell: Cell, other: Cell, compared_axis: str) -> bool:
    """Return True if two cells differ in this axis at the most."""
    return all(label == other.label(axis) for axis, label in cell.labels if axis != compared_axis)


def best_word(study: Study) -> str:
    """Return what the best value is called."""
    if study.compares_times:
        return "fastest"
    return "highest" if study.is_higher_better else "lowest"


def find_best_cells(result: StudyResult) -> set[str]:
    """Return the key of the cell whose value is the best, as it is shown; none while runs are
    missing, or if several are alike."""
    study = result.study
    values = {row.cell.key: row.value.value for row in result.cells if row.value}
    states = {row.state for row in result.cells}
    if len(values) < 2 or CellState.WAITING in states or CellState.RUNNING in states:
        return set()
    is_highest_best = study.is_higher_better and not study.compares_times
    best_value = max(values.values()) if is_highest_best else min(values.values())
    # What looks the same must not be told apart.
    best_text = format_value(best_value, study.metric)
    best_keys = {key for key in values if format_value(values[key], study.metric) == best_text}
    return best_keys if len(best_keys) == 1 else set()


def mark_cells(table: StudyTable, result: StudyResult, best_keys: Collection[str]) -> StudyTable:
    """Return the table with a word beside the best values."""
    place = table.labels + 2
    marked_rows = []
    for texts, row in zip(table.rows, result.cells, strict=True):
        marked = list(texts)
        if row.cell.key in best_keys:
            marked[place] += f" {best_word(result.study)}"
        marked_rows.append(tuple(marked))
    return replace(table, rows=tuple(marked_rows))


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


# Losses -------------------------------------------------------------------------------------------


TEST_LOSS = "test loss"
TRAINING_LOSS = "training loss"


class ComparedRuns(NamedTuple):
    """Runs whose mean is a curve."""

    name: str
    runs: Sequence[str]


class PlacedCurves(NamedTuple):
    """The curves of a chart, and at which place their cells are."""

    name: str
    curves: Sequence[Curve]


def read_curves(runs_dir: Path, compared: Sequence[ComparedRuns]) -> tuple[str, list[Curve]]:
    """Return which loss of these runs is known, and its means."""
    courses = list[list[LossCourse]]()
    for _, runs in compared[:SERIES_INKS]:
        courses.append([])
        for run in runs:
            with suppress(OtherFormat, RunFolderError):
                courses[-1].append(read_loss_points(runs_dir / run, LOSS_PLACES))
    # Tests are of the whole model; of the training, each place has other ranks and samples.
    is_tested = all(len(course.tests) > 1 for group in courses for course in group)
    curves = list[Curve]()
    for ink, (group, group_courses) in enumerate(zip(compared, courses, strict=False)):
        points = [course.tests if is_tested else course.training for course in group_courses]
        curve = make_mean_curve(group.name, ink, points)
        if curve:
            curves.append(curve)
    return TEST_LOSS if is_tested and curves else TRAINING_LOSS, curves


def make_mean_curve(name: str, ink: int, courses: Sequence[Sequence[LossPoint]]) -> Curve | None:
    """Return the mean of the losses of some runs, up to the last step of the shortest; None without
    two points."""
    # Of a short run, places overlap, so that a step comes several times.
    known = [dict(sorted(course)) for course in courses if course]
    if not known:
        return None
    last_step = min(max(course) for course in known)
    steps = np.array([step for step in known[0] if step <= last_step], float)
    if len(steps) < 2:
        return None
    losses = [np.interp(steps, list(course), list(course.values())) for course in known]
    mean = np.mean(losses, axis=0)
    dash = 0 if ink == LINE else ink
    return Curve(name, ink, steps, mean, mean, mean, band=False, dash=dash)


def make_own_curve(state: RunState, *, is_test: bool) -> Curve | None:
    """Return the losses of the run under way, of its tests or of its training; None without any."""
    if is_test:
        tests = [(test.step, test.loss) for test in state.progress.evaluations]
        return make_mean_curve("this run", LINE, [tests])
    losses = state.curves.whole("loss")
    if not len(losses.step):
        return None
    return Curve("this run", LINE, losses.step, losses.low, losses.high, losses.mean, band=False)


def has_hidden_curve(curves: Sequence[Curve]) -> bool:
    """Return True if a curve lies on another one, so that only one of them is seen."""
    for curve, other in combinations(curves, 2):
        is_as_long = len(curve.mean) == len(other.mean)
        if is_as_long and np.allclose(curve.mean, other.mean, rtol=HIDDEN):
            return True
    return False


# Times and values of runs ------------------------------------------------------------------------


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
        rounded_ends = [number(low), number(high)]
        if result.study.metric != "accuracy" and len(set(rounded_ends)) > 1:
            ends = rounded_ends
        title = f"  {_axis_title(ends, result.study, axis_width)}"
        columns.append(TableColumn(title, SPACE + axis_width + 1, right=False))
        rows = [
            (*row, TableCell(f"  {draw_values(_values(cell), low, high, axis_width)}"))
            for row, cell in zip(rows, result.cells, strict=True)
        ]
    return columns, rows


def _axis_title(ends: Sequence[str], study: Study, width: int) -> str:
    """Return what an axis shows, in as long a word as fits, and both of its ends."""
    ends_text = " to ".join(ends)
    titles = [f"{name}, {ends_text}" for name in (metric_header(study), study.metric)]
    return next((title for title in (*titles, ends_text) if len(title) <= width), "")


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
