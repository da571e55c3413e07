"""A chart: one of those of `tui.charts.kinds`, in a view that keys and the mouse change."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import ClassVar

from textual import events
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.content import Content
from textual.message import Message

from remote.record.reread import RunClocks, reread_steps
from remote.run.output.script_readings import expander
from remote.run.run_state import RunState
from remote.run.series.curves import Curves
from remote.run.series.definitions import SERIES, Scope
from remote.run.state.phases import RunPhase
from remote.run.state.rank_state import RankState
from tui.charts import values
from tui.charts.axis import Axis
from tui.charts.chart import Chart
from tui.charts.drawing import Drawing, coarse, drawing
from tui.charts.fine import Fine
from tui.charts.frame import Look
from tui.charts.kinds import KINDS, Kind
from tui.charts.view import View
from tui.kit import palette
from tui.kit.actions import Place
from tui.kit.bindings import bindings
from tui.kit.messages import ReadRecord, SaveChart
from tui.kit.panel import Panel, ScreenRow
from tui.kit.rank_table import RankTable
from tui.kit.turn import Turn

EVERY = 3
"""Ticks from one drawing of a growing curve to the next: a chart costs ten times a row of a table.
Charts beside each other take turns."""
WHEEL = 1.25
"""How many times closer a turn of the mouse wheel goes."""
AROUND = len("  9    ─ ")
"""Cells of a caption that are neither its title nor its notes."""


class Charts(Panel):
    """One chart of a run. `kind` and `view` say what it shows."""

    title = "charts"
    help = (
        "loss, time of an iteration, accuracy and all else that is measured: the mean over ranks, "
        "and from the least to the greatest as a band"
    )
    row = ScreenRow.MIDDLE
    copies = 3
    place = Place.CHART
    BINDINGS: ClassVar[list[BindingType]] = bindings(place)

    @dataclass
    class ViewChanged(Message):
        """The user has changed how a chart of this kind is seen."""

        kind: Kind
        view: View

    def __init__(self) -> None:
        super().__init__()
        self.kind: Kind = KINDS[0]
        self.view = View()
        self.is_chosen = False
        self._drawn: Drawing | None = None
        self._rows: Sequence[int] = ()
        self._described: tuple[object, ...] = ()
        self._run: RunState | None = None
        self._version = -1
        self._turn = Turn()
        self._fine = Fine()
        self._grip: tuple[int, View, Axis] | None = None

    def compose(self) -> ComposeResult:
        yield Chart(Look(""))

    @property
    def _plot(self) -> Chart:
        return self.query_one(Chart)

    def choose(self, kind: Kind, view: View) -> None:
        """Show this kind of chart from now on."""
        self.kind = kind
        self.view = view
        self.title = kind.title
        self.is_chosen = True
        self._drawn, self._rows, self._version, self._fine = None, (), -1, Fine()
        self._plot.logarithmic = view.log_y and not kind.stacked

    def needs_kind(self, name: str) -> bool:
        """Whether it does not show the chart of that id yet."""
        return not self.is_chosen or self.kind.id != name

    def show(self, run: RunState) -> None:
        if run is not self._run:  # of a replay that went back: what comes later is not there
            self._run, self._fine, self._version = run, Fine(), -1
        version = run.curves.version
        is_due = self._turn.has_come(EVERY, self.number) or run.phase is RunPhase.ENDED
        if self._version < 0 or (version != self._version and is_due):
            self._version = version
            self._drawn = drawn = drawing(run, self.kind, self.view, self._fine.within(self.view))
            part = coarse(drawn, self.kind, self.view, run)
            if part:
                self._read(part, run)
            self._rows = run.curves.rows(self.kind.series[0])  # the keys do not hold the run's lock
            self._plot.draw(drawn.curves, drawn.marks, drawn.look)
        self._describe()

    def _describe(self) -> None:
        """Write the caption, if it is another one."""
        about = self._drawn, self.title, self.size.width, self.app.current_theme.dark
        if about != self._described:
            self._described = about
            self.caption(self._notes())

    def _notes(self) -> Content | str:
        if self._drawn is None:
            return ""
        room = self.size.width - AROUND - len(self.title)
        dark = self.app.current_theme.dark
        parts = values.heading(self._drawn, self.kind, self.view, room)
        return Content.assemble(
            *(
                (text, palette.colour(colour, dark)) if colour >= 0 else text
                for text, colour in parts
            )
        )

    def _read(self, part: tuple[int, int], run: RunState) -> None:
        """Read the steps in view again, and those at both sides, unless that was done."""
        last = self._drawn.ends[1] if self._drawn and self._drawn.ends else 0.0
        if not self._fine.begin(part, self.view, last):
            return
        low, high = self._fine.steps
        clocks, ranks = RunClocks.of(run), run.plan.world_size  # also those that a restart left out
        expand = expander(run.plan)
        read = partial(reread_steps, ranks=ranks, clocks=clocks, low=low, high=high, expand=expand)
        take = partial(self._take, self._fine, self._fine.steps)
        self.post_message(ReadRecord(run.plan.run, read, take))

    def _take(self, fine: Fine, part: tuple[int, int], curves: Curves | None) -> None:
        fine.take(part, curves)
        self._version = -1

    # Views

    def see(self, view: View) -> None:
        """Change what one sees of it."""
        if view == self.view:
            return
        self.view = view
        self._plot.logarithmic = view.log_y and not self.kind.stacked
        self._version = -1
        self.post_message(self.ViewChanged(self.kind, view))

    @property
    def layered(self) -> bool:
        return self.view.left() != self.view

    def leave(self) -> None:
        self.see(self.view.left())

    def _moved(self, how: str, *given: float) -> None:
        """Zoom, pan or follow, where there is anything to see."""
        axis = self._plot.along
        ends = self._drawn.ends if self._drawn else None
        if axis and ends:
            self.see(getattr(self.view, how)(*given, axis, ends))

    def action_zoom_x(self, factor: float) -> None:
        axis = self._plot.along
        if axis:
            middle = axis.value(0.5)
            self._moved("zoomed", factor, middle if self.view.cursor is None else self.view.cursor)

    def action_pan(self, share: float) -> None:
        self._moved("panned", share)

    def action_whole(self) -> None:
        self.see(self.view.whole())

    def action_live(self) -> None:
        self._moved("followed")

    def action_cursor(self, by: int) -> None:
        axis = self._plot.along
        if axis and self._drawn:
            x = values.moved(self._drawn, self.view, axis, by)
            self.see(replace(self.view, cursor=x))

    def action_x_axis(self) -> None:
        self.see(self.view.next_axis())

    def action_log_x(self) -> None:
        self.see(replace(self.view.whole(), log_x=not self.view.log_x))

    def action_log_y(self) -> None:
        self.see(replace(self.view, log_y=not self.view.log_y))

    def action_smooth(self, by: int) -> None:
        self.see(self.view.smoothed(by))

    def action_marks(self) -> None:
        self.see(replace(self.view, marks=not self.view.marks))

    def action_band(self) -> None:
        if self._run and not self.kind.stacked:
            self.see(self.view.next_mode(len(self._rows), self._chosen_row(self._run)))

    def _chosen_row(self, run: RunState) -> int:
        """The place of the rank that was chosen in the table of ranks, else of the slowest; of its
        host, where the rows are hosts."""
        table = next(iter(self.screen.query(RankTable)), None)
        rank = table.chosen_rank if table else None
        chosen = rank or max(run.ranks, key=_ready)
        scope = SERIES[self.kind.series[0]].scope
        number = chosen.host if scope is Scope.HOST else chosen.rank
        return self._rows.index(number) if number in self._rows else 0

    def action_export(self) -> None:
        if self._drawn and self._run:
            name = f"{self.kind.id}-step{self._run.step}"
            drawn = self._drawn
            kind = self.kind
            view = self.view
            run = f"{self._run.plan.what}, {self._run.plan.run}"

            def save(folder: Path, name: str) -> list[Path]:
                from tui.charts import export

                return export.save(folder, name, drawn, kind, view, run)

            self.post_message(SaveChart(self._run.plan.run, name, save))

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Areas over each other have no choice of curves, no logarithm, no smoothing."""
        return not (self.kind.stacked and action in ("band", "log_y", "smooth"))

    # The mouse

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        self._wheel(event, WHEEL)

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        self._wheel(event, 1 / WHEEL)

    def _wheel(self, event: events.MouseEvent, factor: float) -> None:
        x = self._plot.x_at(int(event.screen_x) - self._plot.region.x)
        if x is not None:
            event.stop()
            self._moved("zoomed", factor, x)

    def on_mouse_down(self, event: events.MouseDown) -> None:
        if event.button == 1 and self._plot.along:
            self._grip = int(event.screen_x), self.view, self._plot.along
            self.capture_mouse()

    def on_mouse_move(self, event: events.MouseMove) -> None:
        if self._grip and self._drawn and self._drawn.ends:
            begun, view, axis = self._grip
            share = (begun - int(event.screen_x)) / max(self._plot.size.width, 1)
            if share and not view.is_whole:
                self.see(view.panned(share, axis, self._drawn.ends))

    def on_mouse_up(self, event: events.MouseUp) -> None:
        if not self._grip:
            return
        self.release_mouse()
        begun, _, _ = self._grip
        self._grip = None
        if int(event.screen_x) == begun:
            x = self._plot.x_at(begun - self._plot.region.x)
            self.see(replace(self.view, cursor=x))


def _ready(rank: RankState) -> float:
    """The seconds until the last gradient of a rank is ready; less than all others where that is
    not known."""
    known = rank.pace.median("ready")
    return -math.inf if math.isnan(known) else known
