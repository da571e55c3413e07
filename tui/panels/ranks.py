"""The table of ranks."""

from __future__ import annotations

from textual.app import ComposeResult

from remote.run import RankState, RunState
from tui.panels import figures
from tui.panels.panel import Panel
from tui.widgets import palette
from tui.widgets.log_view import plain
from tui.widgets.table import Cell, Column, Row, Table

COLUMNS = (
    Column("rank", 5),
    Column("host", 10, right=False, most=24),
    Column("phase", 13, right=False),
    Column("epoch/step", 11),
    Column("loss", 7),
    Column("acc", 6),
    Column("s/iter", 7),
    Column("sync", 6),
    Column("CPU", 6),
    Column("memory", 7),
)


class Ranks(Panel):
    """One line per rank: where it runs, what it does, how far and how fast it is."""

    title = "ranks"

    def compose(self) -> ComposeResult:
        yield Table(COLUMNS)

    def show(self, run: RunState) -> None:
        dark = self.app.current_theme.dark
        self.query_one(Table).fill([_row(rank, run.hosts[rank.host].name, dark) for rank in run.ranks])


def _row(rank: RankState, host: str, dark: bool) -> Row:
    accuracy = rank.accuracy if rank.test_accuracy != rank.test_accuracy else rank.test_accuracy
    return (
        Cell(str(rank.rank), palette.colour(rank.rank, dark)),
        Cell(plain(host)),
        figures.phase(rank.phase),
        Cell(f"{rank.epoch}/{rank.step}" if rank.step else figures.DASH),
        Cell(figures.number(rank.loss)),
        Cell(figures.percent(accuracy)),
        Cell(figures.number(rank.seconds)),
        Cell(figures.percent(rank.sync_share)),
        Cell(figures.percent(rank.cpu / 100)),
        Cell(figures.memory(rank.memory)),
    )
