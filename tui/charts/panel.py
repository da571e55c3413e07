"""A chart: one of those of `tui.charts.kinds`, in a view that keys and the mouse change."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar

from textual import events
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.content import Content
from textual.message import Message

from remote.record.reread import RunClocks, reread_steps
from remote.record.step_notes import StepNote
from remote.run.findings.script_visibility import describe_missing_steps
from remote.run.output.script_readings import expander
from remote.run.run_state import RunState
from remote.run.series.curves import Curves
from remote.run.series.definitions import SERIES, Scope
from remote.run.state.phases import RunPhase
from remote.run.state.rank_state import RankState
from tui.charts.axis import Axis
from tui.charts.chart import Chart
from tui.charts.chart_view import ChartView, XRange
from tui.charts.drawing import Baseline, Drawing, make_drawing, steps_to_refine
from tui.charts.export import save_chart
from tui.charts.fine_curves import FineCurves
from tui.charts.heading import heading, nearest_point, next_cursor
from tui.charts.kinds import KINDS, ChartKind
from tui.charts.plot_frame import PlotOptions
from tui.kit.actions import KeyPlace
from tui.kit.bindings import bindings
from tui.kit.draw_turn import DrawTurn
from tui.kit.messages import ReadRecord, SaveChart
from tui.kit.panel import Panel
from tui.kit.rank_table import RankTable
from tui.kit.themes import inks_of

TICKS_PER_DRAWING = 4
"""A growing curve is drawn at every fourth tick, as a chart costs ten times a row of a table."""
MAX_STEP_RATIO = 1 + 1 / 16
"""How many times the step that was drawn a run may be at before its turn has come."""
WHEEL_ZOOM = 1.25
"""How many times closer a turn of the mouse wheel goes."""
CAPTION_FRAME_WIDTH = len("  9    ─ ")
"""Cells of a caption that are neither its title nor its notes."""


WIDTHS = (110, 150)
"""Columns from which on there are two charts beside each other, and three."""


def charts_beside(width: int) -> int:
    """Return for how many charts there is room in so many columns."""
    return 1 + sum(width >= least for least in WIDTHS)


@dataclass(frozen=True)
class _Drag:
    """A drag of the mouse, as it began."""

    screen_x: int
    view: ChartView
    axis: Axis


class Charts(Panel):
    """One chart of a run, which `kind` and `view` describe."""

    title = "charts"
    help = (
        "loss, time of an iteration, accuracy and all else that is measured: the mean over ranks, "
        "and from the least to the greatest as a band"
    )
    copies = 6
    place = KeyPlace.CHART
    BINDINGS: ClassVar[list[BindingType]] = bindings(place)

    @dataclass
    class ViewChanged(Message):
        """Posted when the user has changed the view of a chart."""

        kind: ChartKind
        view: ChartView

    def __init__(self) -> None:
        super().__init__()
        self.kind: ChartKind = KINDS[0]
        self.view = ChartView()
        self.is_chosen = False
        self._baseline: Baseline | None = None
        self._notes: Sequence[StepNote] = ()
        self._drawing: Drawing | None = None
        self._rows: Sequence[int] = ()
        self._caption_inputs: tuple[object, ...] = ()
        self._run: RunState | None = None
        self._drawn_version = -1
        self._drawn_step = self._drawn_tests = 0
        self._is_over = False
        self._turn = DrawTurn()
        self._fine = FineCurves()
        self._drag: _Drag | None = None

    def compose(self) -> ComposeResult:
        yield Chart(PlotOptions(""))

    @property
    def _plot(self) -> Chart:
        return self.query_one(Chart)

    def choose(self, kind: ChartKind, view: ChartView) -> None:
        """Show this kind of chart in this view from now on."""
        self.kind = kind
        self.view = view
        self.title = kind.title
        self.is_chosen = True
        self._drawing = None
        self._rows = ()
        self._drawn_version = -1
        self._fine = FineCurves()

    def show_baseline(self, baseline: Baseline | None) -> None:
        """Draw the curve of a baseline behind the others from now on, or none."""
        if baseline != self._baseline:
            self._baseline = baseline
            self._drawn_version = -1

    def show_notes(self, notes: Sequence[StepNote]) -> None:
        """Mark these notes from now on."""
        self._notes = notes
        self._drawn_version = -1

    @property
    def cursor_step(self) -> int | None:
        """Return the step of the point at the cursor, or None without a cursor."""
        if self.view.cursor is None or not self._drawing or not self._drawing.lines:
            return None
        line = self._drawing.lines[0]
        point = nearest_point(line, self.view.cursor)
        return None if point is None else round(float(line.points.step[point]))

    def needs_kind(self, name: str) -> bool:
        """Return True if it does not show the chart of that id yet."""
        return not self.is_chosen or self.kind.id != name

    def show(self, run: RunState) -> None:
        if run is not self._run:
            # A replay that went back makes a new run, which lacks what was read ahead.
            self._run = run
            self._fine = FineCurves()
            self._drawn_version = -1
        version = run.curves.version
        is_over = run.phase is RunPhase.ENDED
        is_due = self._turn.has_come(TICKS_PER_DRAWING, self.number) or is_over
        is_due = is_due or self._has_fallen_behind(run)
        # At the end, what stands in an empty chart is no promise any more.
        has_changed = version != self._drawn_version or is_over is not self._is_over
        self._is_over = is_over
        if self._drawn_version < 0 or (has_changed and is_due):
            self._drawn_version = version
            self._drawn_step = run.step
            self._drawn_tests = len(run.progress.evaluations)
            self._draw(run)
        self._update_caption()

    def _has_fallen_behind(self, run: RunState) -> bool:
        """Return True if the chart would seem to show another moment than the header: it ends
        farther before it than a growing axis may be too long, or lacks a test."""
        is_behind = run.step > MAX_STEP_RATIO * self._drawn_step
        return is_behind or len(run.progress.evaluations) != self._drawn_tests

    def _draw(self, run: RunState) -> None:
        drawing = make_drawing(
            run,
            self.kind,
            self.view,
            self._fine.for_view(self.view),
            self._baseline,
            self._notes,
        )
        self._drawing = drawing
        steps = steps_to_refine(drawing, self.kind, self.view, run)
        if steps and drawing.x_range:
            self._read_again(steps, drawing.x_range[1], run)
        # Copied here, because key presses do not hold the run's lock.
        self._rows = run.curves.rows(self.kind.series[0])
        self._plot.empty_text = _empty_text(run)
        self._plot.draw(drawing.curves, drawing.marks, drawing.options)

    @property
    def reads_note(self) -> bool:
        """Whether the caption has the values at the cursor."""
        return self.view.cursor is not None

    def _update_caption(self) -> None:
        inks = inks_of(self.app.current_theme)
        width = self.size.width
        inputs = (self._drawing, self.title, width, inks)
        if inputs == self._caption_inputs:
            return
        self._caption_inputs = inputs
        parts: list[str | tuple[str, str]] = []
        if self._drawing is not None:
            room = width - CAPTION_FRAME_WIDTH - len(self.title)
            for text, colour in heading(self._drawing, self.kind, self.view, room):
                parts.append((text, inks.by_number(colour)) if colour >= 0 else text)
        self.caption(Content.assemble(*parts) if parts else "")

    def _read_again(self, steps: tuple[int, int], last_x: float, run: RunState) -> None:
        """Read the steps in view and those at both sides again, unless that was done."""
        if not self._fine.request(steps, self.view, last_x):
            return
        low, high = self._fine.steps
        read = partial(
            reread_steps,
            ranks=max(run.plan.world_size, len(run.ranks)),  # also ranks that a restart left out
            clocks=RunClocks.of(run),
            first_step=low,
            last_step=high,
            expand=expander(run.plan),
        )
        # Those of now: until the steps are read, another chart may be chosen, or another run shown.
        take = partial(self._take, self._fine, self._fine.steps)
        self.post_message(ReadRecord(run.plan.run, read, take))

    def _take(self, fine: FineCurves, steps: tuple[int, int], curves: Curves | None) -> None:
        fine.take(steps, curves)
        self._drawn_version = -1

    # Views

    def set_view(self, view: ChartView) -> None:
        """Show the chart in this view, and post that it has changed."""
        if view == self.view:
            return
        self.view = view
        self._drawn_version = -1
        self.post_message(self.ViewChanged(self.kind, view))

    @property
    def layered(self) -> bool:
        return self.view.left() != self.view

    def leave(self) -> None:
        self.set_view(self.view.left())

    def _move(self, move: Callable[[Axis, XRange], ChartView]) -> None:
        """Show what a method of the view makes of the axis in view and the range of all x."""
        axis = self._plot.x_axis
        if axis and self._drawing and self._drawing.x_range:
            self.set_view(move(axis, self._drawing.x_range))

    def _zoom(self, factor: float, x: float | None) -> None:
        def zoom(axis: Axis, x_range: XRange) -> ChartView:
            fixed = axis.value_at(0.5) if x is None else x
            return self.view.zoomed(factor, fixed, axis, x_range)

        self._move(zoom)

    def action_zoom_x(self, factor: float) -> None:
        self._zoom(factor, self.view.cursor)

    def action_pan(self, share: float) -> None:
        self._move(partial(self.view.panned, share))

    def action_whole(self) -> None:
        self.set_view(self.view.whole())

    def action_live(self) -> None:
        self._move(self.view.followed)

    def action_cursor(self, direction: int) -> None:
        axis = self._plot.x_axis
        if axis and self._drawing:
            cursor = next_cursor(self._drawing, self.view, axis, direction)
            self.set_view(replace(self.view, cursor=cursor))

    def action_x_axis(self) -> None:
        self.set_view(self.view.next_axis())

    def action_log_x(self) -> None:
        self.set_view(replace(self.view.whole(), log_x=not self.view.log_x))

    def action_log_y(self) -> None:
        if self._drawing:
            self.set_view(replace(self.view, log_y=not self._drawing.options.log_y))

    def action_smooth(self, change: int) -> None:
        if self._drawing:
            self.set_view(self.view.smoothed(change, self._drawing.smoothing))

    def action_marks(self) -> None:
        self.set_view(replace(self.view, marks=not self.view.marks))

    def action_band(self) -> None:
        if self._run and not self.kind.stacked:
            self.set_view(self.view.next_mode(len(self._rows), self._chosen_row(self._run)))

    def _chosen_row(self, run: RunState) -> int:
        """Return the index of the rank chosen in the table of ranks, else of the slowest rank.

        If the rows of the chart are hosts, return the index of that rank's host.
        """
        table = next(iter(self.screen.query(RankTable)), None)
        chosen_rank = table.chosen_rank if table else None
        rank = chosen_rank or max(run.ranks, key=_seconds_until_ready)
        scope = SERIES[self.kind.series[0]].scope
        row = rank.host if scope is Scope.HOST else rank.rank
        return self._rows.index(row) if row in self._rows else 0

    def action_export(self) -> None:
        if self._drawing is None or self._run is None:
            return
        plan = self._run.plan
        name = f"{self.kind.id}-step{self._drawn_step}"
        save = partial(
            save_chart,
            drawing=self._drawing,
            kind=self.kind,
            run=f"{plan.what}, {plan.run}",
        )
        self.post_message(SaveChart(plan.run, name, save))

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Return False for choices that bars do not have."""
        return not (self.kind.stacked and action in ("band", "log_y", "smooth"))

    # The mouse

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        self._wheel(event, WHEEL_ZOOM)

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        self._wheel(event, 1 / WHEEL_ZOOM)

    def _wheel(self, event: events.MouseEvent, factor: float) -> None:
        x = self._plot.x_at(int(event.screen_x) - self._plot.region.x)
        if x is not None:
            event.stop()
            self._zoom(factor, x)

    def on_mouse_down(self, event: events.MouseDown) -> None:
        axis = self._plot.x_axis
        if event.button == 1 and axis:
            self._drag = _Drag(int(event.screen_x), self.view, axis)
            # Without that, the end of a drag that leaves the chart would go to another widget.
            self.capture_mouse()

    def on_mouse_move(self, event: events.MouseMove) -> None:
        drag = self._drag
        if drag is None or drag.view.is_whole:
            return
        # Always from where the drag began: roundings of single moves would add up.
        share = (drag.screen_x - int(event.screen_x)) / max(self._plot.size.width, 1)
        if share:
            self._move(lambda _, x_range: drag.view.panned(share, drag.axis, x_range))

    def on_mouse_up(self, event: events.MouseUp) -> None:
        drag = self._drag
        if drag is None:
            return
        self.release_mouse()
        self._drag = None
        is_click = int(event.screen_x) == drag.screen_x
        if is_click:
            x = self._plot.x_at(drag.screen_x - self._plot.region.x)
            self.set_view(replace(self.view, cursor=x))


def _seconds_until_ready(rank: RankState) -> float:
    """Return the seconds until the last gradient of a rank is ready, or -inf if unknown."""
    seconds = rank.pace.median("ready")
    return -math.inf if math.isnan(seconds) else seconds


def _empty_text(run: RunState) -> str:
    """Say why a chart has no curves: before the first step, none has any."""
    if not run.step:
        return describe_missing_steps(run)
    return "no data" if run.phase is RunPhase.ENDED else "no data yet"
