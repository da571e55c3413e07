"""A chart: one of those of `tui.charts.kinds`, in a view that keys and the mouse change."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from textual.content import Content

from remote.record.reread import RunClocks, reread_steps
from remote.record.step_notes import StepNote
from remote.run.findings.script_visibility import describe_missing_steps
from remote.run.output.script_readings import expander
from remote.run.run_state import RunState
from remote.run.series.curves import Curves
from remote.run.state.phases import RunPhase
from tui.charts.chart_view import ChartView
from tui.charts.drawing import Baseline
from tui.charts.export import save_chart
from tui.charts.fine_curves import FineCurves
from tui.charts.heading import heading, nearest_point
from tui.charts.kinds import ChartKind
from tui.charts.make_drawing import make_drawing, steps_to_refine, with_header_figures
from tui.charts.viewed_chart import ViewedChart
from tui.kit import palette
from tui.kit.draw_turn import DrawTurn
from tui.kit.messages import ReadRecord, SaveChart
from tui.kit.themes import inks_of

TICKS_PER_DRAWING = 4
"""A growing curve is drawn at every fourth tick, as a chart costs ten times a row of a table."""
MAX_STEP_RATIO = 1 + 1 / 16
"""How many times the step that was drawn a run may be at before its turn has come."""
CAPTION_FRAME_WIDTH = len("      ─")
"""Cells of a caption that are neither its number, its title nor its notes."""


WIDTHS = (110, 150)
"""Columns from which on there are two charts beside each other, and three."""


def charts_beside(width: int) -> int:
    """Return for how many charts there is room in so many columns."""
    return 1 + sum(width >= least for least in WIDTHS)


class Charts(ViewedChart):
    """One chart of a run, which `kind` and `view` describe."""

    title = "charts"
    help = (
        "loss, time of an iteration, accuracy and all else that is measured: the mean over ranks, "
        "and from the least to the greatest as a band"
    )
    copies = 6

    def __init__(self) -> None:
        super().__init__()
        self.is_chosen = False
        self._baseline: Baseline | None = None
        self._notes: Sequence[StepNote] = ()
        self._caption_inputs: tuple[object, ...] = ()
        self._written_caption: tuple[object, ...] = ()
        self._drawn_step = self._drawn_tests = 0
        self._is_over = False
        self._turn, self._caption_turn = DrawTurn(), DrawTurn()
        self._fine = FineCurves()

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
        elif self._drawing and has_changed and self._caption_turn.has_come_for(run):
            self._drawing = with_header_figures(self._drawing, self.kind, run)
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
        plot_height = self._plot.size.height
        inputs = (self._drawing, self.title, width, plot_height, inks)
        if inputs == self._caption_inputs:
            return
        self._caption_inputs = inputs
        parts: list[str | tuple[str, str]] = []
        if self._drawing is not None:
            number_width = len(palette.panel_number(self.number))
            room = width - CAPTION_FRAME_WIDTH - number_width - len(self.title)
            drawing = self._drawing.for_height(plot_height)
            for text, colour in heading(drawing, self.kind, self.view, room):
                parts.append((text, inks.by_number(colour)) if colour >= 0 else text)
        written = (parts, self.title, width)
        # Other figures may be the same text, which costs more to write than to make.
        if written != self._written_caption:
            self._written_caption = written
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


def _empty_text(run: RunState) -> str:
    """Say why a chart has no curves: before the first step, none has any."""
    if not run.step:
        return describe_missing_steps(run)
    return "no data" if run.phase is RunPhase.ENDED else "no data yet"
