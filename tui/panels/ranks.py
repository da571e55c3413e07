"""The table of ranks."""

from __future__ import annotations

import math

from textual.app import ComposeResult

from remote.format import UNKNOWN, duration, number, percent, short_size
from remote.plan.plan import Plan
from remote.run.state import RankState, RunState
from remote.run.waiting import STARTING, age
from tui import palette
from tui.panels.parts.panel import Panel, ScreenRow
from tui.panels.parts.phase import phase
from tui.session_clock import SessionClock
from tui.widgets.log_view import plain
from tui.widgets.table import Cell, Column, Row, Table

COLUMNS = (
    Column("rank", 5),
    Column("host", 10, right=False, most=24),
    Column("phase", 13, right=False),
    Column("epoch:step", 11),
    Column("loss", 7),
    Column("acc", 6),
    Column("s/iter", 7),
    Column("sync", 6),
    Column("CPU", 6),
    Column("memory", 7),
)


class Ranks(Panel):
    """One line per rank: its host, phase, progress, pace and load."""

    title = "ranks"
    help = "every rank: its phase, step, loss, pace and load"
    row = ScreenRow.TOP
    share = 2

    def __init__(self) -> None:
        super().__init__()
        self._clock = SessionClock()

    @classmethod
    def lines(cls, plan: Plan) -> int:
        """One line per rank, with the head of the table and the border."""
        return plan.world_size + 2

    def compose(self) -> ComposeResult:
        yield Table(COLUMNS)

    def show(self, run: RunState) -> None:
        dark = self.app.current_theme.dark
        now = self._clock.now(run)
        self.query_one(Table).fill(
            [
                _row(rank, run.hosts[rank.host].name, _far(rank, run, now), dark)
                for rank in run.ranks
            ]
        )


def _far(rank: RankState, run: RunState, now: float) -> str:
    """Format epoch and step; before the first step, the age of the phase."""
    if rank.step:
        return f"{rank.epoch}:{rank.step}"
    if rank.phase not in STARTING[1:]:
        return UNKNOWN
    return f"for {duration(age(rank.since, run, now))}"


def _row(rank: RankState, host: str, far: str, dark: bool) -> Row:
    accuracy = rank.accuracy if rank.test_accuracy != rank.test_accuracy else rank.test_accuracy
    return (
        Cell(str(rank.rank), palette.colour(rank.rank, dark)),
        Cell(plain(host)),
        phase(rank.doing),
        Cell(far),
        Cell("nan" if rank.step and math.isnan(rank.loss) else number(rank.loss)),
        Cell(percent(accuracy)),
        Cell(number(rank.seconds)),
        Cell(percent(rank.pace.per_second("sync"))),
        Cell(percent(rank.cpu / 100)),
        Cell(short_size(rank.memory)),
    )
