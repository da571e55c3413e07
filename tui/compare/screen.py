"""Runs beside each other: curves by step or by time, what differs, and what they came to."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import zip_longest
from pathlib import Path
from textwrap import wrap
from typing import ClassVar

from msgspec import structs
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Container, VerticalScroll
from textual.content import Content
from textual.events import Resize
from textual.screen import Screen
from textual.widgets import Static

from remote.format import UNKNOWN, count
from remote.metrics.compare import ComparedRun, compare_runs
from remote.metrics.run import read_figures
from remote.plan.plan import PlanError
from remote.record import marks
from remote.record.events_file import RunFolderError
from remote.sanitise import plain
from tui.charts.chart import Chart
from tui.charts.chart_view import USUAL_SMOOTHING
from tui.charts.overlay import LOSS, MEASURES, TEST_ACCURACY
from tui.charts.plot_frame import PlotOptions
from tui.compare.comparison_text import (
    DISPENSABLE_COLUMNS,
    MAX_SETTING_LENGTH,
    describe_doubts,
    describe_outcome,
    describe_problems,
    results_table,
    settings_table,
    shorten_setting,
)
from tui.compare.verdict_text import format_verdict
from tui.kit import palette
from tui.kit.actions import KeyPlace
from tui.kit.background import run_in_background
from tui.kit.bindings import bindings
from tui.kit.inks import MUTED, Inks
from tui.kit.messages import PinRun
from tui.kit.palette import RUN_LETTERS
from tui.kit.text_table import GAP, Row, align_lines, drop_columns, total_width
from tui.kit.themes import inks_of
from tui.kit.widgets.keys import KeyFooter

MARGIN_WIDTH = 3
"""Cells of a line that the padding and the scrollbar take."""
OVER_STEPS = PlotOptions("step", named=True)
OVER_TIME = PlotOptions("time since the first step", clock=True, named=True)


class CompareScreen(Screen[None]):
    """Two to eight recorded runs, compared with the first one. It reads them itself."""

    CSS = """
    CompareScreen #title { height: 1; padding: 0 1; background: $panel; text-style: bold; }
    CompareScreen VerticalScroll { height: auto; padding: 0 1; scrollbar-size-vertical: 1; }
    CompareScreen #runs { max-height: 30%; }
    CompareScreen #tables { max-height: 38%; }
    CompareScreen #charts, CompareScreen #tables {
        border-top: solid $ink-rule; border-title-color: $text-muted;
    }
    CompareScreen #charts { height: 1fr; min-height: 6; }
    CompareScreen #runs:focus { background: $boost; }
    CompareScreen #tables:focus { border-top: solid $primary; }
    """
    place = KeyPlace.COMPARE
    BINDINGS: ClassVar[list[BindingType]] = bindings(place)

    def __init__(self, folders: Iterable[Path]) -> None:
        super().__init__()
        self._folders = tuple(folders)
        self._compared: Sequence[ComparedRun] = ()
        self._names = [marks.name(folder) or folder.name for folder in self._folders]
        self._measure = LOSS
        self._by_time = True
        self._log_y: bool | None = None

    def compose(self) -> ComposeResult:
        yield Static(id="title", markup=False)
        with VerticalScroll(id="runs"):
            yield Static("reading the runs", id="legend", markup=False)
        with Container(id="charts"):
            yield Chart(OVER_TIME)
        with VerticalScroll(id="tables"):
            yield Static(id="table", markup=False)
        yield KeyFooter()

    def on_mount(self) -> None:
        self.query_one("#title", Static).update(plain(self._title()))
        self.query_one("#tables").focus()
        self._draw()
        # The colours of runs are not in the style sheet: those for a dark ground are others.
        self.app.theme_changed_signal.subscribe(self, lambda _: self._draw())
        run_in_background(
            self, self._read, self._show_runs, self._show_error
        )  # long runs take seconds

    def _read(self) -> Sequence[ComparedRun]:
        return compare_runs([read_figures(folder) for folder in self._folders])

    def _show_runs(self, compared: Sequence[ComparedRun]) -> None:
        self._compared = compared
        # A single test would be a point, and no curve.
        if all(len(run.run.evaluations) > 1 for run in compared):
            self._measure = TEST_ACCURACY
        self._draw()

    def _show_error(self, error: Exception) -> None:
        if not isinstance(error, (PlanError, RunFolderError, OSError)):
            raise error
        self.query_one("#legend", Static).update(plain(str(error)))

    def on_resize(self, event: Resize) -> None:
        self.call_after_refresh(self._draw)

    # Drawing

    def _draw(self) -> None:
        self.query_one("#charts").border_title = self._chart_title(is_log=False)
        if not self._compared:
            return
        runs = [compared.run for compared in self._compared]
        curves = self._measure.curves(runs, clock=self._by_time, smoothed=True)
        is_log = self._measure.is_log(curves) if self._log_y is None else self._log_y
        options = structs.replace(OVER_TIME if self._by_time else OVER_STEPS, log_y=is_log)
        self.query_one(Chart).draw(curves, options=options)
        self.query_one("#charts").border_title = self._chart_title(is_log)
        room = self.size.width - MARGIN_WIDTH
        legend = _legend(self._compared, self._names, room, inks_of(self.app.current_theme))
        self.query_one("#legend", Static).update(Content("\n").join(legend))
        tables = _tables(self._compared, room)
        self.query_one("#table", Static).update("\n".join(tables))

    def _title(self) -> str:
        """Name the runs if there is room."""
        title = f"compare {count(len(self._names), 'run')}"
        # Not strict, as there are more letters than runs.
        lettered = map(" ".join, zip(RUN_LETTERS, self._names, strict=False))
        long_title = f"{title}: {', '.join(lettered)}"
        return long_title if len(long_title) <= self.app.size.width - 2 else title

    def _chart_title(self, is_log: bool) -> str:
        along = "wall time" if self._by_time else "step"
        notes = "  log" if is_log else ""
        if self._measure.is_noisy:
            notes += f"  ema {USUAL_SMOOTHING:g}".replace("0.", ".")
        return f" {self._measure.title} by {along}{notes} "

    # Keys

    def action_back(self) -> None:
        """Close this page."""
        self.dismiss()

    def action_along(self) -> None:
        """Switch between steps and time."""
        self._by_time = not self._by_time
        self._draw()

    def action_measure(self) -> None:
        """Show the next metric."""
        next_index = MEASURES.index(self._measure) + 1
        self._measure = MEASURES[next_index % len(MEASURES)]
        self._draw()

    def action_pin(self) -> None:
        """Pin run A as the baseline of all charts, or take its pin away."""
        self.post_message(PinRun(self._folders[0]))

    def action_log_y(self) -> None:
        """Switch between a logarithmic and a linear y axis."""
        self._log_y = not self.query_one(Chart).options.log_y
        self._draw()


def _legend(
    compared: Sequence[ComparedRun], names: Sequence[str], width: int, inks: Inks
) -> Iterator[Content]:
    """Yield the runs with their colours, their problems and their verdicts, and then doubts."""
    for place, (run, name) in enumerate(zip(compared, names, strict=True)):
        letter = f"{palette.sign('curve')} {RUN_LETTERS[place]}"
        head, *rest = _fold(f"{name}: {describe_outcome(run.run)}", width)
        colour = inks.by_number(place)
        yield Content.assemble((letter, colour), GAP, head.strip())
        for line in rest:
            yield Content(line)
        if place:
            for text in _describe_differences(compared, place, width):
                for line in _fold(text, width):
                    yield Content.styled(line, MUTED)
        for problem in describe_problems(run.run):
            for line in _fold(problem, width):
                yield Content(line)
        if place:
            yield from _bold_lines(format_verdict(run), width)
    for doubt in describe_doubts(compared):
        yield from _bold_lines(doubt, width)


def _describe_differences(compared: Sequence[ComparedRun], place: int, width: int) -> Iterator[str]:
    """Yield in which settings a run differs from the first one, whose values come first."""
    rows = [row for row in settings_table(compared)[1:] if row[1] != row[1 + place]]
    first = RUN_LETTERS[0]
    if not rows:
        yield f"the same settings as {first}"
        return
    head = f"differs from {first} in "
    is_job, was_job = (compared[index].run.job is not None for index in (place, 0))
    if is_job == was_job:
        yield head + ", ".join(_difference(row, place) for row in rows)
        return
    kinds = {True: "a job of rankboard", False: "a script"}
    yield f"{first} is {kinds[was_job]}, {RUN_LETTERS[place]} {kinds[is_job]}"
    # What only one of them has is in the table, too.
    common_rows = [row for row in rows if UNKNOWN not in (row[1], row[1 + place])]
    yield _first_differences(head, [_difference(row, place) for row in common_rows], rows, width)


def _difference(row: Row, place: int) -> str:
    name, *values = row
    return f"{name} {shorten_setting(values[0])} | {shorten_setting(values[place])}"


def _first_differences(head: str, parts: Sequence[str], rows: Sequence[Row], width: int) -> str:
    """Return the differences that one line has room for, and how many of all rows are left."""
    text = f"{head}{count(len(rows), 'setting')}"
    shown_parts: list[str] = []
    for part in parts:
        num_left = len(rows) - len(shown_parts) - 1
        left_texts = [f"… and {num_left} more"] if num_left else []
        longer_text = head + ", ".join([*shown_parts, part, *left_texts])
        if len(_fold(longer_text, width)) == 1:
            shown_parts.append(part)
            text = longer_text
    return text


def _bold_lines(text: str, width: int) -> Iterator[Content]:
    for line in _fold(text, width):
        yield Content.styled(line, "bold")


def _fold(text: str, width: int) -> list[str]:
    """Return the lines of a text, indented as far as the name of its run."""
    indent = " " * len(f"● A{GAP}")
    # textwrap refuses a width below 1. A screen may be that narrow for a moment.
    lines = wrap(plain(text), max(width, 20), initial_indent=indent, subsequent_indent=indent)
    return lines or [""]


def _tables(compared: Sequence[ComparedRun], room: int) -> list[str]:
    """Return the results and the settings that differ, side by side if there is room."""
    results = _results(compared, room)
    result_lines = align_lines(results)
    settings = _settings(compared, room)
    if not settings:
        return result_lines
    setting_lines = align_lines(settings)
    result_width = total_width(results) + 2 * len(GAP)
    if result_width + total_width(settings) > room:
        return [*result_lines, "", *setting_lines]
    pairs = zip_longest(result_lines, setting_lines, fillvalue="")
    return [f"{left:{result_width}}{right}".rstrip() for left, right in pairs]


def _results(compared: Sequence[ComparedRun], room: int) -> list[Row]:
    """Return the results with a run per column, or if that is too wide, with a run per row."""
    table = results_table(compared)
    run_per_column = [*zip(*table, strict=True)]
    if total_width(run_per_column) <= room:
        return run_per_column
    return drop_columns(DISPENSABLE_COLUMNS, table, room)


def _settings(compared: Sequence[ComparedRun], room: int) -> list[Row]:
    """Return the settings that differ, with values that are cut so that all runs fit."""
    head, *rows = settings_table(compared)
    if not rows:
        return []
    name_width = max(len(name) for name, *_ in rows)
    width_per_run = (room - name_width) // len(compared) - len(GAP)
    max_length = min(MAX_SETTING_LENGTH, max(2, width_per_run))
    table = [head]
    for name, *values in rows:
        table.append((name, *(shorten_setting(plain(value), max_length) for value in values)))
    return table
