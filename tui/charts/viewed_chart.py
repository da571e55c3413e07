"""A chart whose view keys and the mouse change."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

from msgspec import Struct, structs
from textual import events
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.message import Message

from remote.run.run_state import RunState
from remote.run.series.definitions import SERIES, Scope
from remote.run.state.rank_state import RankState
from tui.charts.axis import Axis
from tui.charts.chart import Chart
from tui.charts.chart_view import ChartView, XRange
from tui.charts.drawing import Drawing
from tui.charts.heading import next_cursor
from tui.charts.kinds import KINDS, ChartKind
from tui.charts.plot_frame import PlotOptions
from tui.kit.actions import KeyPlace
from tui.kit.bindings import bindings
from tui.kit.panel import Panel
from tui.kit.rank_table import RankTable

WHEEL_ZOOM = 1.25
"""How many times closer a turn of the mouse wheel goes."""


class _Drag(Struct, frozen=True):
    """A drag of the mouse, as it began."""

    screen_x: int
    view: ChartView
    axis: Axis


class ViewedChart(Panel):
    """A panel with a chart in a view, which is drawn again by whoever inherits from it."""

    place = KeyPlace.CHART
    BINDINGS: ClassVar[list[BindingType]] = bindings(place)

    @dataclass
    class ViewChanged(Message, namespace="charts"):
        """Posted when the user has changed the view of a chart."""

        kind: ChartKind
        view: ChartView

    def __init__(self) -> None:
        super().__init__()
        self.kind: ChartKind = KINDS[0]
        self.view = ChartView()
        self._drawing: Drawing | None = None
        self._drawn_version = -1
        """The version of the curves that is drawn, or -1 if the chart is to be drawn again."""
        self._rows: Sequence[int] = ()
        self._run: RunState | None = None
        self._drag: _Drag | None = None

    def compose(self) -> ComposeResult:
        yield Chart(PlotOptions(""))

    @property
    def _plot(self) -> Chart:
        return self.query_one(Chart)

    # Keys

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
            self.set_view(structs.replace(self.view, cursor=cursor))

    def action_x_axis(self) -> None:
        self.set_view(self.view.next_axis())

    def action_log_x(self) -> None:
        self.set_view(structs.replace(self.view.whole(), log_x=not self.view.log_x))

    def action_log_y(self) -> None:
        if self._drawing:
            options = self._drawing.options.for_height(self._plot.size.height)
            self.set_view(structs.replace(self.view, log_y=not options.log_y))

    def action_smooth(self, change: int) -> None:
        if self._drawing:
            self.set_view(self.view.smoothed(change, self._drawing.smoothing))

    def action_marks(self) -> None:
        self.set_view(structs.replace(self.view, marks=not self.view.marks))

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
            self.set_view(structs.replace(self.view, cursor=x))


def _seconds_until_ready(rank: RankState) -> float:
    """Return the seconds until the last gradient of a rank is ready, or -inf if unknown."""
    seconds = rank.pace.median("ready")
    return -math.inf if math.isnan(seconds) else seconds
