"""The base of panels with a chart: one curve per rank, copied only when it has grown."""

from __future__ import annotations

from itertools import accumulate
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.content import Content

from remote.run.state import RunPhase, RunState
from tui import palette
from tui.actions import Place, bindings
from tui.panels.parts.panel import Panel, ScreenRow
from tui.widgets.chart import Chart
from tui.widgets.frame import Look
from tui.widgets.raster import Curve

EVERY = 2
"""Ticks between two drawings of a growing curve: a chart costs ten times a row of a table."""
AROUND = len("  9    ─ ")
"""Cells of a caption that are neither its title nor its legend."""


class Curves(Panel):
    """A chart of one of the ranks' series."""

    row = ScreenRow.MIDDLE
    staged = True
    place = Place.CHART
    BINDINGS: ClassVar[list[BindingType]] = bindings(place)
    look: ClassVar[Look]
    series: ClassVar[str]
    """The id of the series that is drawn."""

    def compose(self) -> ComposeResult:
        self._version = -1
        self._age = EVERY
        yield Chart(self.look)

    def show(self, run: RunState) -> None:
        version = run.curves.version
        self._age += 1
        if version != self._version and (self._age >= EVERY or run.phase is RunPhase.ENDED):
            self._version, self._age = version, 0
            restarts = [
                (restart.seconds if self.look.clock else float(restart.step), "R")
                for restart in run.progress.restarts
            ]
            self.query_one(Chart).draw(
                [self._curve(number, run) for number in run.curves.rows(self.series)], restarts
            )
        self.caption(self._legend(len(run.ranks), bool(run.progress.restarts)))

    def _curve(self, number: int, run: RunState) -> Curve:
        points = run.curves.of(self.series, number)
        x = points.time if self.look.clock else points.step
        return Curve(str(number), number, x, points.low, points.high, points.mean)

    def action_log_y(self) -> None:
        """Switch between logarithmic and linear y axes, those of all charts."""
        to = not self.query_one(Chart).logarithmic
        for chart in self.screen.query(Chart):
            chart.logarithmic = to

    def _legend(self, ranks: int, restarted: bool) -> Content:
        scale = "log  " if self.query_one(Chart).logarithmic else ""
        room = self.size.width - AROUND - len(self.title) - len(scale)
        mark = f"{palette.sign('mark')} restart  "
        if restarted and room >= len(mark) + len("●0 …"):
            scale, room = scale + mark, room - len(mark)
        dark = self.app.current_theme.dark
        names = [
            (name, palette.colour(rank, dark)) for rank, name in enumerate(_named(ranks, room))
        ]
        return Content.assemble(scale, *names, "…" if len(names) < ranks else "")


def _named(ranks: int, room: int) -> list[str]:
    """Name all ranks, or as many as fit before a sign that there are more; at least one."""
    names = [f"{palette.sign('curve')}{rank} " for rank in range(ranks)]
    ends = list(accumulate(map(len, names)))
    if ends[-1] <= room + 1:  # the last one's blank needs no room
        return names
    return names[: max(1, sum(end < room for end in ends))]
