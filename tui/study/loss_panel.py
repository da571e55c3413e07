"""The panel of a study with the losses of the runs that are compared with the chosen ones."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
from textual import work
from textual.app import ComposeResult
from textual.containers import Container
from textual.content import Content
from textual.worker import get_current_worker

from remote.format import listed
from remote.run.run_state import RunState
from remote.sanitise import plain
from remote.study.progress import CellProgress, StudyProgress
from remote.study.study import Cell
from tui.charts.chart import Chart
from tui.charts.plot_frame import PlotOptions
from tui.charts.raster import Curve
from tui.kit import palette
from tui.kit.inks import MUTED
from tui.kit.themes import inks_of
from tui.study.loss_curves import (
    TEST_LOSS,
    ComparedRuns,
    LossComparison,
    make_guess_line,
    make_own_curve,
    read_comparison,
)
from tui.study.verdict_text import name_place


class LossPanel(Container):
    """A chart of the losses of compared cells over each other; hidden while none is known."""

    DEFAULT_CSS = """
    LossPanel {
        height: 1fr; display: none; padding: 0 1;
        border-top: solid $ink-rule; border-title-color: $text-muted;
    }
    """

    def __init__(self, runs_dir: Path) -> None:
        super().__init__()
        self._runs_dir = runs_dir
        self._chosen: CellProgress | None = None
        self._place_name = ""
        self._has_means = False
        self._comparison = LossComparison()
        self._guess_loss = math.nan
        self._names_span = False
        self._own_curve: Curve | None = None
        """The loss of the run under way."""

    def compose(self) -> ComposeResult:
        chart = Chart(PlotOptions("step"))
        chart.can_focus = False
        yield chart

    def show_cell(
        self,
        progress: StudyProgress,
        chosen: CellProgress,
        *,
        guess_loss: float = math.nan,
        names_span: bool = False,
    ) -> None:
        """Read the losses of the cells that are compared with this one, and draw them, with a line
        at the loss of guesses unless that is NaN. With `names_span`, the title says how little the
        axis spans: losses that hardly fall must not be read as if they did."""
        axis = progress.study.compare
        self._chosen = chosen
        self._place_name = name_place(chosen.cell, axis)
        self._has_means = any(len(cell.counted) > 1 for cell in progress.cells.values())
        self._guess_loss = guess_loss
        self._names_span = names_span
        self._read_losses(chosen, list_compared(progress, chosen), list_places(progress))

    @work(thread=True, exclusive=True)
    def _read_losses(
        self,
        chosen: CellProgress,
        compared: list[ComparedRuns],
        compared_by_place: dict[str, list[ComparedRuns]],
    ) -> None:
        comparison = read_comparison(self._runs_dir, compared, compared_by_place)
        # The cursor may have gone on, or the screen may have closed.
        if not get_current_worker().is_cancelled:
            self.app.call_from_thread(self._take_losses, chosen, comparison)

    def _take_losses(self, chosen: CellProgress, comparison: LossComparison) -> None:
        if self.is_attached and chosen is self._chosen:
            self._comparison = comparison
            self._draw()

    def show_run(self, state: RunState | None) -> None:
        """Draw the loss of the run under way, too; None if there is none."""
        own_curve = None
        if state:
            own_curve = make_own_curve(state, is_test=self._comparison.loss_name == TEST_LOSS)
        if own_curve or self._own_curve:
            self._own_curve = own_curve
            self._draw()

    def _draw(self) -> None:
        curves = [*self._comparison.curves, *([self._own_curve] if self._own_curve else [])]
        self.display = bool(curves)
        self.border_title = self._describe(curves)
        guess_line = make_guess_line(curves, self._guess_loss)
        options = PlotOptions("step", point_labels=guess_line.labels)
        self.query_one(Chart).draw([*guess_line.curves, *curves], options=options)

    def _describe(self, curves: list[Curve]) -> Content:
        """Return what is drawn, with the sign of each curve in its ink. Where that is too long, it
        does not say of what all curves are: the row under the cursor has it."""
        comparison = self._comparison
        subject = ""
        if comparison.same_names:
            names = comparison.same_names
            subject = f" of {listed(names, len(names))} (same)"
        elif self._place_name:
            subject = f" at {self._place_name}"
        parts: list[tuple[str, str]] = []
        inks = inks_of(self.app.current_theme)
        for curve in curves:
            ink = inks.by_number(curve.colour)
            parts += [(f"  {palette.sign('curve')}", ink), (f" {plain(curve.label)}", "")]
        notes = []
        if self._names_span and curves:
            values = np.concatenate([curve.mean for curve in curves])
            notes.append(f"the axis spans {np.nanmax(values) - np.nanmin(values):.2g}")
        if self._has_means:
            notes.append("means of runs")
        note_texts = [f"  ({', '.join(notes[:count])})" for count in range(len(notes), 0, -1)]
        whole_head = f" {comparison.loss_name}{plain(subject)}:"
        short_head = f" {comparison.loss_name}:"
        titles = [
            Content.assemble(head, *parts, (note_text, MUTED), " ")
            for head in (whole_head, short_head)
            for note_text in (*note_texts, "")
        ]
        # The rule around a title takes two cells at each side.
        room = self.app.size.width - 4
        return next((title for title in titles if title.cell_length <= room), titles[-1])


def list_compared(progress: StudyProgress, chosen: CellProgress) -> list[ComparedRuns]:
    """Return the runs of the cells that differ from this one in the compared axis only; without
    such an axis, its own runs, each for itself."""
    axis = progress.study.compare
    compared_cells = [
        cell
        for cell in progress.cells.values()
        if axis and has_same_place(cell.cell, chosen.cell, axis)
    ]
    if len(compared_cells) < 2:
        return [
            ComparedRuns(f"run {number}", (end.run,))
            for number, end in enumerate(chosen.counted_runs, 1)
        ]
    return [
        ComparedRuns(cell.cell.label(axis), tuple(end.run for end in cell.counted_runs))
        for cell in compared_cells
    ]


def list_places(progress: StudyProgress) -> dict[str, list[ComparedRuns]]:
    """Return the compared runs at all places, by their names."""
    axis = progress.study.compare
    places = dict[str, list[ComparedRuns]]()
    for cell in progress.cells.values():
        place_name = name_place(cell.cell, axis)
        if axis and place_name not in places:
            places[place_name] = list_compared(progress, cell)
    return places


def has_same_place(cell: Cell, other: Cell, compared_axis: str) -> bool:
    """Return True if two cells differ in this axis at the most."""
    return all(label == other.label(axis) for axis, label in cell.labels if axis != compared_axis)
