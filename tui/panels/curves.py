"""What the panels with a chart share: one curve per rank, copied only when it has grown."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from textual.app import ComposeResult
from textual.content import Content

from remote.run import RankState, RunPhase, RunState, Series
from tui.panels.panel import Panel
from tui.widgets import palette
from tui.widgets.chart import Chart
from tui.widgets.frame import Look
from tui.widgets.raster import Curve

EVERY = 2
"""Ticks from one drawing of a curve that grows to the next: a chart takes ten times what a table's row does."""
RESTART = 50
"""Cells of width from which the legend names the mark of a restart."""


class Curves(Panel):
    """A chart of one of the ranks' series."""

    look: ClassVar[Look]

    def series(self, rank: RankState) -> Series:
        """The series of a rank that is drawn."""
        raise NotImplementedError

    def compose(self) -> ComposeResult:
        self._versions: list[int] = []
        self._age = EVERY
        yield Chart(self.look)

    def show(self, run: RunState) -> None:
        series = [self.series(rank) for rank in run.ranks]
        versions = [each.version for each in series]
        self._age += 1
        if versions != self._versions and (self._age >= EVERY or run.phase is RunPhase.ENDED):
            self._versions, self._age = versions, 0
            restarts = [restart.seconds if self.look.clock else restart.step for restart in run.restarts]
            self.query_one(Chart).draw([_curve(number, each) for number, each in enumerate(series)], restarts)
        self.caption(self._legend(len(series), bool(run.restarts)))

    def toggle_log(self) -> None:
        """A logarithmic y axis, or again a linear one."""
        chart = self.query_one(Chart)
        chart.logarithmic = not chart.logarithmic

    def _legend(self, ranks: int, restarted: bool) -> Content:
        dark = self.app.current_theme.dark
        scale = "log  " if self.query_one(Chart).logarithmic else ""
        scale += f"{palette.sign('mark')} restart  " if restarted and self.size.width >= RESTART else ""
        room = max(0, self.size.width - len(self.title) - len(scale) - len("  9    … "))
        named = ranks if 4 * ranks - 10 <= room else min(ranks, (room + 10) // 4)
        names = [(f"{palette.sign('curve')}{rank} ", palette.colour(rank, dark)) for rank in range(named)]
        return Content.assemble(scale, *names, "…" if named < ranks else "")


def _curve(number: int, series: Series) -> Curve:
    """The series as it is now; the reducer changes it in place."""
    return Curve(str(number), number, *(np.array(values) for values in (series.x, series.low, series.high, series.mean)))
